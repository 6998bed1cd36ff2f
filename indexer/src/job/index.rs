//! The steps of a build in order: inputs, plan, one pass over the corpus, the shards one by one, publish.

use std::path::{Path, PathBuf};

use dyad_files::create_dir_synced;
use dyad_files::space::{FreeSpace, check_space};
use dyad_index::TextLanguage;
use dyad_index::format::RowType;
use dyad_index::manifest::{self, Change, Manifest, POINTER, SHARDS_DIR};
use dyad_index::{Certificate, Metric};

use super::pass::PassResult;
use super::shard::ShardBuilder;
use super::shard_job::{ShardJob, SpoolConfig, thread_pool};
use super::spool::Spooled;
use crate::control::{JobControl, Unit};
use crate::draft::{Draft, DraftShard};
use crate::error::Error;
use crate::graph_build::{BuildParams, BuilderKind, GraphConfig, QuestionVectors, RecallGate, RecallTarget};
use crate::plan::BuildPlan;
use crate::publish::{check_model, publish};
use crate::source::{Corpus, DocumentBatch, LeadingSource, VectorSource};

/// Most shards of a build: each holds a file and a text index open during the pass.
const SHARDS: std::ops::RangeInclusive<usize> = 1..=256;

/// The file that identifies a directory of embeddings, which is not an index.
const EMBEDDINGS_RECORD: &str = "embeddings.json";

/// One build of an index.
#[derive(Debug, Clone)]
pub struct BuildConfig {
    /// The documents.
    pub corpus: Corpus,
    /// The index's directory; it is created where it does not exist.
    pub index: PathBuf,
    /// Shards; documents go to one by a hash of their key. Empty shards are left out.
    pub shards: usize,
    /// The builder of each shard's graph.
    pub builder: BuilderKind,
    /// Parameters of each shard's graph.
    pub params: BuildParams,
    /// Type of the stored vectors.
    pub row_type: RowType,
    /// How many of the first values of each vector are kept; by default as in the current generation, where that is of
    /// the same model, or else all. See [`dyad_index::matryoshka`].
    pub dimensions: Option<usize>,
    /// The language by which BM25 analyses texts; by default that of the first documents.
    pub language: Option<TextLanguage>,
    /// Questions by which recall is measured, see [`QuestionVectors::open`]; by default documents serve as questions.
    pub queries: Option<PathBuf>,
    /// Minimum recall of every shard.
    pub target: Option<RecallTarget>,
    /// Whether the vectors may be of another model than the current generation's.
    pub new_model: bool,
    /// Whether an index without documents may be published.
    pub allow_empty: bool,
    /// Most bytes of memory; then there may be more shards.
    pub memory: Option<u64>,
    /// Returns the free space of the index's disk.
    pub free_space: FreeSpace,
}

impl BuildConfig {
    /// How graphs are built and vectors stored.
    fn graph(&self) -> GraphConfig {
        GraphConfig {
            builder: self.builder,
            params: self.params,
            row_type: self.row_type,
        }
    }
}

fn check_shards(got: usize) -> Result<(), Error> {
    let (low, high) = (*SHARDS.start(), *SHARDS.end());
    if SHARDS.contains(&got) {
        return Ok(());
    }
    Err(Error::Parameter {
        name: "shards",
        low,
        high,
        got,
    })
}

/// Reads files as far as the first document: what is wrong with all of them is told before anything is embedded.
/// Standard input is read once.
fn check_beginning(config: &BuildConfig, opened: &dyn DocumentBatch) -> Result<(), Error> {
    if opened.file_bytes().is_none() {
        return Ok(());
    }
    let mut corpus = config.corpus.open(false)?;
    let first = corpus.next().transpose()?;
    if first.is_none() && !config.allow_empty {
        return Err(Error::NoDocuments {
            read: corpus.rejected(),
        });
    }
    Ok(())
}

/// What a build published.
#[derive(Debug, Clone)]
pub struct BuildSummary {
    /// The new generation.
    pub manifest: Manifest,
    /// By shard, in the manifest's order.
    pub certificates: Vec<Certificate>,
    /// Bytes of memory that were predicted for these documents; `None` where the length of the texts was not known.
    pub predicted_bytes: Option<u64>,
}

/// Builds and publishes the next generation from a corpus and its vectors.
///
/// If it fails or is cancelled, the index is unchanged.
pub fn build_index(
    config: &BuildConfig,
    source: &mut dyn VectorSource,
    control: JobControl<'_>,
) -> Result<BuildSummary, Error> {
    config.params.validate()?;
    check_shards(config.shards)?;
    if config.index.join(EMBEDDINGS_RECORD).exists() {
        return Err(Error::NotAnIndex {
            dir: config.index.clone(),
            found: EMBEDDINGS_RECORD,
        });
    }
    refuse_inside_index(&config.index)?;
    let mut corpus = config.corpus.open(false)?;
    check_beginning(config, corpus.as_ref())?;
    let current = manifest::current(&config.index).ok().map(|current| current.model);
    let mut source = LeadingSource::of_build(source, config.dimensions, current.as_ref())?;
    let source: &mut dyn VectorSource = &mut source;
    let model = source.model().clone();
    if !config.new_model {
        check_model(&config.index, &model)?;
    }
    let questions = config
        .queries
        .as_ref()
        .map(|path| QuestionVectors::open(path, &model, config.params.seed))
        .transpose()?;
    let gate = RecallGate::new(questions.as_ref(), config.target);
    create_dir_synced(&config.index)?;
    let before = manifest::current_generation(&config.index).ok().flatten();
    let builder = ShardBuilder {
        model: &model,
        graph: config.graph(),
        codec: None,
        language: config.language.unwrap_or_default(),
        gate,
        control,
    };
    let threads = thread_pool(config.params.threads)?;
    let mut job = ShardJob::begin(&config.index, builder, &threads)?;
    let plan = planned(config, corpus.as_ref(), source, gate.question_count(), control)?;
    control.progress.note(&format!("plan: {plan}"));
    // Of the remains of killed builds, whole shards are left.
    let kept_bytes = job.keep_shards(&config.index)?;
    let needed = plan.disk_bytes_after(plan.documents.unwrap_or(0), kept_bytes);
    check_space(&config.index, needed, config.free_space)?;

    // Before hours of embedding, which would be lost with a service that is away at their end.
    let logit_scale = source.logit_scale(model.dim, control.cancel)?;
    let spooling = SpoolConfig {
        shards: plan.shards,
        language: config.language,
        terms: plan.terms_of_a_shard(),
    };
    let PassResult {
        shards: spooled,
        language,
    } = job.spool(spooling, corpus.as_mut(), source)?;
    job.builder.language = language;
    if spooled.is_empty() && !config.allow_empty {
        return Err(Error::NoDocuments {
            read: corpus.rejected(),
        });
    }
    corpus
        .warnings()
        .iter()
        .for_each(|warning| control.progress.warn(warning));
    warn_of_empty(&spooled, plan.shards, control);

    let built = job.build_all(spooled)?;
    let indexed = built.iter().map(|shard| shard.documents).sum();
    let rejected = corpus.rejected();
    let (operation, read, truncated) = ("build".to_owned(), indexed + rejected, source.truncated());
    let change = Change {
        operation,
        read,
        indexed,
        rejected,
        truncated,
        ..Change::default()
    };
    let shards = built.iter().map(DraftShard::built).collect();
    let min_recall = config.target.map(RecallTarget::kept);
    let context = source.context().stored();
    let draft = Draft {
        min_recall,
        context,
        logit_scale,
        ..Draft::new(&model, language, &change, shards)
    };
    let manifest = publish(&config.index, draft, config.new_model)?.ok_or(Error::Contended)?;
    source.published();
    job.published();
    warn_of_meanwhile(before, &manifest, control);
    if config.queries.is_none() {
        tell_of_questions(config, model.metric, source.has_two_towers(), control);
    }
    let predicted_bytes = plan.text_bytes.map(|_| plan.memory_bytes(manifest.documents()));
    let certificates = built.iter().map(|shard| shard.certificate.clone()).collect();
    Ok(BuildSummary {
        manifest,
        certificates,
        predicted_bytes,
    })
}

/// What the build takes; within a limit of memory, after the documents were counted.
fn planned(
    config: &BuildConfig,
    corpus: &dyn DocumentBatch,
    source: &dyn VectorSource,
    questions: usize,
    control: JobControl<'_>,
) -> Result<BuildPlan, Error> {
    let plan = BuildPlan {
        documents: source.documents(),
        shards: config.shards,
        text_bytes: corpus.text_bytes(),
        questions,
        ..BuildPlan::new(config.graph(), source.model().dim)
    };
    let Some(memory) = config.memory else { return Ok(plan) };
    let (documents, text_bytes) = counted(&config.corpus, control)?;
    BuildPlan {
        documents: Some(documents),
        text_bytes: Some(text_bytes),
        ..plan
    }
    .within(memory, *SHARDS.end())
}

/// A build replaces whatever is there: what others have published while it ran is named.
fn warn_of_meanwhile(before: Option<u64>, built: &Manifest, control: JobControl<'_>) {
    if let Some(parent) = built.parent.filter(|parent| Some(*parent) != before) {
        control.progress.warn(&format!(
            "generation {parent} was published while this build ran, and generation {} replaces it: what it changed is not in \
             the index now. Change it again, or go back with `dyad-indexer rollback --to {parent}`",
            built.generation
        ));
    }
}

/// Questions may be unlike documents, by which recall was measured: more so for inner products, and where the model has
/// two towers.
fn tell_of_questions(config: &BuildConfig, metric: Metric, two_towers: Option<bool>, control: JobControl<'_>) {
    let progress = control.progress;
    let remedy = format!(
        "`dyad-indexer calibrate --index {} --queries FILE|LOG` measures with questions as they are asked, without a rebuild",
        config.index.display()
    );
    let measured = "recall was measured with documents as questions";
    if metric == Metric::Dot {
        progress.warn(&format!(
            "{measured}, and inner products of questions may be lower: {remedy}"
        ));
    } else if two_towers == Some(true) {
        progress.warn(&format!(
            "{measured}, and the model embeds questions otherwise: {remedy}"
        ));
    } else {
        progress.note(&format!("{measured}: {remedy}"));
    }
}

fn warn_of_empty(spooled: &[Spooled], shards: usize, control: JobControl<'_>) {
    if spooled.len() < shards {
        let documents: usize = spooled.iter().map(|shard| shard.keys.len()).sum();
        control.progress.warn(&format!(
            "{} of {shards} shards hold documents: a hash of its key decides where each of the {documents} goes",
            spooled.len(),
        ));
    }
}

/// Documents and bytes of their texts, by reading them once.
fn counted(corpus: &Corpus, control: JobControl<'_>) -> Result<(u64, u64), Error> {
    let mut batch = corpus.open(false)?;
    if batch.text_bytes().is_none() {
        return Err(Error::MemoryOfStream);
    }
    control.progress.begin("counting", Unit::Bytes, batch.file_bytes());
    let (mut documents, mut bytes, mut bytes_seen) = (0, 0, 0);
    while let Some(document) = batch.next().transpose()? {
        control.check()?;
        let document = document.value;
        documents += 1;
        // Each is stored, and each word is a term with its places.
        bytes += (document.key.len() + document.title.len() + document.text.len()) as u64;
        let read = batch.bytes_read();
        control.progress.advance(read.saturating_sub(bytes_seen));
        bytes_seen = read;
    }
    control.progress.finish();
    Ok((documents, bytes))
}

/// An index is not built inside another one, whose jobs remove what they do not know.
fn refuse_inside_index(index: &Path) -> Result<(), Error> {
    let absolute = std::path::absolute(index)?;
    let is_index = |folder: &&Path| folder.join(POINTER).is_file() && folder.join(SHARDS_DIR).is_dir();
    match absolute.ancestors().skip(1).find(is_index) {
        Some(outer) => Err(Error::InsideIndex {
            dir: index.to_owned(),
            outer: outer.to_owned(),
        }),
        None => Ok(()),
    }
}
