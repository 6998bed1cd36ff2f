//! `append` and `upsert`: documents in, one new shard out, published with the deletion of what it replaces.

use dyad_files::space::check_space;
use dyad_index::snapshot::Shard;
use dyad_index::{GroundTruth, QuerySource, ground_truth};

use super::conditions::ChangeStart;
use super::context::check_context;
use super::outcome::ChangeOutcome;
use super::passages::Passages;
use super::transaction::{Publication, Transaction};
use super::upsert_config::UpsertConfig;
use super::upsert_job::UpsertJob;
use super::upsert_progress::UpsertProgress;
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::{GraphConfig, QuestionVectors, RecallGate, RecallTarget};
use crate::job::{ShardBuilder, ShardJob, thread_pool};
use crate::plan::BuildPlan;
use crate::publish::check_model;
use crate::source::{DocumentBatch, LeadingSource, VectorSource};

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
    upsert_after(config, &ChangeStart::default(), batch, source, control)
}

/// The same for a program that makes one change after another, for callers who may see some documents only.
pub fn upsert_after(
    config: &UpsertConfig,
    start: &ChangeStart<'_>,
    batch: &mut dyn DocumentBatch,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    let transaction = Transaction::begin(&config.index, start.known, Publication::unless(config.dry_run))?;
    let base = transaction.base();
    // Before anything is embedded.
    start.conditions.check_expected(base)?;
    start.conditions.check_replaced(base)?;
    let mut source = LeadingSource::like(source, &base.manifest().model);
    let source: &mut dyn VectorSource = &mut source;
    let model = source.model().clone();
    check_model(&config.index, &model)?;
    check_context(base.manifest(), source)?;
    let graph = GraphConfig::like_index(base, config.threads);
    graph.params.validate()?;
    let codec = GraphConfig::codec_of_index(base);
    let questions = match &config.queries {
        Some(path) => Some(QuestionVectors::open(path, &model, graph.params.seed)?),
        None => held_out(base.shards())?,
    };
    let builder = ShardBuilder {
        model: &model,
        graph,
        codec: codec.as_ref(),
        language: base.manifest().language,
        gate: RecallGate::new(questions.as_ref(), base.manifest().min_recall.map(RecallTarget::from))
            .with_sample(config.sample),
        control,
    };
    let threads = thread_pool(config.threads)?;
    let shards = ShardJob::begin(&config.index, builder, &threads)?;
    check_room(config, &builder, source, batch)?;

    let mut job = UpsertJob {
        config,
        start,
        control,
        shards,
        threads: &threads,
        source,
        staged: None,
        progress: UpsertProgress::default(),
    };
    job.index(base, batch)?;
    let mut outcome = transaction.publish(|before, base| job.draft(before, base))?;
    let (spooled, change) = (job.progress.spooled(), job.progress.change.clone());
    let kept = job.progress.kept();
    if config.dry_run {
        if config.passages == Passages::Source {
            control
                .progress
                .note("each document counts as one: which ones are split is known once they are embedded");
        }
        outcome.documents_after += spooled;
    }
    Ok(ChangeOutcome {
        change,
        kept,
        ..outcome
    })
}

/// Refuses a batch for which the disk has too little room.
fn check_room(
    config: &UpsertConfig,
    builder: &ShardBuilder<'_>,
    source: &dyn VectorSource,
    batch: &dyn DocumentBatch,
) -> Result<(), Error> {
    let plan = BuildPlan {
        documents: source.documents(),
        text_bytes: batch.text_bytes(),
        questions: builder.gate.question_count(),
        ..BuildPlan::new(builder.graph, builder.model.dim)
    };
    Ok(check_space(
        &config.index,
        plan.disk_bytes(plan.documents.unwrap_or(0)),
        config.free_space,
    )?)
}
