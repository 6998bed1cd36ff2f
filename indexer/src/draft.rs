//! A generation before it is published: its shards, those of the one before it and new ones, and what is changed of
//! them.

use std::path::PathBuf;
use std::sync::Arc;

use dyad_index::TextLanguage;
use dyad_index::manifest::{Change, FileEntry, Manifest, MinRecall, ShardEntry};
use dyad_index::{Certificate, Deletions, ModelRecord};

use crate::error::Error;

/// A complete shard that no manifest names yet.
#[derive(Debug)]
pub(crate) struct CompleteShard {
    /// Its path.
    pub(crate) dir: PathBuf,
    /// Documents in it.
    pub(crate) documents: u64,
    /// Every file, by path.
    pub(crate) files: Vec<FileEntry>,
    /// Its certificate.
    pub(crate) certificate: Certificate,
}

/// A new generation, prepared without the lock.
#[derive(Debug)]
pub(crate) struct Draft {
    /// The generation that must still be current when this one is published; any where absent.
    pub(crate) parent: Option<u64>,
    /// Of all vectors.
    pub(crate) model: ModelRecord,
    /// The recall that every shard must keep.
    pub(crate) min_recall: Option<MinRecall>,
    /// What of its document has reached a passage's vector, see [`Manifest::context`].
    pub(crate) context: Option<String>,
    /// The model's, see [`Manifest::logit_scale`]; absent where it stays as it is.
    pub(crate) logit_scale: Option<f64>,
    /// By which its texts are analysed.
    pub(crate) language: TextLanguage,
    /// What makes it out of the one before.
    pub(crate) change: Change,
    /// In order.
    pub(crate) shards: Vec<DraftShard>,
}

impl Draft {
    /// A change of a generation: what it says of all shards stays as it is.
    pub(crate) fn after(base: &Manifest, change: &Change, shards: Vec<DraftShard>) -> Self {
        Self {
            parent: Some(base.generation),
            min_recall: base.min_recall,
            context: base.context.clone(),
            ..Self::new(&base.model, base.language, change, shards)
        }
    }

    /// A generation of these shards, in place of whichever is current.
    pub(crate) fn new(model: &ModelRecord, language: TextLanguage, change: &Change, shards: Vec<DraftShard>) -> Self {
        let (model, change) = (model.clone(), change.clone());
        Self {
            parent: None,
            model,
            min_recall: None,
            context: None,
            logit_scale: None,
            language,
            change,
            shards,
        }
    }

    /// Documents that are not deleted.
    pub(crate) fn documents(&self) -> u64 {
        self.shards.iter().map(DraftShard::documents).sum()
    }

    /// Refuses shards of another language or context, which other jobs have published meanwhile, next to new ones:
    /// `current` has the shards that are kept.
    pub(crate) fn check_kind(&self, current: &Manifest) -> Result<(), Error> {
        let is_kept = |shard: &DraftShard| matches!(shard.files, ShardFiles::Kept(_));
        let is_same = (current.language, &current.context) == (self.language, &self.context);
        if !is_same && self.shards.iter().any(is_kept) {
            Err(Error::Contended)
        } else {
            Ok(())
        }
    }

    /// Refuses new shards that do not have the recall that the index must keep. It may be asked for since they were
    /// built; where documents of theirs are deleted, it was looked at with these.
    pub(crate) fn check_recall(&self) -> Result<(), Error> {
        let Some(MinRecall { recall: target, ef }) = self.min_recall else {
            return Ok(());
        };
        for shard in self.shards.iter().filter(|shard| shard.deletions.is_none()) {
            let ShardFiles::Built(built) = &shard.files else {
                continue;
            };
            // Another width than was measured.
            let recall = built.certificate.least_recall(ef).ok_or(Error::Contended)?;
            if recall < target {
                return Err(Error::BelowTarget {
                    shard: "new".to_owned(),
                    recall,
                    target,
                    ef,
                });
            }
        }
        Ok(())
    }
}

/// A shard of a [`Draft`].
#[derive(Debug)]
pub(crate) struct DraftShard {
    /// Its files.
    pub(crate) files: ShardFiles,
    /// Its deletions, where they are other than before.
    pub(crate) deletions: Option<Deletions>,
    /// Its changed metadata, where they are other than before.
    pub(crate) updates: Option<CompleteUpdates>,
    /// What it was measured by, where that is other than before.
    pub(crate) calibration: Option<CompleteCalibration>,
}

/// The questions by which a shard was measured, in a directory that no manifest names yet.
#[derive(Debug, Clone)]
pub(crate) struct CompleteCalibration {
    /// Its path.
    pub(crate) dir: PathBuf,
    /// Questions in it.
    pub(crate) questions: u64,
    /// Every file, by path.
    pub(crate) files: Vec<FileEntry>,
}

/// Changed metadata of a shard, in a directory that no manifest names yet.
#[derive(Debug)]
pub(crate) struct CompleteUpdates {
    /// Its path.
    pub(crate) dir: PathBuf,
    /// Documents in it.
    pub(crate) documents: u64,
    /// Every file, by path.
    pub(crate) files: Vec<FileEntry>,
}

impl DraftShard {
    /// A shard of the parent as it is.
    pub(crate) fn kept(entry: &ShardEntry) -> Self {
        Self {
            files: ShardFiles::Kept(Box::new(entry.clone())),
            deletions: None,
            updates: None,
            calibration: None,
        }
    }

    /// A new shard.
    pub(crate) fn built(shard: &Arc<CompleteShard>) -> Self {
        Self {
            files: ShardFiles::Built(Arc::clone(shard)),
            deletions: None,
            updates: None,
            calibration: None,
        }
    }

    fn documents(&self) -> u64 {
        match (&self.deletions, &self.files) {
            (Some(deletions), _) => deletions.live.len() as u64,
            (None, ShardFiles::Kept(entry)) => entry.live(),
            (None, ShardFiles::Built(shard)) => shard.documents,
        }
    }
}

/// The files of a shard of a [`Draft`].
#[derive(Debug)]
pub(crate) enum ShardFiles {
    /// As the parent has them.
    Kept(Box<ShardEntry>),
    /// New.
    Built(Arc<CompleteShard>),
}
