//! What becomes of documents that are longer than the model reads: refused, truncated, or split into passages that it
//! reads whole.

use std::collections::{HashSet, VecDeque};

use dyad_command::JobCancellation;
use dyad_corpus::{Document, Located, PassageContext, Split};
use dyad_index::ModelRecord;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::{EmbeddedDocument, LocatedDocuments, UncheckedBatch, VectorSource};
use crate::error::Error;

/// Documents that are longer than the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLong {
    /// The job fails, and names the first.
    Error,
    /// Their vectors are of their beginnings.
    #[default]
    Truncate,
    /// They become passages with keys `KEY#0`, `KEY#1` and so on; other documents stay whole.
    Split,
}

/// A source of which long documents are treated in one way.
#[derive(Debug)]
pub struct LongTexts<S, E> {
    inner: S,
    on_long: OnLong,
    /// Embeds the passages of long documents.
    passages: Option<E>,
    ready: VecDeque<EmbeddedDocument>,
    /// Documents that were split.
    split: u64,
    /// Passages of one word that are longer than the model reads.
    truncated: u64,
    /// 128 bits of xxh3 of each key, where documents are split: a passage may have the key of another document.
    keys: HashSet<u128>,
}

impl<S: VectorSource, E: VectorSource> LongTexts<S, E> {
    /// Treats what `inner` truncates; `passages` is a second source of the same model, and is needed for
    /// [`OnLong::Split`].
    pub fn new(inner: S, on_long: OnLong, passages: Option<E>) -> Self {
        Self {
            inner,
            on_long,
            passages,
            ready: VecDeque::new(),
            split: 0,
            truncated: 0,
            keys: HashSet::new(),
        }
    }

    fn new_key(&mut self, embedded: EmbeddedDocument) -> Result<EmbeddedDocument, Error> {
        let key = &embedded.document.key;
        if self.on_long == OnLong::Split && !self.keys.insert(xxh3_128(key.as_bytes())) {
            return Err(Error::PassageKey(key.clone()));
        }
        Ok(embedded)
    }

    /// Passages that the model reads whole, as long as it takes: half of its tokens as words, or half of that again.
    fn split(&mut self, document: &Document, cancel: &JobCancellation) -> Result<(), Error> {
        let Some(source) = &mut self.passages else {
            return Err(Error::NoVectors);
        };
        for (words, passages) in ever_shorter(source.model().max_tokens, document) {
            let located = passages?
                .into_iter()
                .zip(1..)
                .map(|(value, line)| Located { value, line });
            let mut given = UncheckedBatch(located);
            let mut embedded = Vec::new();
            while let Some(one) = source.pull(&mut given, cancel)? {
                embedded.push(one);
            }
            let truncated = embedded.iter().filter(|one| one.truncated == Some(true)).count() as u64;
            if truncated == 0 || words == 1 {
                self.split += 1;
                self.truncated += truncated;
                self.ready.extend(embedded);
                return Ok(());
            }
        }
        Err(Error::NoVectors)
    }
}

/// A document's passages of at most half as many words as the model reads tokens, then of half of that, and so on to
/// one; with that number.
pub(crate) fn ever_shorter(
    max_tokens: usize,
    document: &Document,
) -> impl Iterator<Item = (usize, Result<Vec<Document>, Error>)> {
    let half = |words: &usize| Some(words / 2).filter(|words| *words > 0);
    std::iter::successors(Some((max_tokens / 2).max(1)), half).map(|words| {
        let passages = Split { words, overlap: 0 }.passages(document);
        let path = || format!("--on-long split, document {}", document.key).into();
        (
            words,
            passages.map_err(|problem| {
                dyad_corpus::Error::Line {
                    path: path(),
                    line: 0,
                    problem,
                }
                .into()
            }),
        )
    })
}

impl<S: VectorSource, E: VectorSource> VectorSource for LongTexts<S, E> {
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
        Some(self.inner.truncated()?.saturating_sub(self.split) + self.truncated)
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
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return self.new_key(ready).map(Some);
            }
            let Some(embedded) = self.inner.pull(corpus, cancel)? else {
                return Ok(None);
            };
            match (self.on_long, embedded.truncated) {
                (OnLong::Truncate, _) | (_, Some(false)) => return self.new_key(embedded).map(Some),
                (OnLong::Split, Some(true)) => self.split(&embedded.document, cancel)?,
                (OnLong::Error, Some(true)) => {
                    let (key, max_tokens) = (embedded.document.key, self.inner.model().max_tokens);
                    return Err(Error::LongText(key, max_tokens));
                }
                (_, None) => return Err(Error::LengthsUnknown(self.inner.model().name.clone())),
            }
        }
    }

    fn published(&mut self) {
        self.inner.published();
    }
}
