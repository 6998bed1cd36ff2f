//! Vectors that come from elsewhere: row i of a NumPy array, of a Parquet file, or of a file of a benchmark belongs to
//! document i.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use dyad_command::JobCancellation;
use dyad_files::is_lfs_pointer_file;
use dyad_files::npy::{NpyDtype, NpyError, NpyFile};
use dyad_index::{Metric, ModelRecord};

use super::parquet::{self, KeyColumn, VectorColumn};
use super::raw::{self, RawVectors};
use super::{EmbeddedDocument, LocatedDocuments, VectorSource};
use crate::error::Error;

/// Rows read at a time.
const BLOCK: usize = 1 << 10;
const HINT: &str = "Save it with `numpy.save` as a C-ordered [documents, values] array of float32 or float16, in the order of the \
                    documents";
/// The first bytes of a Parquet file.
const PARQUET: [u8; 4] = *b"PAR1";

#[derive(Debug)]
enum VectorFile {
    Npy(NpyFile),
    Parquet(Box<VectorColumn>),
    Raw(RawVectors),
}

/// Vectors of an array, with the model that is said to have made them.
#[derive(Debug)]
pub struct ArraySource {
    path: PathBuf,
    values: VectorFile,
    /// Keys that are compared with those of the documents.
    keys: Option<KeyColumn>,
    rows: usize,
    model: ModelRecord,
    next: usize,
    /// Values of the rows from `next` on that have been read.
    block: Vec<f32>,
    at: usize,
}

/// The model of vectors that come from elsewhere, as the user declares it.
#[derive(Debug, Clone, Copy)]
pub struct DeclaredModel<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its fingerprint; without one, the name stands for it.
    pub fingerprint: Option<&'a str>,
    /// How its vectors are compared.
    pub metric: Metric,
}

impl<'a> DeclaredModel<'a> {
    /// A model of unit vectors without a fingerprint.
    pub fn named(name: &'a str) -> Self {
        Self {
            name,
            fingerprint: None,
            metric: Metric::Cosine,
        }
    }
}

impl ArraySource {
    /// Opens a `.npy` file of shape `[rows, values]`, type `<f4` or `<f2`, or a Parquet file with lists of float32 or
    /// float64 in a column `vector` or `embedding`, and with keys in a column `_id`, `key` or `id`, if it has one, or
    /// an `.fbin` or `.fvecs` file. `model` says which model made them and how they are compared; for
    /// [`Metric::Cosine`] they are normalised to length 1.
    pub fn open(path: &Path, model: &DeclaredModel<'_>) -> Result<Self, Error> {
        if is_lfs_pointer_file(path)? {
            return Err(dyad_corpus::Error::LfsPointer { path: path.to_owned() }.into());
        }
        let (values, rows, dim, keys) = if let Some(file) = RawVectors::open(path)? {
            let (rows, dim) = (file.rows, file.dim);
            (VectorFile::Raw(file), rows, dim, None)
        } else if is_parquet(path)? {
            let column = VectorColumn::open(path)?;
            let (rows, dim, keys) = (column.rows, column.dim, KeyColumn::find(path)?);
            (VectorFile::Parquet(Box::new(column)), rows, dim, keys)
        } else {
            let refused = |error| refused(path, error);
            let file = NpyFile::open(path).map_err(refused)?;
            file.check_dtype(&[NpyDtype::F32, NpyDtype::F16]).map_err(refused)?;
            let (rows, dim) = file.rows_and_columns().map_err(refused)?;
            (VectorFile::Npy(file), rows, dim, None)
        };
        if dim == 0 {
            let (part, expected, got) = (
                "shape".to_owned(),
                "at least 1 value in a row".to_owned(),
                "0".to_owned(),
            );
            return Err(Error::Vectors {
                path: path.to_owned(),
                part,
                expected,
                got,
                hint: HINT,
            });
        }
        let &DeclaredModel {
            name,
            fingerprint,
            metric,
        } = model;
        let fingerprint = fingerprint.map_or_else(|| format!("declared:{name}"), str::to_owned);
        let model = ModelRecord {
            name: name.to_owned(),
            fingerprint,
            dim,
            full_dim: None,
            metric,
            max_tokens: 0,
        };
        let (next, at, block) = (0, 0, Vec::new());
        Ok(Self {
            path: path.to_owned(),
            values,
            keys,
            rows,
            model,
            next,
            block,
            at,
        })
    }

    /// Rows of the array.
    pub fn rows(&self) -> u64 {
        self.rows as u64
    }

    /// Takes the keys of the documents as they are.
    pub fn ignore_keys(&mut self) {
        self.keys = None;
    }

    /// Whether the file holds keys.
    pub fn has_keys(&self) -> bool {
        self.keys.is_some()
    }

    fn refused_row(&self, row: u64, expected: String, got: String) -> Error {
        let hint = match self.values {
            VectorFile::Npy(_) => HINT,
            VectorFile::Parquet(_) => parquet::HINT,
            VectorFile::Raw(_) => raw::HINT,
        };
        Error::Vectors {
            path: self.path.clone(),
            part: format!("row {}", row + 1),
            expected,
            got,
            hint,
        }
    }

    /// The next row; none at the end.
    fn row(&mut self) -> Result<Option<Vec<f32>>, Error> {
        let dim = self.model.dim;
        if self.at + dim > self.block.len() {
            let end = (self.next + BLOCK).min(self.rows);
            if self.next >= end {
                return Ok(None);
            }
            self.block = match &mut self.values {
                VectorFile::Npy(file) => file
                    .read_f32(self.next * dim..end * dim)
                    .map_err(|error| refused(&self.path, error))?,
                VectorFile::Parquet(column) => column.block(end - self.next)?,
                VectorFile::Raw(file) => file.block(end - self.next)?,
            };
            self.at = 0;
        }
        let row = self.block.get(self.at..self.at + dim).unwrap_or_default().to_vec();
        self.at += dim;
        self.next += 1;
        Ok(Some(row))
    }
}

fn is_parquet(path: &Path) -> std::io::Result<bool> {
    let mut head = Vec::new();
    fs_err::File::open(path)?
        .take(PARQUET.len() as u64)
        .read_to_end(&mut head)?;
    Ok(head == PARQUET)
}

fn refused(path: &Path, error: NpyError) -> Error {
    match error {
        NpyError::Malformed {
            part, expected, got, ..
        } => Error::Vectors {
            path: path.to_owned(),
            part: part.to_owned(),
            expected,
            got,
            hint: HINT,
        },
        NpyError::Io(error) => error.into(),
    }
}

/// Scales a row to length 1; rows without a direction are left to the check that all vectors pass.
pub(crate) fn normalise(row: &mut [f32]) {
    let length = row
        .iter()
        .map(|value| f64::from(*value) * f64::from(*value))
        .sum::<f64>()
        .sqrt();
    if length >= f64::from(f32::MIN_POSITIVE) && length.is_finite() {
        for value in row {
            *value = (f64::from(*value) / length) as f32;
        }
    }
}

impl VectorSource for ArraySource {
    fn model(&self) -> &ModelRecord {
        &self.model
    }

    fn is_in_step(&self) -> bool {
        true
    }

    fn documents(&self) -> Option<u64> {
        Some(self.rows())
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let number = self.next as u64;
        match (corpus.next().transpose()?, self.row()?) {
            (None, None) => Ok(None),
            (Some(document), Some(mut row)) => {
                if let Some(got) = self.keys.as_mut().map(KeyColumn::next).transpose()?.flatten()
                    && got != document.value.key
                {
                    let expected = format!("key `{}`, of line {}", document.value.key, document.line);
                    return Err(self.refused_row(number, expected, format!("`{got}`")));
                }
                if self.model.metric == Metric::Cosine {
                    normalise(&mut row);
                }
                Ok(Some(EmbeddedDocument {
                    document: document.value,
                    row,
                    truncated: None,
                }))
            }
            (document, _) => {
                let (expected, got) = match document {
                    Some(document) => (
                        format!("a row for document `{}`", document.value.key),
                        "the end".to_owned(),
                    ),
                    None => (format!("{number} rows, one for each document"), self.rows.to_string()),
                };
                Err(self.refused_row(number, expected, got))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use dyad_corpus::{Document, Located};

    use super::*;

    fn pull_all(source: &mut ArraySource, keys: usize) -> Result<Vec<EmbeddedDocument>, Error> {
        let document = |number: usize| Document {
            key: number.to_string(),
            ..Document::default()
        };
        let mut documents = (0..keys).map(|number| {
            Ok(Located {
                value: document(number),
                line: 0,
            })
        });
        let (mut all, cancel) = (Vec::new(), JobCancellation::new());
        while let Some(embedded) = source.pull(&mut documents, &cancel)? {
            all.push(embedded);
        }
        Ok(all)
    }

    #[test]
    fn rows_are_normalised_and_belong_to_documents_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.npy");
        let rows = BLOCK * 2 + 7;
        let values: Vec<f32> = (0..rows)
            .flat_map(|row| [3.0 * (row + 1) as f32, 4.0 * (row + 1) as f32])
            .collect();
        dyad_files::npy::write(&path, &[rows, 2], &values).unwrap();
        let open = || ArraySource::open(&path, &DeclaredModel::named("other")).unwrap();
        let mut source = open();
        assert_eq!((source.rows(), source.model().dim), (rows as u64, 2));
        assert_eq!(source.model().fingerprint, "declared:other");
        let all = pull_all(&mut source, rows).unwrap();
        assert_eq!(all.len(), rows);
        assert!(all.iter().all(|embedded| embedded.row == [0.6, 0.8]));
        assert_eq!(all[BLOCK + 1].document.key, (BLOCK + 1).to_string());
        let few = pull_all(&mut open(), rows - 1).unwrap_err().to_string();
        assert!(
            few.contains("v.npy") && few.contains(&format!("{} rows", rows - 1)),
            "{few}"
        );
        let many = pull_all(&mut open(), rows + 1).unwrap_err().to_string();
        assert!(many.contains(&format!("document `{rows}`")), "{many}");
        for metric in [Metric::Dot, Metric::L2] {
            let model = DeclaredModel {
                metric,
                ..DeclaredModel::named("other")
            };
            let all = pull_all(&mut ArraySource::open(&path, &model).unwrap(), rows).unwrap();
            assert!(all[1].row == [6.0, 8.0], "{metric:?}: as they are");
        }
        dyad_files::npy::write::<f32>(&path, &[rows, 0], &[]).unwrap();
        let refused = ArraySource::open(
            &path,
            &DeclaredModel {
                metric: Metric::L2,
                ..DeclaredModel::named("other")
            },
        );
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("v.npy") && refused.contains("at least 1 value in a row, got 0"),
            "{refused}"
        );
        fs_err::write(&path, "no array").unwrap();
        let refused = ArraySource::open(&path, &DeclaredModel::named("other"))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("v.npy") && refused.contains("numpy.save"), "{refused}");
    }
}
