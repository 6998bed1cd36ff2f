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

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_files::space::{FreeSpace, check_space};
use dyad_index::format::RowType;
use dyad_index::manifest::Change;
use dyad_index::search::VectorRows;
use dyad_index::snapshot::Shard;
use dyad_index::{ModelRecord, Snapshot};

use super::deletions::delete_nodes;
use super::difference::Difference;
use super::stored::{StoredBatch, live_places};
use super::upsert::build_like;
use super::{ATTEMPTS, ChangeOutcome, MissingKeys};
use crate::context_error::ContextError;
use crate::control::JobControl;
use crate::draft::{CompleteShard, Draft, DraftShard};
use crate::error::Error;
use crate::graph_build::{BuildParams, BuilderKind, QuestionVectors, RecallGate, RecallTarget};
use crate::job::{IndexPass, KeptShards, ShardBuilder, Spooled, Workspace, shard_label, thread_pool};
use crate::plan::BuildPlan;
use crate::publish::publish;
use crate::source::{DocumentBatch, VectorSource};

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

/// A new shard that no generation names yet.
struct Fresh {
    complete: Arc<CompleteShard>,
    shard: Shard,
    /// Nodes whose documents are gone by now, or are in a later shard.
    gone: BTreeSet<u32>,
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
    let base = Snapshot::open(&config.index)?;
    let model = source.model().clone();
    let (documents, old) = (base.manifest().documents(), base.manifest().model.clone());
    check_source(&base, source)?;
    let workspace = Workspace::create(&config.index)?;
    let (builder, params, row_type) = kind(&base, &model, config.threads);
    let questions = config
        .queries
        .as_ref()
        .map(|path| QuestionVectors::open(path, &model, params.seed))
        .transpose()?;
    let kept = config.target.map(RecallTarget::kept).or(base.manifest().min_recall);
    let gate = RecallGate {
        questions: questions.as_ref().map(|questions| questions as &dyn VectorRows),
        target: kept.map(RecallTarget::from),
    };
    let questions = gate.questions.map_or(0, VectorRows::len);
    let plan = plan_of(config, documents, model.dim, (builder, params, row_type), questions)?;
    control.progress.note(&format!("plan: {plan}"));
    let mut kept_shards = KeptShards::begin(&config.index)?;
    check_space(
        &config.index,
        plan.disk_bytes_after(documents, kept_shards.bytes()?),
        config.free_space,
    )?;
    let threads = thread_pool(config.threads)?;
    let language = base.manifest().language;
    let shard = ShardBuilder {
        model: &model,
        builder: builder.get(),
        params: &params,
        row_type,
        language,
        gate,
        control,
    };
    let build = |kept: &mut KeptShards, spooled: Spooled, label: &str| -> Result<Fresh, Error> {
        let complete = Arc::new(threads.install(|| kept.build(spooled, &shard, label))?);
        let shard = Shard::open_dir(&complete.dir)?;
        Ok(Fresh {
            complete,
            shard,
            gone: BTreeSet::new(),
        })
    };
    let pass = |first: usize, shards: usize, source: &mut dyn VectorSource, documents: &mut dyn DocumentBatch| {
        let terms = plan.terms_of_a_shard();
        let (workspace, language) = (workspace.path(), Some(language));
        let pass = IndexPass {
            workspace,
            model: &model,
            row_type,
            language,
            first,
            shards,
            terms,
            control,
        };
        Ok::<_, Error>(pass.run(documents, source)?.shards)
    };

    let (mut fresh, logit_scale) = (Vec::new(), source.logit_scale(control.cancel)?);
    let spooled = pass(0, plan.shards, source, &mut StoredBatch::from_live(&base))?;
    let count = spooled.len();
    kept_shards.remove_others(&spooled, &shard)?;
    for (number, spooled) in spooled.into_iter().enumerate() {
        fresh.push(build(&mut kept_shards, spooled, &shard_label(number, count))?);
    }
    // All that were read are held to the end: what was read of one may be purged only where it can be purged of the new
    // shards too.
    let (mut later, mut next): (Vec<Snapshot>, usize) = (Vec::new(), plan.shards);
    let mut change = Change {
        operation: "reembed".to_owned(),
        ..Change::default()
    };
    for _ in 0..ATTEMPTS {
        control.check()?;
        let last = later.last().unwrap_or(&base);
        let current = Snapshot::open_after(&config.index, Some(last))?;
        if current.manifest().generation != last.manifest().generation {
            let manifest = current.manifest();
            let is_like_base = manifest.model.same_space(&old) && manifest.context == base.manifest().context;
            if !is_like_base || manifest.language != language {
                // Another job has published another model or context, or texts by another language.
                return Err(Error::Contended);
            }
            let new = since(last, &current, &mut fresh, control)?;
            if !new.is_empty() {
                let spooled = pass(next, 1, source, &mut StoredBatch::from_places(&current, new))?;
                next += 1;
                for spooled in spooled {
                    fresh.push(build(&mut kept_shards, spooled, "meanwhile")?);
                }
            }
            later.push(current);
            continue;
        }
        change.truncated = source.truncated();
        change.indexed = fresh
            .iter()
            .map(|fresh| fresh.complete.documents - fresh.gone.len() as u64)
            .sum();
        change.read = change.indexed;
        let kept = config.target.map(RecallTarget::kept).or(last.manifest().min_recall);
        let shards = threads.install(|| drafts(&fresh, kept, control))?;
        let (parent, documents_before) = (Some(last.manifest().generation), last.manifest().documents());
        let (context, draft) = (source.context().stored(), Draft::new(&model, language, &change, shards));
        let draft = Draft {
            parent,
            min_recall: kept,
            context,
            logit_scale,
            ..draft
        };
        let documents_after = draft.documents();
        if let Some(manifest) = publish(&config.index, draft, true)? {
            source.published();
            kept_shards.published();
            let missing = MissingKeys::default();
            return Ok(ChangeOutcome {
                manifest: Some(manifest),
                change,
                documents_before,
                documents_after,
                missing,
            });
        }
    }
    Err(Error::Contended)
}

/// What is to be embedded of a later generation; what of the new shards is gone is noted.
fn since(
    last: &Snapshot,
    current: &Snapshot,
    fresh: &mut [Fresh],
    control: JobControl<'_>,
) -> Result<Vec<(usize, u32)>, Error> {
    let Difference { new, gone } = Difference::between(last, current, |_| true, control)?;
    control.progress.note(&format!(
        "generation {} came meanwhile: {} documents are new or changed, {} are gone",
        current.manifest().generation,
        new.len(),
        gone.len()
    ));
    for key in &gone {
        forget(fresh, key)?;
    }
    Ok(new)
}

/// Embeds a sample of the documents and says what all of them would take.
pub fn estimate(
    config: &ReembedConfig,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<ReembedEstimate, Error> {
    let base = Snapshot::open(&config.index)?;
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
    let plan = plan_of(config, documents, model.dim, kind(&base, &model, config.threads), 0)?;
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
    documents: u64,
    dim: usize,
    (builder, params, row_type): (BuilderKind, BuildParams, RowType),
    questions: usize,
) -> Result<BuildPlan, Error> {
    let plan = BuildPlan {
        documents: Some(documents),
        dim,
        shards: shards(documents, config.max_documents),
        text_bytes: None,
        terms: None,
        params,
        builder,
        row_type,
        questions,
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
    for (entry, shard) in super::shards(base) {
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
fn kind(base: &Snapshot, model: &ModelRecord, threads: usize) -> (BuilderKind, BuildParams, RowType) {
    let (builder, params, row_type) = build_like(base, threads);
    let same = base.manifest().model.metric == model.metric;
    (
        builder,
        params,
        if same { row_type } else { RowType::usual(model.metric) },
    )
}

fn shards(documents: u64, most: u64) -> usize {
    usize::try_from(documents.div_ceil(most.max(1)))
        .unwrap_or(usize::MAX)
        .clamp(1, MOST_SHARDS)
}

/// Notes that a document of the new shards is gone.
fn forget(fresh: &mut [Fresh], key: &str) -> Result<(), Error> {
    for one in fresh {
        if let Some(node) = one.shard.dense.find(key)?
            && one.gone.insert(node)
        {
            break;
        }
    }
    Ok(())
}

fn drafts(
    fresh: &[Fresh],
    kept: Option<dyad_index::manifest::MinRecall>,
    control: JobControl<'_>,
) -> Result<Vec<DraftShard>, Error> {
    let mut shards = Vec::with_capacity(fresh.len());
    for one in fresh {
        let gone: Vec<u32> = one.gone.iter().copied().collect();
        let deletions = match gone.len() {
            0 => None,
            all if all as u64 == one.complete.documents => continue,
            _ => Some(delete_nodes("re-embedded", &one.shard, &gone, kept, control)?),
        };
        shards.push(DraftShard {
            deletions,
            ..DraftShard::built(&one.complete)
        });
    }
    Ok(shards)
}
