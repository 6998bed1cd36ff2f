//! `dyad-indexer build`: arguments, the summary.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use dyad_command::cancel_on_signal;
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::BuilderKind;
use dyad_indexer::job::{BuildConfig, BuildSummary, build_index};
use dyad_indexer::memory;
use dyad_indexer::plan::{ByteSize, Shards};
use dyad_indexer::source::Corpus;

use super::bar::ProgressReporter;
use super::documents;
use super::graph::GraphArguments;
use super::language::LanguageArguments;

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
    close(&config, &summary, started.elapsed())?;
    Ok(ExitCode::SUCCESS)
}

fn close(config: &BuildConfig, summary: &BuildSummary, took: Duration) -> io::Result<()> {
    let manifest = &summary.manifest;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "built generation {} of `{}`: {} documents in {}{}, {:.1} s",
        manifest.generation,
        config.index.display(),
        manifest.documents(),
        Shards(manifest.shards.len()),
        if manifest.shards.len() < config.shards {
            format!(" of {}", config.shards)
        } else {
            String::new()
        },
        took.as_secs_f64()
    )?;
    if let Some(truncated @ 1..) = manifest.change.as_ref().and_then(|change| change.truncated) {
        writeln!(
            out,
            "{truncated} texts are longer than the model reads and were truncated"
        )?;
    }
    for (shard, certificate) in manifest.shards.iter().zip(&summary.certificates) {
        let at = |ef| {
            certificate
                .recall
                .iter()
                .find(|point| point.ef == ef)
                .map_or(0.0, |point| point.recall_at_10)
        };
        writeln!(
            out,
            "shard {}: {} documents, all reachable ({} after repair); recall@10 {:.4} at ef 64, {:.4} at ef 128",
            shard.id,
            shard.documents,
            certificate.unreachable_before_repair,
            at(64),
            at(128)
        )?;
    }
    if let Some(peak) = memory::peak_bytes() {
        write!(out, "peak memory {}", ByteSize(peak))?;
        if let Some(predicted) = summary.predicted_bytes {
            write!(out, ", predicted at most {}", ByteSize(predicted))?;
        }
        writeln!(out)?;
    }
    out.flush()
}
