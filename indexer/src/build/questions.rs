//! Questions that a build is measured with: an embeddings directory of the question tower, or a NumPy file.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use dyad_corpus::embeddings::EmbeddingsReader;
use dyad_index::ModelRecord;
use dyad_index::search::VectorRows;

use crate::error::Error;

/// The tower that embeds questions.
const TOWER: &str = "question";
/// Begins every `.npy` file.
const MAGIC: &[u8] = b"\x93NUMPY";
/// What to do about a file that is not one.
const SAVE: &str = "Save it with `numpy.save` as a C-ordered [questions, values] array of float32 or float16";

/// Unit vectors of questions, in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Questions {
    values: Vec<f32>,
    dim: usize,
}

impl VectorRows for Questions {
    fn dim(&self) -> usize {
        self.dim
    }

    fn len(&self) -> usize {
        self.values.len().checked_div(self.dim).unwrap_or(0)
    }

    fn row(&self, node: u32) -> &[f32] {
        let start = node as usize * self.dim;
        self.values.get(start..start + self.dim).unwrap_or(&[])
    }
}

impl Questions {
    /// Reads questions for an index of `model`: a directory that `dyad-encoder embed --tower question` has made with the
    /// same model, or a `.npy` file of shape `[questions, dim]`, type `<f4` or `<f2`. Rows are stretched to length 1.
    pub fn open(path: &Path, model: &ModelRecord) -> Result<Self, Error> {
        let refuse = Refuse(path);
        let (dim, mut values) = if path.is_dir() { read_directory(path, model)? } else { read_npy(path)? };
        if dim != model.dim {
            let fix = "Embed the questions with the model of the documents";
            return refuse.because("values per row", &model.dim.to_string(), &dim.to_string(), fix);
        }
        if values.is_empty() {
            return refuse.because("rows", "at least 1", "0", "Leave `--queries` out to measure with documents");
        }
        for (number, row) in values.chunks_exact_mut(dim).enumerate() {
            let length = row.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt();
            // False for NaN as well.
            if !(length >= f64::from(f32::MIN_POSITIVE) && length.is_finite()) {
                let (expected, got) = ("finite values that are not all zero", format!("length {length}"));
                return refuse.because(&format!("row {number}"), expected, &got, "Embed the question again");
            }
            for value in row {
                *value = (f64::from(*value) / length) as f32;
            }
        }
        Ok(Self { values, dim })
    }
}

/// The beginning of every refusal.
struct Refuse<'a>(&'a Path);

impl Refuse<'_> {
    fn because<T>(&self, part: &str, expected: &str, got: &str, fix: &'static str) -> Result<T, Error> {
        let (path, part) = (PathBuf::from(self.0), part.to_owned());
        Err(Error::Questions { path, part, expected: expected.to_owned(), got: got.to_owned(), fix })
    }
}

fn read_directory(dir: &Path, model: &ModelRecord) -> Result<(usize, Vec<f32>), Error> {
    let reader = EmbeddingsReader::open(dir)?;
    if reader.tower() != TOWER {
        let fix = "Embed the questions with `dyad-encoder embed --tower question`";
        return Refuse(dir).because("tower", TOWER, reader.tower(), fix);
    }
    let got = &reader.model().fingerprint;
    if *got != model.fingerprint {
        let fix = "Embed the questions with the model of the documents";
        return Refuse(dir).because("model fingerprint", &model.fingerprint, got, fix);
    }
    let dim = reader.dim();
    let mut values = Vec::new();
    for row in reader {
        values.extend(row?.1);
    }
    Ok((dim, values))
}

/// NumPy's format, versions 1 to 3: a magic, two bytes of version, the header's length in two or four bytes, a Python
/// dictionary as text, the values.
fn read_npy(path: &Path) -> Result<(usize, Vec<f32>), Error> {
    let refuse = Refuse(path);
    let mut bytes = Vec::new();
    fs_err::File::open(path)?.read_to_end(&mut bytes)?;
    let head = bytes.strip_prefix(MAGIC).and_then(|rest| match rest {
        [1, _, a, b, rest @ ..] => Some((usize::from(u16::from_le_bytes([*a, *b])), rest)),
        [2 | 3, _, a, b, c, d, rest @ ..] => Some((u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest)),
        _ => None,
    });
    let Some((header, body)) = head.and_then(|(length, rest)| rest.split_at_checked(length)) else {
        return refuse.because("first bytes", "a NumPy file", "something else", SAVE);
    };
    let header = String::from_utf8_lossy(header);
    if !field(&header, "fortran_order").is_some_and(|order| order.starts_with("False")) {
        return refuse.because("order", "rows one after another", "columns", SAVE);
    }
    let shape = field(&header, "shape").and_then(|shape| shape.strip_prefix('(')?.split_once(')'));
    let sizes: Vec<Option<usize>> = shape.map_or_else(Vec::new, |(shape, _)| {
        shape.split(',').map(str::trim).filter(|size| !size.is_empty()).map(|size| size.parse().ok()).collect()
    });
    let &[Some(rows), Some(dim)] = sizes.as_slice() else {
        return refuse.because("shape", "(questions, values)", shape.map_or("none", |(shape, _)| shape), SAVE);
    };
    let descr = field(&header, "descr").and_then(|descr| descr.get(1..4)).unwrap_or("none");
    let width = match descr {
        "<f4" => 4,
        "<f2" => 2,
        _ => return refuse.because("type", "<f4 or <f2", descr, SAVE),
    };
    let expected = rows.checked_mul(dim).and_then(|count| count.checked_mul(width));
    if expected != Some(body.len()) {
        let (expected, got) = (format!("{rows} x {dim} values of {width} bytes"), format!("{} bytes", body.len()));
        return refuse.because("length", &expected, &got, "Copy or save the file again");
    }
    let values = if width == 4 {
        body.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
    } else {
        body.as_chunks::<2>().0.iter().map(|value| half::f16::from_le_bytes(*value).to_f32()).collect()
    };
    Ok((dim, values))
}

/// What follows a key of the header's dictionary.
fn field<'a>(header: &'a str, key: &str) -> Option<&'a str> {
    let (_, rest) = header.split_once(&format!("'{key}':"))?;
    Some(rest.trim_start())
}

#[cfg(test)]
mod tests {
    use dyad_index::Metric;

    use super::*;

    fn npy(header: &str, body: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [MAGIC, &[1, 0], &length, header.as_bytes(), body].concat()
    }

    fn read(bytes: &[u8], dim: usize) -> Result<Questions, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.npy");
        fs_err::write(&path, bytes).unwrap();
        let (name, fingerprint) = ("m".to_owned(), "f".to_owned());
        Questions::open(&path, &ModelRecord { name, fingerprint, dim, metric: Metric::Cosine, max_tokens: 1 })
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    const HEADER: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";

    #[test]
    fn both_types_are_read_and_stretched_to_length_1() {
        let expected = Questions { values: vec![0.6, 0.8, 0.0, -1.0], dim: 2 };
        assert_eq!(read(&npy(HEADER, &f32s(&[3.0, 4.0, 0.0, -2.0])), 2).unwrap(), expected);
        let halves: Vec<u8> =
            [3.0, 4.0, 0.0, -2.0].iter().flat_map(|value| half::f16::from_f32(*value).to_le_bytes()).collect();
        assert_eq!(read(&npy(&HEADER.replace("<f4", "<f2"), &halves), 2).unwrap(), expected);
    }

    #[test]
    fn what_cannot_be_asked_is_refused_with_a_reason() {
        let body = f32s(&[3.0, 4.0, 0.0, -2.0]);
        let refused = |bytes: &[u8], dim: usize, part: &str| {
            let message = read(bytes, dim).unwrap_err().to_string();
            assert!(message.contains("q.npy") && message.contains(part), "{message}");
        };
        refused(b"", 2, "a NumPy file");
        refused(&npy(HEADER, &body)[..20], 2, "a NumPy file");
        refused(&npy(HEADER, &body), 3, "expected 3, got 2");
        refused(&npy(HEADER, &body[1..]), 2, "15 bytes");
        refused(&npy(&HEADER.replace("<f4", "<f8"), &body), 2, "<f8");
        refused(&npy(&HEADER.replace("(2, 2)", "(4,)"), &body), 2, "shape");
        refused(&npy(&HEADER.replace("(2, 2)", "(0, 2)"), &[]), 2, "at least 1");
        refused(&npy(&HEADER.replace("(2, 2)", "(18446744073709551615, 2)"), &body), 2, "length");
        refused(&npy(&HEADER.replace("False", "True"), &body), 2, "order");
        refused(&npy(HEADER, &f32s(&[3.0, 4.0, 0.0, 0.0])), 2, "row 1");
        refused(&npy(HEADER, &f32s(&[3.0, f32::NAN, 0.0, 1.0])), 2, "row 0");
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let _ = read(&npy(&String::from_utf8_lossy(&bytes), &bytes), 2);
            let _ = read(&bytes, 2);
        }
    }
}
