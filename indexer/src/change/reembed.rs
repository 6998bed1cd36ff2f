//! `reembed`: the next generation with the vectors of another model, made from the stored texts while the current one
//! is served and changed.
//!
//! ```text
//! base ------------------- read, embed, build ----------------> shards of the new model
//!   \-- appended, deleted meanwhile --> embed what is new, delete what is gone --> again, until nothing came meanwhile --> publish
//! ```
//!
//! At each point the new shards hold the documents of the last generation that was looked at: what changed since then
//! is found by comparing that generation with the current one. It is published only where that one is still current, by
//! the compare-and-swap of every change.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dyad_files::space::{FreeSpace, check_space};
use dyad_index::format::RowType;
use dyad_index::{ModelRecord, Snapshot};

use super::outcome::ChangeOutcome;
use super::reembed_job::{ReembedJob, ReplacedKind};
use super::stored::{StoredBatch, live_places};
use super::transaction::{Publication, Transaction};
use crate::context_error::ContextError;
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::{GraphConfig, QuestionVectors, RecallGate, RecallTarget};
use crate::job::{ShardBuilder, ShardJob, SpoolConfig, thread_pool};
use crate::plan::BuildPlan;
use crate::source::{LeadingSource, VectorSource};

/// Most shards.
const MOST_SHARDS: usize = 256;
/// Texts of a sample.
const SAMPLE: usize = 256;

/// How an index gets the vectors of another model.
#[derive(Debug, Clone)]
pub struct ReembedConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// Most documents of a new shard, about: keys are hashed.
    pub max_documents: u64,
    /// Threads of the graphs' build.
    pub threads: usize,
    /// How many of the first values of each vector are kept; by default as many as the index keeps, where it does not
    /// keep all. See [`dyad_index::matryoshka`].
    pub dimensions: Option<usize>,
    /// Questions by which recall is measured, embedded by the new model, see [`QuestionVectors::open`]; by default
    /// documents.
    pub queries: Option<PathBuf>,
    /// Minimum recall of every shard; by default that which the index keeps.
    pub target: Option<RecallTarget>,
    /// Most bytes of memory; then there may be more shards.
    pub memory: Option<u64>,
    /// Returns the free space of the index's disk.
    pub free_space: FreeSpace,
}

/// What re-embedding an index would take, from a sample of its documents.
#[derive(Debug, Clone, PartialEq)]
pub struct ReembedEstimate {
    /// Live documents.
    pub documents: u64,
    /// Documents that were embedded for it.
    pub sampled: usize,
    /// Bytes of all texts, by those of the sample.
    pub text_bytes: u64,
    /// Tokens of all texts after truncation, by the sample; nothing where the source does not tell.
    pub tokens: Option<u64>,
    /// Embedding all of them, by the sample's time.
    pub embedding: Duration,
    /// Texts that the model truncates, by the sample; nothing where the source does not tell.
    pub truncated: Option<u64>,
    /// Peak of disk space next to the index as it is.
    pub disk_bytes: u64,
    /// Peak of memory.
    pub memory_bytes: u64,
}

/// Embeds every live document again and publishes the result as the next generation, with what others have appended,
/// replaced and deleted meanwhile. The generation before stays for searchers that still have its model, and for a
/// rollback.
///
/// If it fails or is cancelled, the index is as the others have left it.
pub fn reembed(
    config: &ReembedConfig,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    let transaction = Transaction::begin(&config.index, None, Publication::AnyModel)?;
    let base = transaction.base();
    let mut source = LeadingSource::of_new_model(source, config.dimensions, &base.manifest().model)?;
    let source: &mut dyn VectorSource = &mut source;
    let model = source.model().clone();
    check_source(base, source)?;
    let graph = graph_of(base, &model, config.threads);
    let questions = config
        .queries
        .as_ref()
        .map(|path| QuestionVectors::open(path, &model, graph.params.seed))
        .transpose()?;
    let min_recall = config.target.map(RecallTarget::kept).or(base.manifest().min_recall);
    let builder = ShardBuilder {
        model: &model,
        graph,
        codec: None,
        language: base.manifest().language,
        gate: RecallGate::new(questions.as_ref(), min_recall.map(RecallTarget::from)),
        control,
    };
    let threads = thread_pool(config.threads)?;
    let mut shards = ShardJob::begin(&config.index, builder, &threads)?;
    let documents = base.manifest().documents();
    let plan = plan_of(config, graph, model.dim, documents, builder.gate.question_count())?;
    control.progress.note(&format!("plan: {plan}"));
    let kept_bytes = shards.keep_shards(&config.index)?;
    check_space(
        &config.index,
        plan.disk_bytes_after(documents, kept_bytes),
        config.free_space,
    )?;
    let mut job = ReembedJob {
        target: config.target,
        logit_scale: source.logit_scale(model.dim, control.cancel)?,
        source,
        spooling: SpoolConfig {
            shards: plan.shards,
            language: Some(builder.language),
            terms: plan.terms_of_a_shard(),
        },
        replaced: ReplacedKind::from(base.manifest()),
        shards,
        threads: &threads,
        fresh: Vec::new(),
    };
    job.embed_all(base)?;
    let outcome = transaction.publish(|before, base| job.draft(before, base).map(Some))?;
    job.published();
    Ok(outcome)
}

/// Embeds a sample of the documents and says what all of them would take.
pub fn estimate(
    config: &ReembedConfig,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<ReembedEstimate, Error> {
    let base = Snapshot::open(&config.index)?;
    let mut source = LeadingSource::of_new_model(source, config.dimensions, &base.manifest().model)?;
    let source: &mut dyn VectorSource = &mut source;
    let model = source.model().clone();
    check_source(&base, source)?;
    let documents = base.manifest().documents();
    let live: Vec<(usize, u32)> = live_places(&base).collect();
    let sampled = live.len().min(SAMPLE);
    let chosen = (0..sampled)
        .filter_map(|at| live.get(at * live.len() / sampled).copied())
        .collect();
    let mut sample = StoredBatch::from_places(&base, chosen);
    let (began, mut embedded) = (Instant::now(), 0_u64);
    while source.pull(&mut sample, control.cancel)?.is_some() {
        embedded += 1;
    }
    let took = began.elapsed();
    let scale = documents as f64 / embedded.max(1) as f64;
    let text_bytes = (sample.bytes as f64 * scale) as u64;
    let plan = plan_of(config, graph_of(&base, &model, config.threads), model.dim, documents, 0)?;
    let plan = BuildPlan {
        text_bytes: Some(text_bytes),
        ..plan
    };
    Ok(ReembedEstimate {
        documents,
        sampled,
        text_bytes,
        embedding: took.mul_f64(scale),
        tokens: source.tokens().map(|tokens| (tokens as f64 * scale) as u64),
        truncated: source.truncated().map(|truncated| (truncated as f64 * scale) as u64),
        disk_bytes: plan.disk_bytes(documents),
        memory_bytes: plan.memory_bytes(documents),
    })
}

/// What re-embedding these documents takes, within the memory that there is.
fn plan_of(
    config: &ReembedConfig,
    graph: GraphConfig,
    dim: usize,
    documents: u64,
    questions: usize,
) -> Result<BuildPlan, Error> {
    let plan = BuildPlan {
        documents: Some(documents),
        shards: shard_count(documents, config.max_documents),
        questions,
        ..BuildPlan::new(graph, dim)
    };
    config
        .memory
        .map_or(Ok(plan), |memory| plan.within(memory, MOST_SHARDS))
}

/// Refuses a source whose vectors the index has, or cannot have.
fn check_source(base: &Snapshot, source: &dyn VectorSource) -> Result<(), Error> {
    refuse_same(base, source)?;
    refuse_without_documents(base, source)
}

/// Refuses to read passages in documents that a shard does not have.
fn refuse_without_documents(base: &Snapshot, source: &dyn VectorSource) -> Result<(), Error> {
    if source.context().late_weight().is_none() {
        return Ok(());
    }
    for (entry, shard) in base.entries() {
        if shard.places.is_none() && !shard.is_empty() {
            let (generation, context) = (base.manifest().generation, source.context().to_string());
            return Err(ContextError::NoDocuments {
                generation,
                shard: entry.id.clone(),
                context,
            }
            .into());
        }
    }
    Ok(())
}

/// Refuses vectors that the index has: of the same model, from as much of their documents.
fn refuse_same(base: &Snapshot, source: &dyn VectorSource) -> Result<(), Error> {
    let (manifest, model) = (base.manifest(), source.model());
    if manifest.model.same_space(model) && manifest.context == source.context().stored() {
        let (model, fingerprint) = (model.name.clone(), model.fingerprint.clone());
        return Err(Error::SameModel {
            generation: base.manifest().generation,
            model,
            fingerprint,
        });
    }
    Ok(())
}

/// As the index is built, with the usual rows of the new model's metric where that is another one.
fn graph_of(base: &Snapshot, model: &ModelRecord, threads: usize) -> GraphConfig {
    let graph = GraphConfig::like_index(base, threads);
    if base.manifest().model.metric == model.metric {
        return graph;
    }
    GraphConfig {
        row_type: RowType::usual(model.metric),
        ..graph
    }
}

fn shard_count(documents: u64, most: u64) -> usize {
    usize::try_from(documents.div_ceil(most.max(1)))
        .unwrap_or(usize::MAX)
        .clamp(1, MOST_SHARDS)
}
