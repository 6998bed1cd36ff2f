//! `dyad-indexer reembed`: an index with the vectors of another model.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dyad_command::cancel_on_signal;
use dyad_files::space::{boundless, free_space};
use dyad_indexer::change::{ReembedConfig, ReembedEstimate, estimate, reembed};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::RecallTarget;
use dyad_indexer::plan::ByteSize;
use dyad_indexer::source::KeptSource;
use dyad_proto::client::CredentialOptions;
use dyad_proto::v1;
use serde::Serialize;

use super::bar::ProgressReporter;
use super::dimensions::DimensionArguments;
use super::documents::thread_count;
use super::model::ModelArguments;
use super::report::{ChangeReport, OutputArguments};
use super::services::{ContextArguments, ServiceCalls};

#[derive(Debug, clap::Args)]
pub(super) struct ReembedArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Encoder services with the new model, http://HOST:PORT between commas: each gets batches in turn, and those of
    /// one that fails go to the others
    #[arg(long, value_name = "URL", value_delimiter = ',', required_unless_present = "model")]
    encoder: Vec<String>,
    #[command(flatten)]
    model: ModelArguments,
    #[command(flatten)]
    context: ContextArguments,
    #[command(flatten)]
    dimensions: DimensionArguments,
    /// Most documents of a new shard, about
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_documents: u64,
    /// Threads; one per core by default
    #[arg(long)]
    threads: Option<usize>,
    /// Most memory, such as `4GiB`: terms are written to the disk before they take more, and there are more shards
    /// where it takes them. Refused before anything is read where it is not enough
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Questions, embedded by the new model, by which to measure recall: a directory that `dyad-encoder embed --tower
    /// question` has made, or a .npy file; by default documents
    #[arg(long, value_name = "PATH")]
    queries: Option<PathBuf>,
    /// Fail, and publish nothing, if recall@10 of a shard is lower; by default what the index keeps
    #[arg(long, value_name = "RECALL")]
    min_recall: Option<f64>,
    /// Beam width at which `--min-recall` must be reached
    #[arg(long, value_name = "EF", default_value_t = 128, requires = "min_recall")]
    at_ef: usize,
    /// Texts per call to the encoder service
    #[arg(long, default_value_t = 256)]
    batch_texts: usize,
    /// Deadline of one call to the encoder service, in seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    /// Start even if the disk seems to have too little free space
    #[arg(long)]
    skip_space_check: bool,
    /// Embed a sample of the documents, and say what all of them would take
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArguments,
    /// For `--encoder`
    #[command(flatten)]
    credentials: CredentialOptions,
}

pub(super) fn run(arguments: ReembedArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let target = arguments
        .min_recall
        .map(|recall| RecallTarget::new(recall, arguments.at_ef))
        .transpose()?;
    let config = ReembedConfig {
        max_documents: arguments.max_documents,
        dimensions: arguments.dimensions.dimensions,
        threads: thread_count(arguments.threads)?,
        queries: arguments.queries,
        target,
        memory: arguments.memory.map(|ByteSize(bytes)| bytes),
        free_space: if arguments.skip_space_check {
            boundless
        } else {
            free_space
        },
        index: arguments.index,
    };
    // Dropped after its client, which is created below.
    let own = arguments.model.start()?;
    let urls = own.as_ref().map_or(arguments.encoder, |own| vec![own.url().to_owned()]);
    let timeout = Duration::from_secs(arguments.timeout_s);
    let calls = ServiceCalls {
        urls: &urls,
        tower: v1::Tower::Answer,
        context: arguments.context.or_of(&config.index)?,
        batch_texts: arguments.batch_texts,
        timeout,
        credentials: &arguments.credentials,
    };
    let mut source = calls.connect(&cancel)?;
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    if arguments.dry_run {
        let estimate = estimate(&config, &mut source, control)?;
        arguments.output.print(&EstimateReport::from(estimate))?;
        return Ok(ExitCode::SUCCESS);
    }
    let outcome = reembed(&config, &mut KeptSource::new(source, &config.index), control)?;
    let mut report = ChangeReport::new(&config.index, &outcome, false, began);
    if let Some(manifest) = &outcome.manifest {
        report = report.with_model(&manifest.model);
    }
    arguments.output.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

/// What re-embedding all documents would take, by a sample.
#[derive(Debug, Serialize)]
struct EstimateReport {
    dry_run: bool,
    documents: u64,
    sampled: usize,
    text_bytes: u64,
    tokens: Option<u64>,
    embedding_s: f64,
    truncated: Option<u64>,
    disk_bytes: u64,
    memory_bytes: u64,
}

impl From<ReembedEstimate> for EstimateReport {
    fn from(estimate: ReembedEstimate) -> Self {
        Self {
            dry_run: true,
            documents: estimate.documents,
            sampled: estimate.sampled,
            text_bytes: estimate.text_bytes,
            tokens: estimate.tokens,
            embedding_s: estimate.embedding.as_secs_f64(),
            truncated: estimate.truncated,
            disk_bytes: estimate.disk_bytes,
            memory_bytes: estimate.memory_bytes,
        }
    }
}

impl fmt::Display for EstimateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (documents, text_bytes) = (self.documents, ByteSize(self.text_bytes));
        write!(f, "dry run: {documents} documents of about {text_bytes} of text")?;
        if let Some(tokens) = self.tokens {
            write!(f, " and {tokens} tokens")?;
        }
        write!(
            f,
            "; embedding them takes about {:.0} s, by {} of them; about {} of disk next to the index as it is, at most {} of \
             memory",
            self.embedding_s,
            self.sampled,
            ByteSize(self.disk_bytes),
            ByteSize(self.memory_bytes)
        )?;
        if let Some(truncated @ 1..) = self.truncated {
            write!(f, "; about {truncated} texts are truncated")?;
        }
        writeln!(f)
    }
}
