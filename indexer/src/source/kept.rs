//! Vectors of an encoder service that are kept on the disk as they come, so that a job that is killed and started again embeds only what it has not
//! embedded yet.
//!
//! They are found by their documents' keys and texts, in whatever order those come. A part of 1,024 vectors counts once it is whole.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_command::Cancellation;
use dyad_corpus::embeddings::{
    EarlierRows, EmbeddingsWriter, Header, ModelRecord as EmbeddedBy, VectorType, text_digest,
};
use dyad_corpus::{EmbeddingsProblem, Error as CorpusError};
use dyad_files::DirLock;
use dyad_index::ModelRecord;

use super::{Documents, Embedded, Given, VectorSource};
use crate::error::Error;

/// Beginning of the names of directories with kept vectors.
const PREFIX: &str = ".embedded-";
/// Vectors of a part.
const PART_ROWS: u64 = 1_024;
/// Documents that are looked up at a time: those that have to be embedded are several batches.
const WINDOW: usize = 4_096;
/// The tower of documents.
const TOWER: &str = "answer";

/// A source whose vectors are kept until they are published.
#[derive(Debug)]
pub struct KeptSource<S> {
    inner: S,
    dir: PathBuf,
    state: State,
    ready: VecDeque<Embedded>,
    reused: u64,
    /// Truncated texts among the reused; nothing where a part had both.
    truncated: Option<u64>,
}

#[derive(Debug)]
enum State {
    /// Nothing was asked for yet.
    Closed,
    Open(Box<EmbeddingsWriter>, EarlierRows),
    /// Another job keeps its vectors there, or they are published: these are not kept.
    Off,
}

impl<S: VectorSource> KeptSource<S> {
    /// Keeps what `inner` embeds in a directory below `dir`, named after its model.
    pub fn new(inner: S, dir: &Path) -> Self {
        let short: String = inner.model().fingerprint.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let dir = dir.join(format!("{PREFIX}{short}"));
        Self { inner, dir, state: State::Closed, ready: VecDeque::new(), reused: 0, truncated: Some(0) }
    }

    /// Vectors that an earlier job had embedded.
    pub fn reused(&self) -> u64 {
        self.reused
    }

    fn open(&mut self) -> Result<(), Error> {
        let model = self.inner.model();
        let record = EmbeddedBy {
            name: model.name.clone(),
            fingerprint: model.fingerprint.clone(),
            dim: model.dim,
            metric: model.metric.to_string(),
            max_tokens: model.max_tokens,
        };
        let header = Header {
            model: record,
            tower: TOWER.to_owned(),
            vectors: VectorType::F32,
            part_rows: PART_ROWS,
            dtype: None,
        };
        let mut writer = match EmbeddingsWriter::open(&self.dir, header) {
            Ok(writer) => writer,
            Err(CorpusError::Embeddings { problem: EmbeddingsProblem::Locked, .. }) => {
                tracing::info!("another job embeds for this index: vectors are not kept for a repetition of this one");
                self.state = State::Off;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        writer.set_aside(0)?;
        let earlier = writer.earlier_rows();
        if earlier.rows() > 0 {
            let rows = earlier.rows();
            tracing::info!(
                "{rows} vectors of a job that was ended are in `{}`: they are not embedded again",
                self.dir.display()
            );
        }
        self.state = State::Open(Box::new(writer), earlier);
        Ok(())
    }

    /// The next window of documents with their vectors.
    fn fill(&mut self, corpus: &mut Documents<'_>, cancel: &Cancellation) -> Result<(), Error> {
        let State::Open(writer, earlier) = &mut self.state else {
            self.ready.extend(self.inner.pull(corpus, cancel)?);
            return Ok(());
        };
        let (mut rows, mut fresh) = (Vec::new(), Vec::new());
        while rows.len() < WINDOW {
            let Some(document) = corpus.next().transpose()? else { break };
            let found = earlier.find(text_digest(&document.value));
            if found.is_none() {
                fresh.push(document.clone());
            }
            rows.push((document.value, found));
        }
        let mut given = Given(fresh.into_iter());
        for (document, found) in rows {
            let embedded = match found {
                Some(row) => {
                    self.reused += 1;
                    self.truncated = self.truncated.zip(row.truncated).map(|(sum, is)| sum + u64::from(is));
                    Embedded { document, row: row.vector, truncated: row.truncated }
                }
                None => self.inner.pull(&mut given, cancel)?.ok_or(Error::NoVectors)?,
            };
            writer.push(&embedded.document, &embedded.row, embedded.truncated.unwrap_or(false))?;
            self.ready.push_back(embedded);
        }
        Ok(())
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

    fn pull(&mut self, corpus: &mut Documents<'_>, cancel: &Cancellation) -> Result<Option<Embedded>, Error> {
        if matches!(self.state, State::Closed) {
            self.open()?;
        }
        if self.ready.is_empty() {
            self.fill(corpus, cancel)?;
        }
        Ok(self.ready.pop_front())
    }

    fn published(&mut self) {
        self.inner.published();
        if let State::Open(writer, _) = std::mem::replace(&mut self.state, State::Off) {
            drop(writer);
            if let Err(error) = fs_err::remove_dir_all(&self.dir) {
                tracing::warn!("{error}; `dyad-indexer gc` will remove it");
            }
        }
    }
}

/// Directories with vectors that ended jobs have kept in an index, and that none uses now.
pub(crate) fn left_in(index: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut left = Vec::new();
    for entry in fs_err::read_dir(index)? {
        let entry = entry?;
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && DirLock::acquire(&entry.path(), Duration::ZERO).is_ok() {
            left.push(entry.path());
        }
    }
    Ok(left)
}
