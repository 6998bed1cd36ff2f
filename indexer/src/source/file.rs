//! Vectors from an embeddings directory: row i belongs to document i. Keys are compared row by row, and digests of the
//! texts part by part.

use std::path::{Path, PathBuf};

use dyad_command::JobCancellation;
use dyad_corpus::PassageContext;
use dyad_corpus::embeddings::{EmbeddingsReader, SourceDigest};
use dyad_index::ModelRecord;

use super::late::check_place;
use super::{EmbeddedDocument, LocatedDocuments, VectorSource};
use crate::error::Error;

/// The tower that embeds documents.
const TOWER: &str = "answer";

/// Reads an embeddings directory with the corpus.
#[derive(Debug)]
pub struct FileSource {
    dir: PathBuf,
    reader: EmbeddingsReader,
    model: ModelRecord,
    row: u64,
    /// Digest of the documents since the end of the last part.
    digest: SourceDigest,
    /// Of what the context of the vectors decides.
    contexts: SourceDigest,
}

impl FileSource {
    /// Opens a complete directory that the answer tower has made.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let reader = EmbeddingsReader::open(dir)?;
        if reader.tower() != TOWER {
            return Err(Error::Tower {
                dir: dir.to_owned(),
                expected: TOWER,
                got: reader.tower().to_owned(),
            });
        }
        let model = reader.model().clone();
        let model = ModelRecord::of_unit_vectors(
            model.name,
            model.fingerprint,
            model.dim,
            &model.metric,
            model.max_tokens,
        )?;
        Ok(Self::of(dir, reader, model))
    }

    /// Opens a directory whose vectors are of this model, compared by whatever metric.
    pub(crate) fn open_of(dir: &Path, model: &ModelRecord) -> Result<Self, Error> {
        let reader = EmbeddingsReader::open(dir)?;
        let got = reader.model();
        if (&got.fingerprint, got.dim, got.metric.as_str())
            != (&model.fingerprint, model.dim, model.metric.to_string().as_str())
        {
            let (url, expected) = (dir.display().to_string(), model.fingerprint.clone());
            return Err(Error::ModelChanged {
                url,
                expected,
                got: got.fingerprint.clone(),
            });
        }
        Ok(Self::of(dir, reader, model.clone()))
    }

    fn of(dir: &Path, reader: EmbeddingsReader, model: ModelRecord) -> Self {
        if reader.vector_type().is_bits() {
            tracing::warn!(
                "`{}` holds a bit for each value of a vector: documents are found by these, worse than by those of whole vectors in \
                 one index. Embed with another `--vector-type` where that is not meant",
                dir.display()
            );
        }
        Self {
            dir: dir.to_owned(),
            reader,
            model,
            row: 0,
            digest: SourceDigest::default(),
            contexts: SourceDigest::default(),
        }
    }

    /// Number type that the vectors were computed in, where the set says so.
    pub fn dtype(&self) -> Option<&str> {
        self.reader.dtype()
    }
}

impl VectorSource for FileSource {
    fn model(&self) -> &ModelRecord {
        &self.model
    }

    fn is_in_step(&self) -> bool {
        true
    }

    fn documents(&self) -> Option<u64> {
        Some(self.reader.rows())
    }

    fn truncated(&self) -> Option<u64> {
        self.reader.truncated()
    }

    fn has_two_towers(&self) -> Option<bool> {
        self.reader.two_towers()
    }

    fn known_logit_scale(&self) -> Option<f64> {
        // That of a model is of its vectors' cosines; those of bits lie otherwise.
        self.reader
            .logit_scale()
            .filter(|_| !self.reader.vector_type().is_bits())
    }

    fn context(&self) -> PassageContext {
        self.reader.context()
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let document = corpus.next().transpose()?;
        let embedding = self.reader.next().transpose()?;
        let (dir, row) = (self.dir.clone(), self.row);
        self.row += 1;
        match (document, embedding) {
            (None, None) => Ok(None),
            (Some(document), None) => Err(Error::RowsMissing {
                dir,
                row: row + 1,
                key: document.value.key,
            }),
            (None, Some((key, _))) => Err(Error::RowsLeft { dir, row: row + 1, key }),
            (Some(document), Some((key, row))) if document.value.key == key => {
                let context = self.reader.context();
                check_place(&document.value, context)?;
                self.digest.add(&document.value);
                self.contexts.add_context(context, &document.value);
                if let Some(part) = self.reader.ended_part() {
                    let texts = std::mem::take(&mut self.digest).hex();
                    let contexts = Some(std::mem::take(&mut self.contexts).hex());
                    if texts != part.source_digest || !context.is_default() && contexts != part.context_digest {
                        return Err(Error::StaleEmbeddings {
                            dir,
                            part: part.vectors.name,
                            last: key,
                        });
                    }
                }
                Ok(Some(EmbeddedDocument {
                    document: document.value,
                    row,
                    truncated: None,
                }))
            }
            (Some(document), Some((key, _))) => Err(Error::KeysOutOfStep {
                dir,
                row: row + 1,
                line: document.line,
                expected: document.value.key,
                got: key,
            }),
        }
    }
}
