//! The documents of an index embedded again: those of the generation that a job began with, then those that others have
//! added since, without those that are gone by then.

use std::collections::BTreeSet;
use std::sync::Arc;

use dyad_index::manifest::{Change, Manifest, MinRecall};
use dyad_index::snapshot::Shard;
use dyad_index::{ModelRecord, Snapshot, TextLanguage};

use super::deletions::delete_nodes;
use super::difference::Difference;
use super::stored::StoredBatch;
use crate::control::JobControl;
use crate::draft::{CompleteShard, Draft, DraftShard};
use crate::error::Error;
use crate::graph_build::RecallTarget;
use crate::job::{ShardJob, SpoolConfig};
use crate::source::VectorSource;

/// The documents of an index on their way to other vectors.
pub(super) struct ReembedJob<'a> {
    /// The recall that was asked for; without it, the index keeps what it has.
    pub(super) target: Option<RecallTarget>,
    /// The scale of the new model's scores, see [`Manifest::logit_scale`].
    pub(super) logit_scale: Option<f64>,
    /// Embeds the documents.
    pub(super) source: &'a mut dyn VectorSource,
    /// How the documents of the first generation are spooled.
    pub(super) spooling: SpoolConfig,
    /// What the generations have to be like whose documents are embedded.
    pub(super) replaced: ReplacedKind,
    /// Writes the new shards.
    pub(super) shards: ShardJob<'a>,
    /// Threads of certificates.
    pub(super) threads: &'a rayon::ThreadPool,
    /// The new shards.
    pub(super) fresh: Vec<FreshShard>,
}

/// A new shard that no generation names yet.
pub(super) struct FreshShard {
    complete: Arc<CompleteShard>,
    shard: Shard,
    /// Nodes whose documents are gone by now, or are in a later shard.
    gone: BTreeSet<u32>,
}

impl FreshShard {
    fn open(complete: Arc<CompleteShard>) -> Result<Self, Error> {
        Ok(Self {
            shard: Shard::open_dir(&complete.dir)?,
            complete,
            gone: BTreeSet::new(),
        })
    }

    /// Documents that are not gone.
    fn live(&self) -> u64 {
        self.complete.documents - self.gone.len() as u64
    }
}

/// What generations have in common whose vectors are replaced: model, context and language.
pub(super) struct ReplacedKind {
    model: ModelRecord,
    context: Option<String>,
    language: TextLanguage,
}

impl From<&Manifest> for ReplacedKind {
    fn from(manifest: &Manifest) -> Self {
        Self {
            model: manifest.model.clone(),
            context: manifest.context.clone(),
            language: manifest.language,
        }
    }
}

impl ReplacedKind {
    /// Refuses a generation of another job that has another model, context or language.
    fn check(&self, manifest: &Manifest) -> Result<(), Error> {
        let is_same = manifest.model.same_space(&self.model)
            && manifest.context == self.context
            && manifest.language == self.language;
        if is_same { Ok(()) } else { Err(Error::Contended) }
    }
}

impl ReembedJob<'_> {
    /// Embeds all documents of the generation with which the job begins.
    pub(super) fn embed_all(&mut self, base: &Snapshot) -> Result<(), Error> {
        let mut documents = StoredBatch::from_live(base);
        let spooled = self.shards.spool(self.spooling, &mut documents, self.source)?;
        for complete in self.shards.build_all(spooled.shards)? {
            self.fresh.push(FreshShard::open(complete)?);
        }
        Ok(())
    }

    /// The documents of `base` with the new vectors. `before` is the generation whose documents the new shards hold by
    /// now, where that is another one.
    pub(super) fn draft(&mut self, before: Option<&Snapshot>, base: &Snapshot) -> Result<Draft, Error> {
        let control = self.shards.builder.control;
        control.check()?;
        if let Some(before) = before {
            self.replaced.check(base.manifest())?;
            self.follow(before, base)?;
        }
        let documents = self.fresh.iter().map(FreshShard::live).sum();
        let change = Change {
            operation: "reembed".to_owned(),
            truncated: self.source.truncated(),
            indexed: documents,
            read: documents,
            ..Change::default()
        };
        let min_recall = self.target.map(RecallTarget::kept).or(base.manifest().min_recall);
        let fresh = &self.fresh;
        let shards = self.threads.install(|| draft_shards(fresh, min_recall, control))?;
        Ok(Draft {
            model: self.shards.builder.model.clone(),
            context: self.source.context().stored(),
            logit_scale: self.logit_scale,
            min_recall,
            ..Draft::after(base.manifest(), &change, shards)
        })
    }

    /// Embeds what is new in a later generation, and notes what of the new shards is gone.
    fn follow(&mut self, before: &Snapshot, base: &Snapshot) -> Result<(), Error> {
        let control = self.shards.builder.control;
        let Difference { new, gone } = Difference::between(before, base, |_| true, control)?;
        control.progress.note(&format!(
            "generation {} came meanwhile: {} documents are new or changed, {} are gone",
            base.manifest().generation,
            new.len(),
            gone.len()
        ));
        for key in &gone {
            self.forget(key)?;
        }
        if new.is_empty() {
            return Ok(());
        }
        let one_shard = SpoolConfig {
            shards: 1,
            ..self.spooling
        };
        let mut documents = StoredBatch::from_places(base, new);
        let spooled = self.shards.spool(one_shard, &mut documents, self.source)?;
        for spooled in spooled.shards {
            let complete = self.shards.build(spooled, "meanwhile")?;
            self.fresh.push(FreshShard::open(complete)?);
        }
        Ok(())
    }

    /// Notes that a document of the new shards is gone.
    fn forget(&mut self, key: &str) -> Result<(), Error> {
        for fresh in &mut self.fresh {
            if let Some(node) = fresh.shard.dense.find(key)?
                && fresh.gone.insert(node)
            {
                break;
            }
        }
        Ok(())
    }

    /// The new shards are in their places.
    pub(super) fn published(self) {
        self.source.published();
        self.shards.published();
    }
}

/// The new shards without the documents that are gone.
fn draft_shards(
    all: &[FreshShard],
    min_recall: Option<MinRecall>,
    control: JobControl<'_>,
) -> Result<Vec<DraftShard>, Error> {
    let mut shards = Vec::with_capacity(all.len());
    for fresh in all.iter().filter(|fresh| fresh.live() > 0) {
        let gone: Vec<u32> = fresh.gone.iter().copied().collect();
        let deletions = if gone.is_empty() {
            None
        } else {
            Some(delete_nodes("re-embedded", &fresh.shard, &gone, min_recall, control)?)
        };
        shards.push(DraftShard {
            deletions,
            ..DraftShard::built(&fresh.complete)
        });
    }
    Ok(shards)
}
