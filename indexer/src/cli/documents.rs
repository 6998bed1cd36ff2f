//! The arguments of every command that reads documents and their vectors.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use dyad_corpus::{CorpusReader, ReadOptions, is_stream};
use dyad_files::space::{FreeSpace, boundless, free_space};
use dyad_indexer::source::{FileSource, RemoteConfig, RemoteSource, VectorSource};
use dyad_proto::client::ClientConfig;

/// A command requires one of `--embeddings` and `--encoder` by a group of its own, which may hold more.
#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Documents: a .jsonl or .tsv file (plain, .gz, .zst), a BEIR folder, or `-` for standard input
    #[arg(long, value_name = "PATH")]
    pub(super) corpus: PathBuf,
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    pub(super) index: PathBuf,
    /// Vectors that `dyad-encoder embed` has made of this corpus
    #[arg(long, value_name = "DIR")]
    embeddings: Option<PathBuf>,
    /// Encoder service that embeds while the index is built, http://HOST:PORT
    #[arg(long, value_name = "URL")]
    encoder: Option<String>,
    /// Threads; one per core by default. With 1 the graph is the same on every run
    #[arg(long)]
    threads: Option<usize>,
    /// Questions by which to measure recall: a .npy file of float32 or float16 [questions, values], or a directory that
    /// `dyad-encoder embed --tower question` has made; at most 1,000 are used. By default, those by which the index was
    /// measured before, or else documents
    #[arg(long, value_name = "PATH")]
    pub(super) queries: Option<PathBuf>,
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

impl Arguments {
    /// The source of the vectors; a corpus that cannot be opened is told first.
    pub(super) fn source(&self) -> anyhow::Result<Box<dyn VectorSource>> {
        if !is_stream(&self.corpus) {
            let read = ReadOptions { format: self.format.into(), ..ReadOptions::default() };
            CorpusReader::open(&self.corpus, &read).context("--corpus")?;
        }
        match (&self.embeddings, &self.encoder) {
            (Some(dir), _) => {
                let source = FileSource::open(dir)?;
                if let Some(dtype) = source.dtype() {
                    tracing::info!("vectors of `{}` were computed in {dtype}", dir.display());
                }
                Ok(Box::new(source))
            }
            (None, Some(url)) => {
                let client =
                    ClientConfig { call_timeout: Duration::from_secs(self.timeout_s), ..ClientConfig::default() };
                let config = RemoteConfig { batch_texts: self.batch_texts, client, ..RemoteConfig::default() };
                Ok(Box::new(RemoteSource::connect(url, config)?))
            }
            (None, None) => anyhow::bail!("one of `--embeddings` and `--encoder` is needed"),
        }
    }

    pub(super) fn read_options(&self) -> ReadOptions {
        ReadOptions {
            format: self.format.into(),
            max_bad: Some(self.max_bad),
            rejects: self.rejects.clone(),
            ..ReadOptions::default()
        }
    }

    pub(super) fn threads(&self) -> std::io::Result<usize> {
        threads(self.threads)
    }

    pub(super) fn free_space(&self) -> FreeSpace {
        if self.skip_space_check { boundless } else { free_space }
    }
}

/// As asked for, or one per core.
pub(super) fn threads(asked: Option<usize>) -> std::io::Result<usize> {
    asked.map_or_else(|| Ok(std::thread::available_parallelism()?.get()), Ok)
}
