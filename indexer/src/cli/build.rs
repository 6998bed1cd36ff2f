//! `dyad-indexer build`: arguments, and the report.

use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use dyad_command::cancel_on_signal;
use dyad_index::Certificate;
use dyad_index::manifest::{Change, ShardEntry};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::BuilderKind;
use dyad_indexer::job::{BuildConfig, BuildSummary, build_index};
use dyad_indexer::memory;
use dyad_indexer::plan::{ByteSize, Shards};
use dyad_indexer::source::Corpus;
use serde::Serialize;

use super::bar::ProgressReporter;
use super::dimensions::DimensionArguments;
use super::documents;
use super::graph::GraphArguments;
use super::language::LanguageArguments;
use super::report::OutputArguments;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["embeddings", "encoder", "model", "vectors"]))]
pub(super) struct BuildArguments {
    #[command(flatten)]
    documents: documents::DocumentArguments,
    /// Shards; more shards take less memory to build, one is fastest to search
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// Most memory, such as `4GiB`: terms are written to the disk before they take more, and there are more shards
    /// where it takes them. Refused before anything is read where it is not enough
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Graph builder: our own, or the `hnsw_rs` crate over vectors or over int8 codes
    #[arg(long, value_enum, default_value_t = Choice::Native)]
    builder: Choice,
    #[command(flatten)]
    dimensions: DimensionArguments,
    #[command(flatten)]
    graph: GraphArguments,
    #[command(flatten)]
    language: LanguageArguments,
    /// Publish an index without documents where there is none to index
    #[arg(long)]
    allow_empty: bool,
    /// Publish vectors of another model than the current generation's. A running searcher does not load them: start one
    /// with the new model
    #[arg(long)]
    new_model: bool,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Choice {
    #[value(name = "native")]
    Native,
    #[value(name = "hnsw_rs")]
    HnswRs,
    #[value(name = "hnsw_rs-int8")]
    HnswRsInt8,
}

impl From<Choice> for BuilderKind {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Native => Self::Native,
            Choice::HnswRs => Self::HnswRs,
            Choice::HnswRsInt8 => Self::HnswRsInt8,
        }
    }
}

pub(super) fn run(arguments: BuildArguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let target = arguments.graph.target()?;
    let cancel = cancel_on_signal()?;
    let documents = arguments.documents;
    anyhow::ensure!(
        arguments.memory.is_none() || !documents.splits_long(),
        "`--memory` counts documents beforehand, which `--on-long split` makes more of. Split all with `--split WORDS`"
    );
    let documents::OpenedDocuments {
        mut corpus,
        mut source,
        encoder: _encoder,
    } = documents.open(true, &cancel)?;
    if let Corpus::File { read, .. } = &mut corpus {
        read.allow_empty = arguments.allow_empty;
    }
    let config = BuildConfig {
        shards: arguments.shards,
        builder: arguments.builder.into(),
        params: arguments.graph.params(documents.threads()?),
        row_type: arguments.graph.row_type(source.model().metric),
        dimensions: arguments.dimensions.dimensions,
        language: arguments.language.language(),
        target,
        new_model: arguments.new_model,
        allow_empty: arguments.allow_empty,
        memory: arguments.memory.map(|ByteSize(bytes)| bytes),
        free_space: documents.free_space(),
        corpus,
        index: documents.index,
        queries: documents.queries,
    };
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    let summary = build_index(&config, source.as_mut(), control)?;
    let report = BuildReport::new(&config, summary, started.elapsed());
    arguments.output.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// What a build published.
#[derive(Debug, Serialize)]
struct BuildReport {
    index: String,
    generation: u64,
    documents: u64,
    shards: Vec<BuiltShardReport>,
    /// Shards that were asked for; those without documents are left out.
    #[serde(skip)]
    shards_asked: usize,
    change: Option<Change>,
    seconds: f64,
    peak_memory_bytes: Option<u64>,
    predicted_memory_bytes: Option<u64>,
}

/// A shard, and what its certificate says.
#[derive(Debug, Serialize)]
struct BuiltShardReport {
    id: String,
    documents: u64,
    unreachable_before_repair: u64,
    recall_at_10_at_ef_64: f64,
    recall_at_10_at_ef_128: f64,
}

impl BuildReport {
    fn new(config: &BuildConfig, summary: BuildSummary, took: Duration) -> Self {
        let BuildSummary {
            manifest,
            certificates,
            predicted_bytes,
        } = summary;
        Self {
            index: config.index.display().to_string(),
            generation: manifest.generation,
            documents: manifest.documents(),
            shards: manifest
                .shards
                .iter()
                .zip(&certificates)
                .map(|(entry, certificate)| BuiltShardReport::new(entry, certificate))
                .collect(),
            shards_asked: config.shards,
            change: manifest.change,
            seconds: took.as_secs_f64(),
            peak_memory_bytes: memory::peak_bytes(),
            predicted_memory_bytes: predicted_bytes,
        }
    }
}

impl BuiltShardReport {
    fn new(entry: &ShardEntry, certificate: &Certificate) -> Self {
        let recall_at = |ef| {
            let point = certificate.recall.iter().find(|point| point.ef == ef);
            point.map_or(0.0, |point| point.recall_at_10)
        };
        Self {
            id: entry.id.clone(),
            documents: entry.documents,
            unreachable_before_repair: certificate.unreachable_before_repair,
            recall_at_10_at_ef_64: recall_at(64),
            recall_at_10_at_ef_128: recall_at(128),
        }
    }
}

impl fmt::Display for BuildReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (generation, index, documents) = (self.generation, &self.index, self.documents);
        let shards = Shards(self.shards.len());
        write!(
            f,
            "built generation {generation} of `{index}`: {documents} documents in {shards}"
        )?;
        if self.shards.len() < self.shards_asked {
            write!(f, " of {}", self.shards_asked)?;
        }
        writeln!(f, ", {:.1} s", self.seconds)?;
        if let Some(truncated @ 1..) = self.change.as_ref().and_then(|change| change.truncated) {
            writeln!(
                f,
                "{truncated} texts are longer than the model reads and were truncated"
            )?;
        }
        for shard in &self.shards {
            writeln!(
                f,
                "shard {}: {} documents, all reachable ({} after repair); recall@10 {:.4} at ef 64, {:.4} at ef 128",
                shard.id,
                shard.documents,
                shard.unreachable_before_repair,
                shard.recall_at_10_at_ef_64,
                shard.recall_at_10_at_ef_128
            )?;
        }
        if let Some(peak) = self.peak_memory_bytes {
            write!(f, "peak memory {}", ByteSize(peak))?;
            if let Some(predicted) = self.predicted_memory_bytes {
                write!(f, ", predicted at most {}", ByteSize(predicted))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
