//! The arguments of every command that reads documents and their vectors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::ValueEnum;
use dyad_command::JobCancellation;
use dyad_corpus::{
    CorpusFormat, CorpusReader, PassageContext, ReadArguments, ReadOptions, UnseenFieldPolicy, is_stream,
};
use dyad_files::space::{FreeSpace, boundless, free_space};
use dyad_index::{Metric, manifest};
use dyad_indexer::change::Passages;
use dyad_indexer::source::{
    ArraySource, Corpus, DeclaredModel, FileSource, KeptSource, LongTexts, OnLong, VectorSource,
};
use dyad_proto::client::CredentialOptions;
use dyad_proto::v1;

use super::model::{ModelArguments, OwnEncoder};
use super::services::{ContextArguments, ServiceCalls};

/// A command requires one of `--embeddings`, `--encoder`, `--model` and `--vectors` by a group of its own, which may
/// hold more.
#[derive(Debug, clap::Args)]
pub(super) struct DocumentArguments {
    #[arg(
        long,
        value_name = "PATH",
        required_unless_present = "vectors",
        help = format!(
            "Documents: {}. Not needed with `--vectors`: then documents have a key and a vector, and no text",
            CorpusFormat::paths_of_corpora()
        )
    )]
    corpus: Option<PathBuf>,
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    pub(super) index: PathBuf,
    /// Vectors that `dyad-encoder embed` has made of this corpus
    #[arg(long, value_name = "DIR")]
    embeddings: Option<PathBuf>,
    /// Encoder service that embeds while the index is built, http://HOST:PORT, or several between commas: each gets
    /// batches in turn, and those of one that fails go to the others
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    encoder: Vec<String>,
    #[command(flatten)]
    model: ModelArguments,
    /// Vectors that come from elsewhere, in the order of the documents: a .npy file of float32 or float16 [documents,
    /// values], or a Parquet file with lists of floats in a column `vector`, and keys in a column `_id`, if it has one,
    /// or an .fbin or .fvecs file. Where cosine compares them, they are normalised to length 1
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// Keys of documents without texts, one per line; by default those of the Parquet file, or numbers from 0
    #[arg(long, value_name = "FILE", requires = "vectors", conflicts_with = "corpus")]
    keys: Option<PathBuf>,
    /// Name of the model that made the vectors of `--vectors`; by default that of the index
    #[arg(long, value_name = "NAME", requires = "vectors")]
    model_name: Option<String>,
    /// How the vectors of `--vectors` are compared: `cosine`, `dot` (inner product of vectors of any length, for models
    /// that were trained by it) or `l2` (Euclidean distance); by default as those of the index, or by cosine
    #[arg(long, value_enum, value_name = "METRIC", requires = "model_name")]
    metric: Option<MetricArgument>,
    /// Fingerprint of that model, as `dyad-encoder inspect` prints it, so that a searcher with this model answers from
    /// the index
    #[arg(long, value_name = "HEX", requires = "model_name")]
    fingerprint: Option<String>,
    /// Threads; one per core by default. With 1 the graph is the same on every run
    #[arg(long)]
    threads: Option<usize>,
    /// Questions by which to measure recall: a .npy file of float32 or float16 [questions, values], or a directory that
    /// `dyad-encoder embed --tower question` has made; at most 1,000 are used. By default, those by which the index was
    /// measured before, or else documents
    #[arg(long, value_name = "PATH")]
    pub(super) queries: Option<PathBuf>,
    #[command(flatten)]
    read: ReadArguments,
    #[command(flatten)]
    context: ContextArguments,
    /// Documents that are longer than the model reads: `error` fails and names the first, `truncate` embeds their
    /// beginnings, `split` makes passages of them that the model reads whole (keys KEY#0, KEY#1 and so on), and leaves
    /// others as they are
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = LongDocumentPolicy::Truncate, conflicts_with_all = ["embeddings", "vectors"])]
    on_long: LongDocumentPolicy,
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
    /// For `--encoder`
    #[command(flatten)]
    credentials: CredentialOptions,
}

/// Documents and the source of their vectors.
pub(super) struct OpenedDocuments {
    pub(super) corpus: Corpus,
    pub(super) source: Box<dyn VectorSource>,
    /// Has to live as long as the source.
    pub(super) encoder: Option<OwnEncoder>,
}

/// What becomes of documents that are longer than the model reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum LongDocumentPolicy {
    Error,
    Truncate,
    Split,
}

impl From<LongDocumentPolicy> for OnLong {
    fn from(long: LongDocumentPolicy) -> Self {
        match long {
            LongDocumentPolicy::Error => Self::Error,
            LongDocumentPolicy::Truncate => Self::Truncate,
            LongDocumentPolicy::Split => Self::Split,
        }
    }
}

/// How vectors that come from elsewhere are compared.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum MetricArgument {
    Cosine,
    Dot,
    L2,
}

impl From<MetricArgument> for Metric {
    fn from(compared: MetricArgument) -> Self {
        match compared {
            MetricArgument::Cosine => Self::Cosine,
            MetricArgument::Dot => Self::Dot,
            MetricArgument::L2 => Self::L2,
        }
    }
}

impl DocumentArguments {
    /// The documents and the source of their vectors, which keeps what an encoder service embeds for a build; a corpus
    /// that cannot be opened is told first.
    pub(super) fn open(&self, is_build: bool, cancel: &JobCancellation) -> anyhow::Result<OpenedDocuments> {
        if let Some(path) = self.corpus.as_ref().filter(|path| !is_stream(path)) {
            let read = self.read.options().map_err(anyhow::Error::msg)?;
            CorpusReader::open(path, &read).context("--corpus")?;
        }
        let encoder = self.model.start()?;
        let urls = encoder
            .as_ref()
            .map_or_else(|| self.encoder.clone(), |own| vec![own.url().to_owned()]);
        let (source, of_vectors): (Box<dyn VectorSource>, Option<Corpus>) = match (&self.vectors, &self.embeddings) {
            (Some(path), ..) => {
                let mut source = self.array(path)?;
                if self.keys.is_some() {
                    source.ignore_keys();
                }
                let keys = if source.has_keys() {
                    Corpus::Parquet(path.clone())
                } else {
                    Corpus::Numbered(source.rows())
                };
                (Box::new(source), Some(keys))
            }
            (None, Some(dir)) => {
                let source = FileSource::open(dir)?;
                if let Some(dtype) = source.dtype() {
                    tracing::info!("vectors of `{}` were computed in {dtype}", dir.display());
                }
                (Box::new(source), None)
            }
            (None, None) => {
                let timeout = Duration::from_secs(self.timeout_s);
                let calls = ServiceCalls {
                    urls: &urls,
                    tower: v1::Tower::Answer,
                    context: self.context()?,
                    batch_texts: self.batch_texts,
                    timeout,
                    credentials: &self.credentials,
                };
                let connected = || calls.connect(cancel);
                anyhow::ensure!(
                    self.on_long != LongDocumentPolicy::Split || !self.read.splits(),
                    "`--on-long split` is for documents that are not split otherwise: leave out `--split`, or take `--on-long error`"
                );
                let passages = match self.on_long {
                    LongDocumentPolicy::Split => Some(connected()?),
                    LongDocumentPolicy::Error | LongDocumentPolicy::Truncate => None,
                };
                let source = connected()?;
                // A build is repeated from its beginning; changes are small.
                let source: Box<dyn VectorSource> = if is_build {
                    Box::new(KeptSource::new(source, &self.index))
                } else {
                    Box::new(source)
                };
                (Box::new(LongTexts::new(source, self.on_long.into(), passages)), None)
            }
        };
        if let Some(given) = self.context.given().filter(|given| *given != source.context()) {
            let of_source = source.context();
            anyhow::bail!(
                "`--context {given}`: the vectors that are given have of their documents `{of_source}`; leave it out, or embed these so"
            );
        }
        let corpus = match (&self.corpus, &self.keys) {
            (Some(path), _) => Corpus::File {
                path: path.clone(),
                read: ReadOptions {
                    // A few documents that are added need not have every field.
                    unseen_fields: if is_build {
                        UnseenFieldPolicy::Refused
                    } else {
                        UnseenFieldPolicy::Allowed
                    },
                    ..self.read_options()?
                },
            },
            (None, Some(keys)) => Corpus::Keys(keys.clone()),
            (None, None) => of_vectors.context("`--corpus` is needed")?,
        };
        Ok(OpenedDocuments {
            corpus,
            source,
            encoder,
        })
    }

    /// The path of the corpus, where only that is read.
    pub(super) fn corpus_path(&self) -> anyhow::Result<PathBuf> {
        self.corpus.clone().context("`--corpus` is needed")
    }

    fn array(&self, path: &Path) -> anyhow::Result<ArraySource> {
        let model;
        let current = manifest::current(&self.index).map(|manifest| manifest.model);
        let declared = if let Some(name) = &self.model_name {
            let metric = self
                .metric
                .map_or_else(|| current.map_or(Metric::Cosine, |model| model.metric), Metric::from);
            DeclaredModel {
                name,
                fingerprint: self.fingerprint.as_deref(),
                metric,
            }
        } else {
            model = current.context("`--vectors` of a new index needs `--model-name`")?;
            DeclaredModel {
                name: &model.name,
                fingerprint: Some(&model.fingerprint),
                metric: model.metric,
            }
        };
        Ok(ArraySource::open(path, &declared)?)
    }

    pub(super) fn read_options(&self) -> anyhow::Result<ReadOptions> {
        Ok(ReadOptions {
            max_bad: Some(self.max_bad),
            rejects: self.rejects.clone(),
            ..self.read.options().map_err(anyhow::Error::msg)?
        })
    }

    /// What of its document reaches a passage's vector that a service makes: by default as in the index.
    fn context(&self) -> anyhow::Result<PassageContext> {
        let context = self.context.or_of(&self.index)?;
        anyhow::ensure!(
            context.late_weight().is_none() || self.read.splits() || self.read.has_documents(),
            "`{context}` is for passages of documents: split these (`--split WORDS`), name the file of those that the passages were cut from (`--documents FILE`), or \
             take `--context title`"
        );
        Ok(context)
    }

    /// Whether documents that the model does not read whole are split.
    pub(super) fn splits_long(&self) -> bool {
        self.on_long == LongDocumentPolicy::Split
    }

    /// What makes passages of documents.
    pub(super) fn passages(&self) -> Passages {
        match (self.read.splits(), self.on_long) {
            (true, _) => Passages::Batch,
            (false, LongDocumentPolicy::Split) => Passages::Source,
            (false, LongDocumentPolicy::Error | LongDocumentPolicy::Truncate) => Passages::None,
        }
    }

    pub(super) fn threads(&self) -> std::io::Result<usize> {
        thread_count(self.threads)
    }

    pub(super) fn free_space(&self) -> FreeSpace {
        if self.skip_space_check { boundless } else { free_space }
    }
}

/// As asked for, or one per core.
pub(super) fn thread_count(asked: Option<usize>) -> std::io::Result<usize> {
    asked.map_or_else(|| Ok(std::thread::available_parallelism()?.get()), Ok)
}
