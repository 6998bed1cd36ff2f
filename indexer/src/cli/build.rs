//! `dyad-indexer build`: arguments, the choice of a source, the summary.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::ValueEnum;
use dyad_command::cancel_on_signal;
use dyad_corpus::{CorpusReader, ReadOptions, is_stream};
use dyad_files::space::{boundless, free_space};
use dyad_index::format::RowType;
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::{BuildParams, Builder, RecallTarget};
use dyad_indexer::job::{BuildConfig, Summary, build_index};
use dyad_indexer::memory;
use dyad_indexer::plan::{Bytes, Shards};
use dyad_indexer::source::{FileSource, RemoteConfig, RemoteSource, VectorSource};
use dyad_proto::client::ClientConfig;

use super::bar::Bar;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["embeddings", "encoder"]))]
pub(super) struct Arguments {
    /// Documents: a .jsonl or .tsv file (plain, .gz, .zst), a BEIR folder, or `-` for standard input
    #[arg(long, value_name = "PATH")]
    corpus: PathBuf,
    /// Directory of the index; created if it does not exist, else the next generation is added
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Vectors that `dyad-encoder embed` has made of this corpus
    #[arg(long, value_name = "DIR")]
    embeddings: Option<PathBuf>,
    /// Encoder service that embeds while the index is built, http://HOST:PORT
    #[arg(long, value_name = "URL")]
    encoder: Option<String>,
    /// Shards; more shards take less memory to build, one is fastest to search
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// Graph builder: our own, or the `hnsw_rs` crate over vectors or over int8 codes
    #[arg(long, value_enum, default_value_t = Choice::Native)]
    builder: Choice,
    /// Type of the stored vectors; f16 takes half the space and changes scores by about 1e-5
    #[arg(long, value_enum, default_value_t = Vectors::F32)]
    vectors: Vectors,
    /// Links per node on the upper layers, twice as many on layer 0
    #[arg(long, default_value_t = 16)]
    m: usize,
    /// Beam width of insertion: a larger one makes a better graph, and takes longer
    #[arg(long, default_value_t = 200)]
    ef_construction: usize,
    /// Threads; one per core by default. With 1 the graph is the same on every run
    #[arg(long)]
    threads: Option<usize>,
    /// Seed of the order of insertion and of the sampled documents of the certificate
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Questions by which to measure recall: a .npy file of float32 or float16 [questions, values], or a directory that
    /// `dyad-encoder embed --tower question` has made; at most 1,000 are used. By default, documents serve as questions
    #[arg(long, value_name = "PATH")]
    queries: Option<PathBuf>,
    /// Fail, and publish nothing, if recall@10 of a shard is lower; above 0, at most 1
    #[arg(long, value_name = "RECALL")]
    min_recall: Option<f64>,
    /// Beam width at which `--min-recall` must be reached
    #[arg(long, value_name = "EF", default_value_t = 128, requires = "min_recall")]
    at_ef: usize,
    /// Publish vectors of another model than the current generation's. A running searcher does not load them: start one with
    /// the new model
    #[arg(long)]
    new_model: bool,
    /// Format of the corpus; detected from its name by default
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Texts per call to the encoder service
    #[arg(long, default_value_t = 256)]
    batch_texts: usize,
    /// Deadline of one call to the encoder service, in seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    /// Bad records (malformed, without key or text, duplicate keys) to skip; with more the job fails and lists them.
    /// Use the same number as for `dyad-encoder embed`
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_bad: u64,
    /// List bad records in this file, one JSON object with file, line and reason per line
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Start even if the disk seems to have too little free space
    #[arg(long)]
    skip_space_check: bool,
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

impl From<Choice> for Builder {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Native => Self::Native,
            Choice::HnswRs => Self::HnswRs,
            Choice::HnswRsInt8 => Self::HnswRsInt8,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Vectors {
    F32,
    F16,
}

impl From<Vectors> for RowType {
    fn from(vectors: Vectors) -> Self {
        match vectors {
            Vectors::F32 => Self::F32,
            Vectors::F16 => Self::F16,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Auto,
    Jsonl,
    Tsv,
    Beir,
}

impl From<Format> for dyad_corpus::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Auto => Self::Auto,
            Format::Jsonl => Self::Jsonl,
            Format::Tsv => Self::Tsv,
            Format::Beir => Self::Beir,
        }
    }
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    let target = arguments.min_recall.map(|recall| RecallTarget::new(recall, arguments.at_ef)).transpose()?;
    let cancel = cancel_on_signal()?;
    if !is_stream(&arguments.corpus) {
        let read = ReadOptions { format: arguments.format.into(), ..ReadOptions::default() };
        CorpusReader::open(&arguments.corpus, &read).context("--corpus")?;
    }
    let mut source: Box<dyn VectorSource> = match (&arguments.embeddings, &arguments.encoder) {
        (Some(dir), _) => {
            let source = FileSource::open(dir)?;
            if let Some(dtype) = source.dtype() {
                tracing::info!("vectors of `{}` were computed in {dtype}", dir.display());
            }
            Box::new(source)
        }
        (None, Some(url)) => {
            let client =
                ClientConfig { call_timeout: Duration::from_secs(arguments.timeout_s), ..ClientConfig::default() };
            let config = RemoteConfig { batch_texts: arguments.batch_texts, client, ..RemoteConfig::default() };
            Box::new(RemoteSource::connect(url, config)?)
        }
        (None, None) => anyhow::bail!("one of `--embeddings` and `--encoder` is needed"),
    };
    let threads = match arguments.threads {
        Some(threads) => threads,
        None => std::thread::available_parallelism()?.get(),
    };
    let config = BuildConfig {
        corpus: arguments.corpus,
        read: ReadOptions {
            format: arguments.format.into(),
            max_bad: Some(arguments.max_bad),
            rejects: arguments.rejects,
            ..ReadOptions::default()
        },
        index: arguments.index,
        shards: arguments.shards,
        builder: arguments.builder.into(),
        params: BuildParams {
            m: arguments.m,
            ef_construction: arguments.ef_construction,
            seed: arguments.seed,
            threads,
        },
        row_type: arguments.vectors.into(),
        queries: arguments.queries,
        target,
        new_model: arguments.new_model,
        free_space: if arguments.skip_space_check { boundless } else { free_space },
    };
    let control = JobControl { progress: &Bar::default(), cancel: &cancel };
    let summary = build_index(&config, source.as_mut(), control)?;
    close(&config, &summary, started.elapsed())?;
    Ok(ExitCode::SUCCESS)
}

fn close(config: &BuildConfig, summary: &Summary, took: Duration) -> io::Result<()> {
    let manifest = &summary.manifest;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "built generation {} of `{}`: {} documents in {}{}, {:.1} s",
        manifest.generation,
        config.index.display(),
        manifest.documents(),
        Shards(manifest.shards.len()),
        if manifest.shards.len() < config.shards { format!(" of {}", config.shards) } else { String::new() },
        took.as_secs_f64()
    )?;
    for (shard, certificate) in manifest.shards.iter().zip(&summary.certificates) {
        let at = |ef| certificate.recall.iter().find(|point| point.ef == ef).map_or(0.0, |point| point.recall_at_10);
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
        write!(out, "peak memory {}", Bytes(peak))?;
        if let Some(predicted) = summary.predicted_bytes {
            write!(out, ", predicted at most {}", Bytes(predicted))?;
        }
        writeln!(out)?;
    }
    out.flush()
}
