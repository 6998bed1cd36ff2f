//! A job that adds documents: passes over its batch, the shards that they come to, and the draft for whatever
//! generation is current by then.
//!
//! The first pass reads the whole batch. A record whose document the index holds is left out, which is right as long as
//! the index holds it. Where another generation has become current, the records whose documents differ there are passed
//! over again.

use std::collections::{BTreeSet, HashSet};

use dyad_corpus::{Document, Located};
use dyad_index::Snapshot;
use dyad_index::snapshot::Shard;
use rayon::prelude::*;

use super::conditions::ChangeStart;
use super::context::check_context;
use super::deletions::{add, delete_nodes, draft_without, locate};
use super::difference::Difference;
use super::last_document::LastDocument;
use super::metadata;
use super::outcome::ChangeOutcome;
use super::passages::{Passages, StoredForm, documents_of, is_passage, is_stored, split_passage_key};
use super::staged::{Staged, key_hash};
use super::transaction::unpublished;
use super::triage::{Existing, Operation, Triage};
use super::upsert_config::UpsertConfig;
use super::upsert_progress::{NewShard, UpsertProgress};
use crate::control::{JobControl, Unit};
use crate::draft::{Draft, DraftShard};
use crate::error::Error;
use crate::graph_build::validate::RowCheck;
use crate::job::{ShardBuilder, ShardJob, Spool};
use crate::publish::check_model;
use crate::source::{DocumentBatch, LocatedDocuments, VectorSource};

/// A batch on its way into an index.
pub(super) struct UpsertJob<'a> {
    pub(super) config: &'a UpsertConfig,
    /// What the change begins with.
    pub(super) start: &'a ChangeStart<'a>,
    pub(super) control: JobControl<'a>,
    /// Writes the new shards.
    pub(super) shards: ShardJob<'a>,
    /// Threads of certificates.
    pub(super) threads: &'a rayon::ThreadPool,
    /// Embeds the documents.
    pub(super) source: &'a mut dyn VectorSource,
    /// The batch on disk; none where the source has a vector for each of its records.
    pub(super) staged: Option<Staged>,
    /// What the passes have come to.
    pub(super) progress: UpsertProgress,
}

impl UpsertJob<'_> {
    /// The first pass: reads the whole batch, and indexes what `base` does not hold.
    pub(super) fn index(&mut self, base: &Snapshot, batch: &mut dyn DocumentBatch) -> Result<(), Error> {
        self.config
            .operation
            .name()
            .clone_into(&mut self.progress.change.operation);
        if self.source.is_in_step() {
            self.progress.change.read = self.pass(base, batch)?;
        } else {
            let mut staged = self.stage(base, batch)?;
            self.progress.change.read = staged.records();
            self.progress.change.superseded = staged.superseded();
            self.pass(base, &mut staged)?;
            self.staged = Some(staged);
        }
        batch
            .warnings()
            .iter()
            .for_each(|warning| self.control.progress.warn(warning));
        self.progress.change.rejected = batch.rejected();
        self.progress.change.read += batch.rejected();
        self.count();
        Ok(())
    }

    /// Writes the batch to disk, and refuses documents to append that the index holds.
    fn stage(&self, base: &Snapshot, batch: &mut dyn DocumentBatch) -> Result<Staged, Error> {
        let (config, control) = (self.config, self.control);
        let mut existing = Existing::default();
        let refused = config.operation == Operation::Append { skip_existing: false };
        control.progress.begin("read", Unit::Bytes, batch.file_bytes());
        let staged = Staged::read(self.shards.workspace(), batch, |document| {
            control.check()?;
            if refused && StoredForm::find(base, config.passages, document)?.is_some() {
                existing.add(&document.key);
            }
            Ok(())
        })?;
        control.progress.finish();
        existing.refuse()?;
        Ok(staged)
    }

    /// Indexes those of the documents that `base` does not hold as they are, and returns how many vectors came.
    fn pass(&mut self, base: &Snapshot, documents: &mut LocatedDocuments<'_>) -> Result<u64, Error> {
        let (control, config, progress) = (self.control, self.config, &mut self.progress);
        let ShardBuilder { model, graph, .. } = self.shards.builder;
        let mut check = RowCheck::new(model.dim, model.metric, graph.row_type);
        let mut spool = Spool::create(
            self.shards.workspace(),
            progress.passes,
            self.shards.builder.language,
            None,
        )?;
        progress.passes += 1;
        let all = self.source.is_in_step();
        let mut triage = Triage {
            documents,
            base,
            operation: config.operation,
            all,
            spool: &mut spool,
            control,
            changed: &mut progress.changed,
            relied_on: &mut progress.relied_on,
            last_document: LastDocument::default(),
            passages: config.passages,
            lengths: &mut progress.lengths,
            max_tokens: self.source.model().max_tokens,
            alike: &mut progress.alike,
            more: 0,
            moved: 0,
            unchanged: 0,
            existing: Existing::default(),
            failed: None,
        };
        let mut pulled = 0;
        control
            .progress
            .begin("documents", Unit::Documents, self.source.documents());
        loop {
            control.check()?;
            // A dry run asks for no vectors.
            let next = if config.dry_run && !all {
                let document = triage.next().transpose()?;
                document
                    .map(|document| triage.place(&document.value, &[]))
                    .transpose()?
                    .map(|()| None)
            } else {
                self.source.pull(&mut triage, control.cancel)?.map(Some)
            };
            if let Some(error) = triage.failed.take() {
                return Err(error);
            }
            let Some(next) = next else { break };
            let Some(mut embedded) = next else { continue };
            pulled += 1;
            check.check(&embedded.document.key, &mut embedded.row)?;
            triage.place(&embedded.document, &embedded.row)?;
            control.progress.advance(1);
        }
        control.progress.finish();
        let Triage {
            unchanged,
            existing,
            more,
            moved,
            ..
        } = triage;
        existing.refuse()?;
        // Of each document that was split, all passages are indexed.
        progress.change.read += more;
        progress.unchanged += unchanged;
        progress.moved += moved;
        if let Some(note) = check.note() {
            control.progress.note(&note);
        }
        self.build(spool)?;
        Ok(pulled)
    }

    /// Makes a shard of what a pass has spooled, if that is anything.
    fn build(&mut self, spool: Spool) -> Result<(), Error> {
        let keys = spool.keys().to_vec();
        if keys.is_empty() {
            return Ok(());
        }
        let built = if self.config.dry_run {
            None
        } else {
            Some(self.shards.build(spool.close()?, "")?)
        };
        self.progress.shards.push(NewShard { keys, built });
        Ok(())
    }

    /// Counts what is indexed, and what is not.
    fn count(&mut self) {
        let progress = &mut self.progress;
        progress.change.unchanged = progress.unchanged;
        let changed = progress.changed.len() as u64;
        progress.change.truncated = self.source.truncated();
        progress.change.reused = changed + progress.moved;
        progress.change.indexed = progress.spooled() + changed;
    }

    /// The batch as a change of `base`; nothing where it changes nothing. `before` is the generation for which this was
    /// called before, or of the first pass.
    pub(super) fn draft(&mut self, before: Option<&Snapshot>, base: &Snapshot) -> Result<Option<Draft>, Error> {
        // Another job may have published vectors of another context.
        check_context(base.manifest(), &*self.source)?;
        if let Some(before) = before {
            self.start.conditions.check_expected(base)?;
            self.start.conditions.check_replaced(base)?;
            self.follow(before, base)?;
            self.count();
        }
        let keys: Vec<&str> = self.progress.keys().collect();
        let mut nodes = vec![Vec::new(); base.shards().len()];
        let mut new_shards = self.progress.new_shards();
        match self.config.operation {
            Operation::Upsert => {
                nodes = locate(base, &keys)?;
                add(&mut nodes, self.progress.lengths.replaced(base)?);
            }
            Operation::Append { skip_existing: false } if before.is_some() => {
                // Another job may have added them since.
                self.refuse_existing(base, &keys)?;
            }
            Operation::Append { skip_existing: true } if before.is_some() => {
                new_shards = self.without_existing(base)?;
            }
            Operation::Append { .. } => {}
        }
        let progress = &mut self.progress;
        let new_metadata = metadata::locate(base, &progress.changed)?;
        progress.change.deleted = nodes.iter().map(Vec::len).sum::<usize>() as u64;
        if progress.change.indexed == 0 && progress.change.deleted == 0 {
            return Ok(None);
        }
        let control = self.control;
        let mut shards = self.threads.install(|| draft_without(base, &nodes, control))?;
        if !self.config.dry_run {
            metadata::apply(base, &new_metadata.nodes, &mut shards, self.shards.workspace(), control)?;
        }
        shards.extend(new_shards);
        let manifest = base.manifest();
        let mut draft = Draft {
            model: self.shards.builder.model.clone(),
            context: self.source.context().stored(),
            logit_scale: manifest.logit_scale.or_else(|| self.source.known_logit_scale()),
            language: self.shards.builder.language,
            ..Draft::after(manifest, &self.progress.change, shards)
        };
        let (progress, documents) = (&self.progress, manifest.documents());
        self.start.record(&mut draft, || ChangeOutcome {
            kept: progress.kept(),
            ..unpublished(progress.change.clone(), documents, documents)
        });
        Ok(Some(draft))
    }

    /// Looks again at what the passes so far have relied on, in a generation that is current in place of `before`.
    fn follow(&mut self, before: &Snapshot, base: &Snapshot) -> Result<(), Error> {
        check_model(base.index(), self.shards.builder.model)?;
        let spooled: HashSet<&str> = self.progress.keys().collect();
        let is_asked_for =
            |key: &str| self.progress.relies_on(key) || documents_of(key).any(|key| spooled.contains(key));
        let differing = Difference::between(before, base, is_asked_for, self.control)?.keys(base);
        if differing.is_empty() {
            return Ok(());
        }
        if self.config.operation == Operation::Upsert {
            self.follow_spooled(base, &differing)?;
        }
        if !differing.iter().any(|key| self.progress.relies_on(key)) {
            return Ok(());
        }
        // The records of a set of vectors were read once.
        let Some(mut staged) = self.staged.take() else {
            return Err(Error::Contended);
        };
        let again = self.take_back(&mut staged, &differing)?;
        self.control.progress.note(&format!(
            "generation {} came meanwhile: it differs in {} documents that this batch had left as they were",
            base.manifest().generation,
            again.len()
        ));
        staged.rewind()?;
        let is_again = |record: &Result<Located<Document>, dyad_corpus::Error>| {
            record
                .as_ref()
                .map_or(true, |record| again.contains(&key_hash(&record.value.key)))
        };
        self.pass(base, &mut staged.by_ref().filter(is_again))?;
        self.staged = Some(staged);
        Ok(())
    }

    /// Forgets what was decided for the records that relied on these documents, and returns the [`key_hash`] of each.
    fn take_back(&mut self, staged: &mut Staged, differing: &BTreeSet<String>) -> Result<HashSet<u128>, Error> {
        let documents: HashSet<&str> = differing.iter().flat_map(|key| documents_of(key)).collect();
        let mut again = HashSet::new();
        staged.rewind()?;
        for record in staged {
            self.control.check()?;
            let key = record?.value.key;
            let hash = key_hash(&key);
            let whole = split_passage_key(&key).map(|(document, _)| document);
            let differs = documents.contains(key.as_str()) || whole.is_some_and(|whole| differing.contains(whole));
            if differs && self.progress.relied_on.contains(&hash) {
                again.insert(hash);
                if self.progress.changed.remove(&key).is_none() {
                    self.progress.unchanged -= 1;
                }
            }
        }
        Ok(again)
    }

    /// Records that are indexed already replace whatever is there, also where it has another form by now: one document,
    /// or passages.
    fn follow_spooled(&mut self, base: &Snapshot, differing: &BTreeSet<String>) -> Result<(), Error> {
        let spooled: HashSet<&str> = self.progress.keys().collect();
        let mut whole = Vec::new();
        for key in differing {
            match self.config.passages {
                // All of a batch of passages are noted.
                Passages::Batch => {}
                Passages::None => whole.extend(documents_of(key).filter(|document| spooled.contains(document))),
                Passages::Source => {
                    if let Some((shard, node)) = base.find(key)?.filter(|_| spooled.contains(key.as_str()))
                        && self.progress.lengths.is_passage(key)
                        && !is_passage(base, key, shard, node)?
                    {
                        return Err(Error::PassageKey(key.clone()));
                    }
                }
            }
        }
        let whole: Vec<String> = whole.into_iter().map(str::to_owned).collect();
        for document in &whole {
            self.progress.lengths.add_whole(document);
        }
        Ok(())
    }

    fn refuse_existing(&self, base: &Snapshot, keys: &[&str]) -> Result<(), Error> {
        let found = locate(base, keys)?.iter().any(|nodes| !nodes.is_empty());
        if !found && self.progress.lengths.replaced(base)?.is_empty() {
            return Ok(());
        }
        let mut existing = Existing::default();
        for key in keys.iter().copied().chain(self.progress.lengths.documents()) {
            if base.find(key)?.is_some() || !base.passages(key, 0)?.is_empty() {
                existing.add(key);
            }
        }
        existing.refuse()
    }

    /// The new shards without documents that others have added meanwhile, which are counted as unchanged.
    fn without_existing(&mut self, base: &Snapshot) -> Result<Vec<DraftShard>, Error> {
        let (passages, control) = (self.config.passages, self.control);
        let mut shards = Vec::new();
        for NewShard { keys, built } in &self.progress.shards {
            let Some(built) = built else { continue };
            let exists = |(node, key): (usize, &String)| -> Result<Option<u32>, Error> {
                Ok(is_stored(base, passages, key)?.then_some(node as u32))
            };
            let existing = keys
                .par_iter()
                .enumerate()
                .map(exists)
                .collect::<Result<Vec<_>, Error>>()?;
            let existing: Vec<u32> = existing.into_iter().flatten().collect();
            self.progress.change.unchanged += existing.len() as u64;
            self.progress.change.indexed -= existing.len() as u64;
            let deletions = match existing.len() {
                0 => None,
                all if all == keys.len() => continue,
                _ => {
                    let (shard, kept) = (Shard::open_dir(&built.dir)?, base.manifest().min_recall);
                    let delete = || delete_nodes("appended", &shard, &existing, kept, control);
                    Some(self.threads.install(delete)?)
                }
            };
            shards.push(DraftShard {
                deletions,
                ..DraftShard::built(built)
            });
        }
        Ok(shards)
    }
}
