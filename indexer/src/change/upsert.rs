//! `append` and `upsert`: documents in, one new shard out, published with the deletion of what it replaces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dyad_files::space::{FreeSpace, check_space};
use dyad_index::format::RowType;
use dyad_index::manifest::Change;
use dyad_index::search::VectorRows;
use dyad_index::snapshot::Shard;
use dyad_index::{BuildRecord, GROUND_TRUTH_FILE, GroundTruth, QuerySource, Snapshot, ground_truth};

use super::deletions::{add, locate, without};
use super::metadata::{self, Changed};
use super::passages::{Lengths, Passages, Stored};
use super::staged::Staged;
use super::triage::{Existing, Operation, Triage};
use super::{Outcome, commit};
use crate::control::{JobControl, Unit};
use crate::error::Error;
use crate::graph_build::validate::RowCheck;
use crate::graph_build::{BuildParams, Builder, Questions, RecallGate, RecallTarget};
use crate::job::{ShardBuilder, Spool, Workspace, thread_pool};
use crate::plan::Plan;
use crate::publish::{CompleteShard, Draft, DraftShard, ShardFiles, check_model};
use crate::source::{Batch, Documents, VectorSource};

/// How a batch of documents is indexed.
#[derive(Debug, Clone)]
pub struct UpsertConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// What becomes of documents whose keys are in the index.
    pub operation: Operation,
    /// Threads of the graph's build.
    pub threads: usize,
    /// Questions by which recall is measured, see [`Questions::open`]; by default those of the index's certificates,
    /// or else documents.
    pub queries: Option<PathBuf>,
    /// What makes passages of documents. Where a document has fewer than before, those after its last one are deleted.
    pub passages: Passages,
    /// Nothing is embedded or published; the outcome says what would be.
    pub dry_run: bool,
    /// Returns the free space of the index's disk.
    pub free_space: FreeSpace,
}

/// How the shards of an index are built: as its largest one was.
pub(super) fn build_like(base: &Snapshot, threads: usize) -> (Builder, BuildParams, RowType) {
    let largest = base.shards().iter().max_by_key(|shard| shard.dense.len());
    let Some(largest) = largest else {
        let row_type = RowType::usual(base.manifest().model.metric);
        return (Builder::default(), BuildParams { m: 16, ef_construction: 200, seed: 0, threads }, row_type);
    };
    let BuildRecord { builder, m, ef_construction, seed, .. } = &largest.dense.meta().build;
    let params = BuildParams { m: *m, ef_construction: *ef_construction, seed: *seed, threads };
    (Builder::named(builder).unwrap_or_default(), params, largest.dense.header().row_type)
}

/// The held-out questions by which the first of these shards that has any was measured.
pub(super) fn held_out<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> Result<Option<Questions>, Error> {
    for shard in shards {
        let path = shard.dense.path().with_file_name(GROUND_TRUTH_FILE);
        if shard.dense.certificate().source == QuerySource::HeldOut && path.exists() {
            let truth = GroundTruth::open(&path, shard.dense.meta().model.dim, shard.dense.len())?;
            if let ground_truth::Questions::Vectors { dim, values } = truth.questions {
                return Ok(Some(Questions::of(values, dim)));
            }
        }
    }
    Ok(None)
}

/// Indexes a batch of documents and publishes it as the next generation. Documents that the index holds as they are cost
/// nothing, and those of which only metadata have changed stay in their shards with their vectors.
///
/// Where each vector comes from an encoder, keys may be repeated; in a set of vectors each key comes once. If it fails or is cancelled, the
/// index is unchanged.
pub fn upsert(
    config: &UpsertConfig,
    batch: &mut dyn Batch,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<Outcome, Error> {
    let base = Snapshot::open(&config.index)?;
    let model = source.model().clone();
    check_model(&config.index, &model)?;
    let (builder, params, row_type) = build_like(&base, config.threads);
    params.validate()?;
    let workspace = Workspace::create(&config.index)?;
    let questions = match &config.queries {
        Some(path) => Some(Questions::open(path, &model, params.seed)?),
        None => held_out(base.shards())?,
    };
    let gate = RecallGate {
        questions: questions.as_ref().map(|questions| questions as &dyn VectorRows),
        target: base.manifest().min_recall.map(RecallTarget::from),
    };
    check_room(config, source, batch, (builder, params, row_type), &gate)?;

    let mut spool = Spool::create(workspace.path(), 0, None)?;
    let mut changed = Changed::new();
    let mut lengths = Lengths::default();
    let mut change = Change { operation: config.operation.name().to_owned(), ..Change::default() };
    pass(
        config,
        &base,
        source,
        batch,
        (&mut spool, &mut changed, &mut lengths),
        &mut change,
        control,
        workspace.path(),
    )?;
    batch.warnings().iter().for_each(|warning| control.progress.warn(warning));
    change.rejected = batch.rejected();
    change.truncated = source.truncated();
    change.read += change.rejected;
    change.reused = changed.len() as u64;
    change.indexed = spool.len() as u64 + change.reused;

    let keys = spool.keys().to_vec();
    let mut built: Vec<CompleteShard> = Vec::new();
    let threads = thread_pool(config.threads)?;
    if !keys.is_empty() && !config.dry_run {
        let shard = ShardBuilder { model: &model, builder: builder.get(), params: &params, row_type, gate, control };
        let spooled = spool.close()?;
        built.push(threads.install(|| shard.build(spooled, None, ""))?);
    }
    let refuse = matches!(config.operation, Operation::Append { .. });
    let prepare = |base: &Snapshot| {
        let replaced = lengths.replaced(base)?;
        if keys.is_empty() && changed.is_empty() && replaced.is_empty() {
            return Ok(None);
        }
        let mut nodes = locate(base, &keys)?;
        add(&mut nodes, replaced);
        if refuse && nodes.iter().any(|nodes| !nodes.is_empty()) {
            // Another job has added them since.
            refuse_existing(base, keys.iter().map(String::as_str).chain(lengths.documents()))?;
        }
        let new_metadata = metadata::locate(base, &changed)?;
        change.deleted = nodes.iter().map(Vec::len).sum::<usize>() as u64;
        let mut shards = threads.install(|| without(base, &nodes, control))?;
        if !config.dry_run {
            let dir = workspace.path().join(format!("metadata-{}", base.manifest().generation));
            metadata::apply(base, &new_metadata.nodes, &mut shards, &dir, control)?;
        }
        shards.extend(built.iter().map(|built| DraftShard {
            files: ShardFiles::Built(built),
            deletions: None,
            updates: None,
        }));
        let manifest = base.manifest();
        let (parent, min_recall) = (Some(manifest.generation), manifest.min_recall);
        Ok(Some(Draft { parent, model: &model, min_recall, change: change.clone(), shards }))
    };
    let mut outcome = commit(&config.index, config.dry_run, base, prepare)?;
    if config.dry_run {
        if config.passages == Passages::Source {
            control.progress.note("each document counts as one: which ones are split is known once they are embedded");
        }
        outcome.documents_after += change.indexed - change.reused;
    }
    Ok(Outcome { change, ..outcome })
}

/// Refuses a batch for which the disk has too little room.
fn check_room(
    config: &UpsertConfig,
    source: &dyn VectorSource,
    batch: &dyn Batch,
    (builder, params, row_type): (Builder, BuildParams, RowType),
    gate: &RecallGate<'_>,
) -> Result<(), Error> {
    let plan = Plan {
        documents: source.documents(),
        dim: source.model().dim,
        shards: 1,
        text_bytes: batch.text_bytes(),
        terms: None,
        params,
        builder,
        row_type,
        questions: gate.questions.map_or(0, VectorRows::len),
    };
    Ok(check_space(&config.index, plan.disk_bytes(plan.documents.unwrap_or(0)), config.free_space)?)
}

fn refuse_existing<'a>(base: &Snapshot, keys: impl Iterator<Item = &'a str>) -> Result<(), Error> {
    let mut existing = Existing::default();
    for key in keys {
        if base.find(key)?.is_some() || !base.passages(key, 0)?.is_empty() {
            existing.add(key);
        }
    }
    existing.refuse()
}

/// Reads the batch, and spools what is to be indexed.
#[expect(clippy::too_many_arguments, reason = "the parts of one pass, which share nothing else")]
fn pass(
    config: &UpsertConfig,
    base: &Snapshot,
    source: &mut dyn VectorSource,
    batch: &mut dyn Batch,
    (spool, changed, lengths): (&mut Spool, &mut Changed, &mut Lengths),
    change: &mut Change,
    control: JobControl<'_>,
    workspace: &Path,
) -> Result<(), Error> {
    let all = source.is_in_step();
    let mut staged;
    let documents: &mut Documents<'_> = if all {
        batch
    } else {
        let mut existing = Existing::default();
        let refused = config.operation == Operation::Append { skip_existing: false };
        control.progress.begin("read", Unit::Bytes, batch.file_bytes());
        staged = Staged::read(workspace, batch, |document| {
            control.check()?;
            if refused && Stored::of(base, config.passages, document)?.is_some() {
                existing.add(&document.key);
            }
            Ok(())
        })?;
        control.progress.finish();
        existing.refuse()?;
        change.read = staged.records();
        change.superseded = staged.superseded();
        &mut staged
    };
    let model = &base.manifest().model;
    let mut check = RowCheck::new(model.dim, model.metric);
    let mut triage = Triage {
        documents,
        base,
        operation: config.operation,
        all,
        spool,
        control,
        changed,
        passages: config.passages,
        lengths,
        max_tokens: source.model().max_tokens,
        alike: BTreeMap::new(),
        more: 0,
        unchanged: 0,
        existing: Existing::default(),
        failed: None,
    };
    let mut pulled = 0;
    control.progress.begin("documents", Unit::Documents, source.documents());
    loop {
        control.check()?;
        // A dry run asks for no vectors.
        let next = if config.dry_run && !all {
            let document = triage.next().transpose()?;
            document.map(|document| triage.place(&document.value, &[])).transpose()?.map(|()| None)
        } else {
            source.pull(&mut triage, control.cancel)?.map(Some)
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
    let Triage { unchanged, existing, more, .. } = triage;
    existing.refuse()?;
    // Of each document that was split, all passages are indexed.
    change.read += more;
    if all {
        change.read = pulled;
    }
    change.unchanged = unchanged;
    if let Some(note) = check.note() {
        control.progress.note(&note);
    }
    Ok(())
}
