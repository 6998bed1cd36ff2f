//! Vectors in the plain files of ANN benchmarks: `.fbin` (big-ann-benchmarks) and `.fvecs` (TEXMEX), float32,
//! little-endian.
//!
//! ```text
//! .fbin    u32 rows, u32 values, then rows * values float32
//! .fvecs   for each row: i32 n, then n float32
//! ```

use std::io::{BufReader, Read as _};
use std::path::Path;

use crate::error::Error;

pub(super) const HINT: &str = "An .fbin file is u32 rows, u32 values and the values; an .fvecs file has i32 values before each row; all little-endian";

/// The rows of one file.
#[derive(Debug)]
pub(super) struct RawVectors {
    file: BufReader<fs_err::File>,
    /// Whether the number of values stands before each row.
    counted: bool,
    pub(super) rows: usize,
    pub(super) dim: usize,
    row: usize,
}

impl RawVectors {
    /// Opens a file by the end of its name; nothing where that is another one.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, Error> {
        let counted = match path.extension().and_then(|extension| extension.to_str()) {
            Some("fvecs") => true,
            Some("fbin") => false,
            _ => return Ok(None),
        };
        let refuse = |part: &str, expected: String, got: String| Error::Vectors {
            path: path.to_owned(),
            part: part.to_owned(),
            expected,
            got,
            hint: HINT,
        };
        let file = fs_err::File::open(path)?;
        let bytes = file.metadata()?.len();
        let mut file = BufReader::with_capacity(1 << 20, file);
        let head = if counted { 4 } else { 8 };
        if bytes < head {
            return Err(refuse("header", format!("{head} bytes"), format!("{bytes}")));
        }
        let first = u64::from(number(&mut file)?);
        let (rows, dim) = if counted {
            // Read again before each row.
            file = BufReader::with_capacity(1 << 20, fs_err::File::open(path)?);
            let row = 4 * (first + 1);
            if !bytes.is_multiple_of(row) {
                return Err(refuse(
                    "size",
                    format!("rows of {row} bytes, as the first one has"),
                    format!("{bytes} bytes"),
                ));
            }
            (bytes / row, first)
        } else {
            let dim = u64::from(number(&mut file)?);
            let expected = first
                .checked_mul(dim)
                .and_then(|values| values.checked_mul(4)?.checked_add(head));
            if expected != Some(bytes) {
                return Err(refuse(
                    "size",
                    format!("{first} rows of {dim} values after the header"),
                    format!("{bytes} bytes"),
                ));
            }
            (first, dim)
        };
        let narrow = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        Ok(Some(Self {
            file,
            counted,
            rows: narrow(rows),
            dim: narrow(dim),
            row: 0,
        }))
    }

    /// At most that many next rows, one after the other; none at the end.
    pub(super) fn block(&mut self, most: usize) -> Result<Vec<f32>, Error> {
        let rows = most.min(self.rows - self.row);
        let mut values = Vec::with_capacity(rows * self.dim);
        let mut bytes = vec![0; self.dim * 4];
        for _ in 0..rows {
            if self.counted {
                let dim = number(&mut self.file)? as usize;
                if dim != self.dim {
                    let (part, expected) = (
                        format!("row {}", self.row + 1),
                        format!("{} values, as the first one has", self.dim),
                    );
                    let path = self.file.get_ref().path().to_owned();
                    return Err(Error::Vectors {
                        path,
                        part,
                        expected,
                        got: dim.to_string(),
                        hint: HINT,
                    });
                }
            }
            self.file.read_exact(&mut bytes)?;
            values.extend(bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)));
            self.row += 1;
        }
        Ok(values)
    }
}

fn number(file: &mut BufReader<fs_err::File>) -> std::io::Result<u32> {
    let mut bytes = [0; 4];
    file.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As numpy writes them: `np.array([2, 3], np.uint32).tofile(f); rows.tofile(f)`, and
    /// `np.insert(rows.view(np.int32), 0, 3, 1).tofile(f)`.
    fn bytes(counted: bool, rows: &[[f32; 3]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !counted {
            bytes.extend([rows.len() as u32, 3].into_iter().flat_map(u32::to_le_bytes));
        }
        for row in rows {
            if counted {
                bytes.extend(3_u32.to_le_bytes());
            }
            bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
        }
        bytes
    }

    #[test]
    fn both_forms_are_read_in_blocks_and_what_does_not_fit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let rows = [[1.0, 2.0, 3.0], [-1.0, 0.5, 1e-9], [7.0, 8.0, 9.0]];
        for (name, counted) in [("a.fbin", false), ("a.fvecs", true)] {
            let path = dir.path().join(name);
            let whole = bytes(counted, &rows);
            fs_err::write(&path, &whole).unwrap();
            let mut file = RawVectors::open(&path).unwrap().unwrap();
            assert_eq!((file.rows, file.dim), (3, 3));
            assert_eq!(file.block(2).unwrap(), rows[..2].concat());
            assert_eq!(
                (file.block(2).unwrap(), file.block(2).unwrap()),
                (rows[2].to_vec(), vec![])
            );
            for length in [0, 3, 7, whole.len() - 1] {
                fs_err::write(&path, &whole[..length]).unwrap();
                let error = RawVectors::open(&path).unwrap_err().to_string();
                assert!(error.contains(name) && error.contains("little-endian"), "{error}");
            }
        }
        let path = dir.path().join("b.fvecs");
        let mut other = bytes(true, &rows);
        other[16] = 2;
        fs_err::write(&path, other).unwrap();
        let error = RawVectors::open(&path)
            .unwrap()
            .unwrap()
            .block(3)
            .unwrap_err()
            .to_string();
        assert!(error.contains("row 2: expected 3 values"), "{error}");
        let path = dir.path().join("c.npy");
        assert!(RawVectors::open(&path).unwrap().is_none());
    }
}
