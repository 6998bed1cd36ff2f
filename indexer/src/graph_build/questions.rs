//! The questions by which a build is measured: an embeddings directory of the question tower, or a NumPy file.

use std::path::{Path, PathBuf};

use dyad_corpus::embeddings::EmbeddingsReader;
use dyad_files::is_lfs_pointer_file;
use dyad_files::npy::{NpyDtype, NpyError, NpyFile};
use dyad_index::search::VectorRows;
use dyad_index::{Metric, ModelRecord};

use super::calibration::SAMPLE_SEED;
use super::order;
use crate::error::Error;

/// Held-out questions, sampled by seed from those that were given.
pub const HELD_OUT: usize = 1_000;

/// The tower that embeds questions.
const TOWER: &str = "question";
/// The fix for a malformed `.npy` file.
const SAVE: &str = "Save it with `numpy.save` as a C-ordered [questions, values] array of float32 or float16";

/// Vectors of the sampled questions, in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionVectors {
    values: Vec<f32>,
    dim: usize,
}

impl VectorRows for QuestionVectors {
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

impl QuestionVectors {
    /// All of them, one after another.
    pub(crate) fn values(&self) -> &[f32] {
        &self.values
    }

    /// Vectors of `dim` values, one after another.
    pub(crate) fn new(values: Vec<f32>, dim: usize) -> Self {
        Self { values, dim }
    }

    /// Reads questions for an index of `model`: a directory that `dyad-encoder embed --tower question` has made with
    /// the same model, or a `.npy` file of shape `[questions, dim]`, type `<f4` or `<f2`, where `dim` may be that of
    /// the model's own vectors. At most [`HELD_OUT`] rows are
    /// kept, sampled by `seed`, and normalised to length 1 for [`Metric::Cosine`]; of a `.npy` file no others are read.
    pub fn open(path: &Path, model: &ModelRecord, seed: u64) -> Result<Self, Error> {
        let refuse = Refuse(path);
        let read = if path.is_dir() {
            read_directory(path, model, seed)?
        } else {
            read_npy(path, seed)?
        };
        let SampledRows {
            dim,
            numbers,
            mut values,
        } = read;
        if !model.takes(dim) {
            let fix = "Embed the questions with the model of the documents";
            return refuse.because("values per row", &model.lengths(), &dim.to_string(), fix);
        }
        if dim != model.dim {
            values = cut_rows(&values, dim, model)?;
        }
        Self::checked(path, numbers, values, model)
    }

    /// Vectors of these numbers in a file, normalised as the metric needs it; refuses none at all, and those that no
    /// question can have.
    pub(crate) fn checked(
        path: &Path,
        numbers: Vec<u32>,
        mut values: Vec<f32>,
        model: &ModelRecord,
    ) -> Result<Self, Error> {
        let (refuse, dim) = (Refuse(path), model.dim);
        if values.is_empty() {
            return refuse.because("rows", "at least 1", "0", "Name a file with questions");
        }
        for (number, row) in numbers.into_iter().zip(values.chunks_exact_mut(dim)) {
            let length = row
                .iter()
                .map(|value| f64::from(*value) * f64::from(*value))
                .sum::<f64>()
                .sqrt();
            // False for NaN as well.
            if !(length >= f64::from(f32::MIN_POSITIVE) && length.is_finite()) {
                let (expected, got) = ("finite values that are not all zero", format!("length {length}"));
                return refuse.because(
                    &format!("row {}", u64::from(number) + 1),
                    expected,
                    &got,
                    "Embed the question again",
                );
            }
            if model.metric == Metric::Cosine {
                for value in row {
                    *value = (f64::from(*value) / length) as f32;
                }
            }
        }
        Ok(Self { values, dim })
    }
}

/// Sampled rows, by ascending number.
struct SampledRows {
    dim: usize,
    numbers: Vec<u32>,
    values: Vec<f32>,
}

/// The values of each row that `model` keeps.
fn cut_rows(values: &[f32], dim: usize, model: &ModelRecord) -> Result<Vec<f32>, Error> {
    let mut kept = Vec::with_capacity(values.len() / dim.max(1) * model.dim);
    for row in values.chunks_exact(dim.max(1)) {
        let mut row = row.to_vec();
        model.cut(&mut row)?;
        kept.extend(row);
    }
    Ok(kept)
}

/// Refuses a file: every error names its path.
struct Refuse<'a>(&'a Path);

impl Refuse<'_> {
    fn because<T>(&self, part: &str, expected: &str, got: &str, fix: &'static str) -> Result<T, Error> {
        let (path, part) = (PathBuf::from(self.0), part.to_owned());
        Err(Error::Questions {
            path,
            part,
            expected: expected.to_owned(),
            got: got.to_owned(),
            fix,
        })
    }
}

fn read_directory(dir: &Path, model: &ModelRecord, seed: u64) -> Result<SampledRows, Error> {
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
    let numbers = chosen(usize::try_from(reader.rows()).unwrap_or(usize::MAX), seed);
    let mut values = Vec::with_capacity(numbers.len() * dim);
    let mut wanted = numbers.iter().copied().peekable();
    for (number, row) in (0..).zip(reader) {
        // Every row is read, so that every checksum is compared.
        let row = row?.1;
        if wanted.next_if_eq(&number).is_some() {
            values.extend(row);
        }
    }
    Ok(SampledRows { dim, numbers, values })
}

fn read_npy(path: &Path, seed: u64) -> Result<SampledRows, Error> {
    let refused = |error: NpyError| match error {
        NpyError::Malformed {
            path,
            part,
            expected,
            got,
        } => Error::Questions {
            path,
            part: part.to_owned(),
            expected,
            got,
            fix: SAVE,
        },
        NpyError::Io(error) => error.into(),
    };
    if is_lfs_pointer_file(path)? {
        return Err(dyad_corpus::Error::LfsPointer { path: path.to_owned() }.into());
    }
    let mut file = NpyFile::open(path).map_err(refused)?;
    file.check_dtype(&[NpyDtype::F32, NpyDtype::F16]).map_err(refused)?;
    let (rows, dim) = file.rows_and_columns().map_err(refused)?;
    // A row of no values takes no bytes, so that their number is whatever the header says.
    let numbers = if dim == 0 { Vec::new() } else { chosen(rows, seed) };
    let mut values = Vec::with_capacity(numbers.len() * dim);
    for &number in &numbers {
        let start = number as usize * dim;
        values.extend(file.read_f32(start..start + dim).map_err(refused)?);
    }
    Ok(SampledRows { dim, numbers, values })
}

/// The rows that are sampled: at most [`HELD_OUT`], by seed.
fn chosen(rows: usize, seed: u64) -> Vec<u32> {
    order::sample_numbers(rows.min(u32::MAX as usize), HELD_OUT, seed ^ SAMPLE_SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(header: &str, body: &[u8]) -> Vec<u8> {
        let length = (header.len() as u16).to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), body].concat()
    }

    fn read(bytes: &[u8], dim: usize) -> Result<QuestionVectors, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("q.npy");
        fs_err::write(&path, bytes).unwrap();
        let (name, fingerprint) = ("m".to_owned(), "f".to_owned());
        QuestionVectors::open(
            &path,
            &ModelRecord {
                name,
                fingerprint,
                dim,
                full_dim: None,
                metric: Metric::Cosine,
                max_tokens: 1,
            },
            7,
        )
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    const HEADER: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n";

    #[test]
    fn both_types_are_read_and_normalised() {
        let expected = QuestionVectors {
            values: vec![0.6, 0.8, 0.0, -1.0],
            dim: 2,
        };
        assert_eq!(read(&npy(HEADER, &f32s(&[3.0, 4.0, 0.0, -2.0])), 2).unwrap(), expected);
        let halves: Vec<u8> = [3.0, 4.0, 0.0, -2.0]
            .iter()
            .flat_map(|value| half::f16::from_f32(*value).to_le_bytes())
            .collect();
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
        refused(&npy(HEADER, &body)[..20], 2, "the end of the file");
        refused(&npy(HEADER, &body), 3, "expected 3, got 2");
        refused(&npy(HEADER, &body[1..]), 2, "file size");
        refused(&npy(&HEADER.replace("<f4", "<f8"), &body), 2, "<f8");
        refused(&npy(&HEADER.replace("(2, 2)", "(4,)"), &body), 2, "shape");
        refused(&npy(&HEADER.replace("(2, 2)", "(0, 2)"), &[]), 2, "at least 1");
        refused(
            &npy(&HEADER.replace("(2, 2)", "(18446744073709551615, 2)"), &body),
            2,
            "file size",
        );
        refused(&npy(&HEADER.replace("False", "True"), &body), 2, "order");
        refused(&npy(HEADER, &f32s(&[3.0, 4.0, 0.0, 0.0])), 2, "row 2");
        refused(&npy(HEADER, &f32s(&[3.0, f32::NAN, 0.0, 1.0])), 2, "row 1");
    }

    #[test]
    fn of_many_questions_a_sample_by_seed_is_read() {
        let n = 3 * HELD_OUT;
        let body = f32s(&(0..n).flat_map(|row| [1.0, row as f32]).collect::<Vec<f32>>());
        let questions = read(&npy(&HEADER.replace("(2, 2)", &format!("({n}, 2)")), &body), 2).unwrap();
        let numbers = order::sample_numbers(n, HELD_OUT, 7 ^ SAMPLE_SEED);
        assert_eq!((questions.len(), numbers.len()), (HELD_OUT, HELD_OUT));
        for (at, number) in (0..).zip(numbers) {
            let row = questions.row(at);
            assert!(
                (row[1] / row[0] - number as f32).abs() < 1e-2 * (number as f32).max(1.0),
                "{row:?}, row {number}"
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            for file in [npy(&String::from_utf8_lossy(&bytes), &bytes), bytes] {
                match read(&file, 2) {
                    Ok(questions) => assert!(questions.len() > 0 && questions.dim == 2),
                    Err(refused) => assert!(refused.to_string().contains("q.npy"), "{refused}"),
                }
            }
        }
    }
}
