//! Vectors of an encoder service that are kept on the disk as they come, so that a job that is killed and started again
//! embeds only what it has not embedded yet.
//!
//! They are found by their documents' keys and texts, in whatever order those come. A part counts once it is whole:
//! 1,024 vectors, or those at the end of the corpus or of a job that fails. What was found is not written again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use dyad_command::JobCancellation;
use dyad_corpus::embeddings::{
    EarlierRows, EmbeddingsHeader, EmbeddingsModel, EmbeddingsWriter, VectorType, text_digest,
};
use dyad_corpus::{Document, EmbeddingsProblem, Error as CorpusError, Located, PassageContext};
use dyad_index::ModelRecord;

use super::kept_folders::{FOLDERS, PREFIX};
use super::{EmbeddedDocument, LocatedDocuments, VectorSource};
use crate::error::Error;

/// Vectors of a part.
const PART_ROWS: u64 = 1_024;
/// Documents with kept vectors, and bytes of their texts, that may wait for one that has to be embedded.
const WAITING: usize = 4_096;
const WAITING_BYTES: usize = 32 << 20;
/// The tower of documents.
const TOWER: &str = "answer";

/// A source whose vectors are kept until they are published.
#[derive(Debug)]
pub struct KeptSource<S> {
    inner: S,
    dir: PathBuf,
    state: KeptVectorsState,
    /// In the corpus's order.
    slots: VecDeque<PendingDocument>,
    /// Bytes of the texts of those that are ready.
    waiting_bytes: usize,
    reused: u64,
    /// Truncated texts among the reused; nothing where that is not known of one.
    truncated: Option<u64>,
}

/// A document whose turn comes.
#[derive(Debug)]
enum PendingDocument {
    Ready {
        embedded: Box<EmbeddedDocument>,
        /// By this job.
        is_new: bool,
    },
    /// The inner source has it.
    Asked,
}

#[derive(Debug)]
enum KeptVectorsState {
    /// Nothing was asked for yet.
    Closed,
    /// By [`FOLDERS`].
    Open(Vec<Store>),
    /// Another job keeps its vectors there, or they are published: these are not kept.
    Off,
}

/// Kept vectors of one folder.
#[derive(Debug)]
struct Store {
    writer: EmbeddingsWriter,
    earlier: EarlierRows,
    truncated: Option<bool>,
}

/// Documents for the inner source: those with a kept vector are taken out on the way.
struct Missing<'a, 'b> {
    corpus: &'a mut LocatedDocuments<'b>,
    stores: &'a mut Vec<Store>,
    slots: &'a mut VecDeque<PendingDocument>,
    waiting_bytes: &'a mut usize,
    reused: &'a mut u64,
    known: &'a mut Option<u64>,
    context: PassageContext,
}

impl Iterator for Missing<'_, '_> {
    type Item = Result<Located<Document>, CorpusError>;

    /// Nothing also where many wait: the inner source then hands out what it has.
    fn next(&mut self) -> Option<Self::Item> {
        while self.slots.len() < WAITING && *self.waiting_bytes < WAITING_BYTES {
            let document = match self.corpus.next()? {
                Ok(document) => document,
                Err(error) => return Some(Err(error)),
            };
            let digest = text_digest(&document.value, self.context);
            let found = self
                .stores
                .iter_mut()
                .find_map(|store| Some((store.earlier.find(digest)?, store.truncated)));
            let Some((row, truncated)) = found else {
                self.slots.push_back(PendingDocument::Asked);
                return Some(Ok(document));
            };
            *self.reused += 1;
            *self.known = self.known.zip(truncated).map(|(sum, is)| sum + u64::from(is));
            *self.waiting_bytes += document.value.text.len();
            let embedded = EmbeddedDocument {
                document: document.value,
                row: row.vector,
                truncated,
            };
            self.slots.push_back(PendingDocument::Ready {
                embedded: Box::new(embedded),
                is_new: false,
            });
        }
        None
    }
}

impl<S: VectorSource> KeptSource<S> {
    /// Keeps what `inner` embeds in a directory below `dir`, named after its model.
    pub fn new(inner: S, dir: &Path) -> Self {
        let short: String = inner
            .model()
            .fingerprint
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(16)
            .collect();
        let context = inner.context();
        let context = if context.is_default() {
            String::new()
        } else {
            format!("-{context}")
        };
        let dir = dir.join(format!("{PREFIX}{short}{context}"));
        Self {
            inner,
            dir,
            state: KeptVectorsState::Closed,
            slots: VecDeque::new(),
            waiting_bytes: 0,
            reused: 0,
            truncated: Some(0),
        }
    }

    /// Vectors that an earlier job had embedded.
    pub fn reused(&self) -> u64 {
        self.reused
    }

    fn open(&mut self) -> Result<(), Error> {
        let header = EmbeddingsHeader {
            context: self.inner.context(),
            ..header_of(self.inner.model(), PART_ROWS)
        };
        let mut stores = Vec::with_capacity(FOLDERS.len());
        for (folder, truncated) in FOLDERS {
            let mut writer = match EmbeddingsWriter::open(&self.dir.join(folder), header.clone()) {
                Ok(writer) => writer,
                Err(CorpusError::Embeddings {
                    problem: EmbeddingsProblem::Locked,
                    ..
                }) => {
                    tracing::info!(
                        "another job embeds for this index: vectors are not kept for a repetition of this one"
                    );
                    self.state = KeptVectorsState::Off;
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            };
            writer.set_aside(0)?;
            stores.push(Store {
                earlier: writer.earlier_rows(),
                writer,
                truncated,
            });
        }
        let rows: usize = stores.iter().map(|store| store.earlier.rows()).sum();
        if rows > 0 {
            tracing::info!(
                "{rows} vectors of a job that was ended are in `{}`: they are not embedded again",
                self.dir.display()
            );
        }
        self.state = KeptVectorsState::Open(stores);
        Ok(())
    }

    /// The next document, which is then kept.
    fn next(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        let KeptVectorsState::Open(stores) = &mut self.state else {
            return self.inner.pull(corpus, cancel);
        };
        let (embedded, is_new) = loop {
            if let Some(PendingDocument::Ready { .. }) = self.slots.front()
                && let Some(PendingDocument::Ready { embedded, is_new }) = self.slots.pop_front()
            {
                self.waiting_bytes = self.waiting_bytes.saturating_sub(embedded.document.text.len());
                break (*embedded, is_new);
            }
            let mut missing = Missing {
                corpus,
                stores,
                slots: &mut self.slots,
                waiting_bytes: &mut self.waiting_bytes,
                reused: &mut self.reused,
                known: &mut self.truncated,
                context: self.inner.context(),
            };
            match self.inner.pull(&mut missing, cancel)? {
                // Those with kept vectors that came before it have their turn first.
                Some(embedded) => match self
                    .slots
                    .iter_mut()
                    .find(|slot| matches!(slot, PendingDocument::Asked))
                {
                    Some(slot) => {
                        self.waiting_bytes += embedded.document.text.len();
                        *slot = PendingDocument::Ready {
                            embedded: Box::new(embedded),
                            is_new: true,
                        };
                    }
                    None => break (embedded, true),
                },
                None => match self.slots.front() {
                    // The end: graphs are built of these very vectors, also by the next job.
                    None => {
                        stores.iter_mut().try_for_each(|store| store.writer.flush())?;
                        return Ok(None);
                    }
                    Some(PendingDocument::Ready { .. }) => {}
                    Some(PendingDocument::Asked) => return Err(Error::NoVectors),
                },
            }
        };
        let store = stores.iter_mut().find(|store| store.truncated == embedded.truncated);
        if let Some(store) = store.filter(|_| is_new) {
            store
                .writer
                .push(&embedded.document, &embedded.row, embedded.truncated == Some(true))?;
        }
        Ok(Some(embedded))
    }
}

impl<S: VectorSource> VectorSource for KeptSource<S> {
    fn model(&self) -> &ModelRecord {
        self.inner.model()
    }

    fn is_in_step(&self) -> bool {
        self.inner.is_in_step()
    }

    fn documents(&self) -> Option<u64> {
        self.inner.documents()
    }

    fn truncated(&self) -> Option<u64> {
        Some(self.inner.truncated()? + self.truncated?)
    }

    fn has_two_towers(&self) -> Option<bool> {
        self.inner.has_two_towers()
    }

    fn known_logit_scale(&self) -> Option<f64> {
        self.inner.known_logit_scale()
    }

    fn logit_scale(&mut self, dimensions: usize, cancel: &JobCancellation) -> Result<Option<f64>, Error> {
        self.inner.logit_scale(dimensions, cancel)
    }

    fn context(&self) -> PassageContext {
        self.inner.context()
    }

    fn tokens(&self) -> Option<u64> {
        self.inner.tokens()
    }

    fn pull(
        &mut self,
        corpus: &mut LocatedDocuments<'_>,
        cancel: &JobCancellation,
    ) -> Result<Option<EmbeddedDocument>, Error> {
        if matches!(self.state, KeptVectorsState::Closed) {
            self.open()?;
        }
        self.next(corpus, cancel)
    }

    fn published(&mut self) {
        self.inner.published();
        if let KeptVectorsState::Open(stores) = std::mem::replace(&mut self.state, KeptVectorsState::Off) {
            // Locked until they are gone.
            if let Err(error) = fs_err::remove_dir_all(&self.dir) {
                tracing::warn!("{error}; `dyad-indexer gc` will remove it");
            }
            drop(stores);
        }
    }
}

/// The job has failed, or was cancelled.
impl<S> Drop for KeptSource<S> {
    fn drop(&mut self) {
        if let KeptVectorsState::Open(stores) = &mut self.state
            && let Err(error) = stores.iter_mut().try_for_each(|store| store.writer.flush())
        {
            tracing::warn!("the last vectors are not kept: {error}");
        }
    }
}

/// The header of kept vectors: those of documents, in f32, `part_rows` to a part.
pub(crate) fn header_of(model: &ModelRecord, part_rows: u64) -> EmbeddingsHeader {
    let record = EmbeddingsModel {
        name: model.name.clone(),
        fingerprint: model.fingerprint.clone(),
        dim: model.dim,
        metric: model.metric.to_string(),
        max_tokens: model.max_tokens,
    };
    EmbeddingsHeader {
        model: record,
        tower: TOWER.to_owned(),
        vectors: VectorType::F32,
        part_rows,
        dtype: None,
        two_towers: None,
        logit_scale: None,
        context: PassageContext::default(),
    }
}
