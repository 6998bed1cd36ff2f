//! `append` and `upsert`: documents in, one new shard out, published with the deletion of what it replaces.

use dyad_files::space::check_space;
use dyad_index::format::RowType;
use dyad_index::search::VectorRows;
use dyad_index::snapshot::Shard;
use dyad_index::{BuildRecord, GroundTruth, QuerySource, Snapshot, ground_truth};

use super::context::check_context;
use super::passages::Passages;
use super::upsert_config::UpsertConfig;
use super::upsert_job::UpsertJob;
use super::upsert_progress::UpsertProgress;
use super::{ChangeOutcome, commit};
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::{BuildParams, BuilderKind, QuestionVectors, RecallGate, RecallTarget};
use crate::job::{ShardBuilder, Workspace, thread_pool};
use crate::plan::BuildPlan;
use crate::publish::check_model;
use crate::source::{DocumentBatch, VectorSource};

/// How the shards of an index are built: as its largest one was.
pub(super) fn build_like(base: &Snapshot, threads: usize) -> (BuilderKind, BuildParams, RowType) {
    let largest = base.shards().iter().max_by_key(|shard| shard.dense.len());
    let Some(largest) = largest else {
        let row_type = RowType::usual(base.manifest().model.metric);
        return (
            BuilderKind::default(),
            BuildParams {
                m: 16,
                ef_construction: 200,
                seed: 0,
                threads,
            },
            row_type,
        );
    };
    let BuildRecord {
        builder,
        m,
        ef_construction,
        seed,
        ..
    } = &largest.dense.meta().build;
    let params = BuildParams {
        m: *m,
        ef_construction: *ef_construction,
        seed: *seed,
        threads,
    };
    (
        BuilderKind::named(builder).unwrap_or_default(),
        params,
        largest.dense.header().row_type,
    )
}

/// The held-out questions by which the first of these shards that has any was measured.
pub(super) fn held_out<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> Result<Option<QuestionVectors>, Error> {
    for shard in shards {
        let path = shard.ground_truth_path();
        if shard.certificate().source == QuerySource::HeldOut && path.exists() {
            let truth = GroundTruth::open(&path, shard.dense.meta().model.dim, shard.dense.len())?;
            if let ground_truth::CertificateQuestions::Vectors { dim, values } = truth.questions {
                return Ok(Some(QuestionVectors::new(values, dim)));
            }
        }
    }
    Ok(None)
}

/// Indexes a batch of documents and publishes it as the next generation. Documents that the index holds as they are
/// cost nothing, and those of which only metadata have changed stay in their shards with their vectors.
///
/// What others publish meanwhile is looked at before this is published: records that were left out because the index
/// held their documents, and no longer does, are indexed after all.
///
/// Where each vector comes from an encoder, keys may be repeated; in a set of vectors each key comes once. If it fails
/// or is cancelled, the index is unchanged.
pub fn upsert(
    config: &UpsertConfig,
    batch: &mut dyn DocumentBatch,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    upsert_after(config, None, batch, source, control)
}

/// The same for a program that makes one change after another: shards that the index has in common with `known`, a
/// generation that is open, are not opened again.
pub fn upsert_after(
    config: &UpsertConfig,
    known: Option<&Snapshot>,
    batch: &mut dyn DocumentBatch,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    let base = Snapshot::open_after(&config.index, known)?;
    let model = source.model().clone();
    check_model(&config.index, &model)?;
    check_context(base.manifest(), source)?;
    let (builder, params, row_type) = build_like(&base, config.threads);
    params.validate()?;
    let workspace = Workspace::create(&config.index)?;
    let questions = match &config.queries {
        Some(path) => Some(QuestionVectors::open(path, &model, params.seed)?),
        None => held_out(base.shards())?,
    };
    let gate = RecallGate {
        questions: questions.as_ref().map(|questions| questions as &dyn VectorRows),
        target: base.manifest().min_recall.map(RecallTarget::from),
    };
    check_room(config, source, batch, (builder, params, row_type), &gate)?;

    let mut job = UpsertJob {
        config,
        control,
        workspace: workspace.path(),
        shard: ShardBuilder {
            model: &model,
            builder: builder.get(),
            params: &params,
            row_type,
            language: base.manifest().language,
            gate,
            control,
        },
        threads: thread_pool(config.threads)?,
        source,
        staged: None,
        progress: UpsertProgress::default(),
    };
    job.index(&base, batch)?;
    let mut outcome = commit(&config.index, config.dry_run, base, |before, base| {
        job.draft(before, base)
    })?;
    let (spooled, change) = (job.progress.spooled(), job.progress.change);
    if config.dry_run {
        if config.passages == Passages::Source {
            control
                .progress
                .note("each document counts as one: which ones are split is known once they are embedded");
        }
        outcome.documents_after += spooled;
    }
    Ok(ChangeOutcome { change, ..outcome })
}

/// Refuses a batch for which the disk has too little room.
fn check_room(
    config: &UpsertConfig,
    source: &dyn VectorSource,
    batch: &dyn DocumentBatch,
    (builder, params, row_type): (BuilderKind, BuildParams, RowType),
    gate: &RecallGate<'_>,
) -> Result<(), Error> {
    let plan = BuildPlan {
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
    Ok(check_space(
        &config.index,
        plan.disk_bytes(plan.documents.unwrap_or(0)),
        config.free_space,
    )?)
}
