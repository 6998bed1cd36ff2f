//! Which documents of a batch are new, need another vector, can keep theirs, or are in the index as they are.

use std::collections::{BTreeMap, HashSet};

use dyad_corpus::{Document, Located, PassageContext};
use dyad_index::Snapshot;

use super::last_document::LastDocument;
use super::metadata::Changed;
use super::passages::{Lengths, Passages, StoredForm, is_passage, name_passage};
use super::staged::key_hash;
use crate::control::JobControl;
use crate::error::Error;
use crate::job::{Spool, metadata_json};
use crate::source::{LocatedDocuments, ever_shorter};

/// Keys that an error lists.
const TOLD: usize = 20;

/// What becomes of documents whose keys are in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// They are refused, or left as they are.
    Append {
        /// Left as they are.
        skip_existing: bool,
    },
    /// They are replaced. Of several records of one key, the last counts.
    Upsert,
}

impl Operation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Append { .. } => "append",
            Self::Upsert => "upsert",
        }
    }
}

/// What is to be done with a document.
enum Decision {
    /// It is indexed with the vector of its source.
    Embed,
    /// Its text has not changed, and its vector is kept. The new metadata are one JSON object, or nothing.
    NewMetadata(String),
    /// Its text has not changed, and it stands elsewhere in its document, or in another one: it is indexed with the
    /// vector that the index has here.
    Move((usize, u32)),
    /// The index holds it as it is, or it is not to be replaced.
    Skip,
}

/// Passes on those documents of a batch that need a vector.
pub(super) struct Triage<'a, 'd> {
    pub(super) documents: &'a mut LocatedDocuments<'d>,
    pub(super) base: &'a Snapshot,
    pub(super) operation: Operation,
    /// Whether the source has a vector for every document, changed or not: then all of them are passed on.
    pub(super) all: bool,
    pub(super) spool: &'a mut Spool,
    pub(super) control: JobControl<'a>,
    /// New metadata of documents that keep their vectors.
    pub(super) changed: &'a mut Changed,
    /// By [`key_hash`]: records that were not spooled because of what the index holds.
    pub(super) relied_on: &'a mut HashSet<u128>,
    /// The document that was read last of those of which the index holds passages.
    pub(super) last_document: LastDocument,
    /// What makes passages of documents.
    pub(super) passages: Passages,
    /// Longest input of the source's model, in tokens.
    pub(super) max_tokens: usize,
    /// How many passages documents have.
    pub(super) lengths: &'a mut Lengths,
    /// Keys of documents that could be those of passages, and whether the source has got them.
    pub(super) alike: &'a mut BTreeMap<String, bool>,
    /// Passages of the source, without one for each document.
    pub(super) more: u64,
    /// Documents that are indexed again with the vectors that they had.
    pub(super) moved: u64,
    /// Documents that the index holds as they are.
    pub(super) unchanged: u64,
    pub(super) existing: Existing,
    /// What went wrong here and not in the documents.
    pub(super) failed: Option<Error>,
}

/// Keys of documents to append that are in the index.
#[derive(Debug, Default)]
pub(super) struct Existing {
    total: u64,
    first: Vec<String>,
}

impl Existing {
    pub(super) fn add(&mut self, key: &str) {
        self.total += 1;
        if self.first.len() < TOLD {
            self.first.push(key.to_owned());
        }
    }

    pub(super) fn refuse(self) -> Result<(), Error> {
        if self.total == 0 {
            Ok(())
        } else {
            Err(Error::KeysExist {
                total: self.total,
                first: self.first,
            })
        }
    }
}

impl Triage<'_, '_> {
    /// Spools a document with the vector of its source, where it is to be indexed.
    pub(super) fn place(&mut self, document: &Document, row: &[f32]) -> Result<(), Error> {
        if self.all && !matches!(self.decide(document)?, Decision::Embed) {
            self.relied_on.insert(key_hash(&document.key));
            return Ok(());
        }
        self.note_length(document)?;
        self.spool.add(document, row)
    }

    /// Notes of how many passages a document is now.
    fn note_length(&mut self, document: &Document) -> Result<(), Error> {
        let key = &document.key;
        match self.passages {
            // All of the batch were noted when they were read.
            Passages::Batch => {}
            Passages::None if self.base.passages(key, 0)?.is_empty() => {}
            Passages::None => self.lengths.add_whole(key),
            Passages::Source => match (name_passage(key, document.metadata.as_ref()), self.alike.get(key)) {
                (Some((of, number)), None) => {
                    if let Some((shard, node)) = self.base.find(key)?
                        && !is_passage(self.base, key, shard, node)?
                    {
                        return Err(Error::PassageKey(key.clone()));
                    }
                    self.lengths.add_passage(of, number);
                    self.more += u64::from(number > 0);
                }
                // The batch has it as well.
                (Some(_), Some(false)) => return Err(Error::PassageKey(key.clone())),
                _ => self.lengths.add_whole(key),
            },
        }
        Ok(())
    }

    fn decide(&mut self, document: &Document) -> Result<Decision, Error> {
        let Some(stored) = StoredForm::find(self.base, self.passages, document)? else {
            return Ok(Decision::Embed);
        };
        match self.operation {
            Operation::Append { skip_existing: true } => {
                self.unchanged += 1;
                return Ok(Decision::Skip);
            }
            Operation::Append { skip_existing: false } => {
                self.existing.add(&document.key);
                return Ok(Decision::Skip);
            }
            Operation::Upsert => {}
        }
        if self.all {
            // Its vector may be another one.
            return Ok(Decision::Embed);
        }
        let (shard, node) = match stored {
            StoredForm::AsIs(place) => place,
            StoredForm::Passages(passages) if self.passages == Passages::Source => {
                let same = self.base.find(&document.key)?.is_none() && self.is_stored_as(document, passages)?;
                self.unchanged += u64::from(same);
                return Ok(if same { Decision::Skip } else { Decision::Embed });
            }
            StoredForm::Passages(_) | StoredForm::Whole => return Ok(Decision::Embed),
        };
        let claims = name_passage(&document.key, document.metadata.as_ref()).is_some();
        if self.passages == Passages::Source && !claims && is_passage(self.base, &document.key, shard, node)? {
            return Err(Error::PassageKey(document.key.clone()));
        }
        let stored = self.base.document(shard, node)?;
        if (&stored.title, &stored.text) != (&document.title, &document.text) {
            return Ok(Decision::Embed);
        }
        if !self.stands_as_before(document, (shard, node), &stored.text)? {
            // A vector that knows the document is another one now.
            return Ok(if self.is_late()? {
                Decision::Embed
            } else {
                Decision::Move((shard, node))
            });
        }
        let json = metadata_json(document).to_owned();
        if stored.metadata_json == json {
            self.unchanged += 1;
            return Ok(Decision::Skip);
        }
        Ok(Decision::NewMetadata(json))
    }

    /// Whether vectors depend on the documents of their passages.
    fn is_late(&self) -> Result<bool, Error> {
        let context = PassageContext::of_stored(self.base.manifest().context.as_deref());
        Ok(context.map_err(std::io::Error::other)?.late_weight().is_some())
    }

    /// Whether a passage stands where it stood, in the same document: others of its passages may have changed, which
    /// its vector may know, and which are shown around it. Of shards of earlier releases, which have no places, this is
    /// not asked unless vectors depend on it.
    fn stands_as_before(&mut self, document: &Document, at: (usize, u32), text: &str) -> Result<bool, Error> {
        // Nor where the record does not say where it stands.
        let (true, Some(shard)) = (document.place.is_some(), self.base.shards().get(at.0)) else {
            return Ok(true);
        };
        let place = self.last_document.place_of_live(at.0, shard, at.1, text)?;
        Ok(place == document.place || place.is_none() && !self.is_late()?)
    }

    /// Whether these are the passages that a document comes to, of some length.
    fn is_stored_as(&self, document: &Document, mut passages: Vec<(usize, u32, u64)>) -> Result<bool, Error> {
        passages.sort_unstable_by_key(|(.., number)| *number);
        let stored = passages
            .iter()
            .map(|(shard, node, _)| self.base.document(*shard, *node));
        let stored: Vec<_> = stored.collect::<Result<_, _>>()?;
        for (_, passages) in ever_shorter(self.max_tokens, document) {
            // One that cannot be split is whole now, or is refused when its length is known.
            let Ok(passages) = passages else { return Ok(false) };
            if passages.len() > stored.len() {
                break;
            }
            let mut same = passages.len() == stored.len();
            for (passage, stored) in passages.iter().zip(&stored) {
                let fields =
                    (&stored.key, &stored.title, &stored.text) == (&passage.key, &passage.title, &passage.text);
                same = same && fields && stored.metadata_json == metadata_json(passage);
            }
            if same {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The next document that needs a vector.
    fn advance(&mut self) -> Result<Option<Located<Document>>, Error> {
        loop {
            self.control.check()?;
            let Some(document) = self.documents.next().transpose()? else {
                return Ok(None);
            };
            if self.passages == Passages::Batch && self.operation == Operation::Upsert {
                self.lengths.add(&document.value.key);
            }
            if self.all {
                return Ok(Some(document));
            }
            let decision = self.decide(&document.value)?;
            let claims = name_passage(&document.value.key, document.value.metadata.as_ref()).is_some();
            if self.passages == Passages::Source && claims {
                self.alike
                    .insert(document.value.key.clone(), matches!(decision, Decision::Embed));
            }
            let hash = key_hash(&document.value.key);
            match decision {
                Decision::Embed => {
                    self.relied_on.remove(&hash);
                    return Ok(Some(document));
                }
                Decision::Move((shard, node)) => {
                    self.relied_on.remove(&hash);
                    let mut row = Vec::new();
                    if let Some(shard) = self.base.shards().get(shard) {
                        shard.dense.rows().decode(node, &mut row);
                    }
                    self.place(&document.value, &row)?;
                    self.moved += 1;
                }
                Decision::Skip => _ = self.relied_on.insert(hash),
                Decision::NewMetadata(json) => {
                    self.relied_on.insert(hash);
                    self.changed.insert(document.value.key, json);
                }
            }
        }
    }
}

impl Iterator for Triage<'_, '_> {
    type Item = Result<Located<Document>, dyad_corpus::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed.is_some() {
            return None;
        }
        match self.advance() {
            Ok(document) => document.map(Ok),
            Err(Error::Corpus(error)) => Some(Err(error)),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }
}
