//! `dyad-indexer bulk`: a corpus embedded and indexed by tasks that any engine can schedule, repeat and kill.
//!
//! | file | contents |
//! |---|---|
//! | `plan.rs` | `bulk plan` |
//! | `scratch.rs` | the directory for files in use |

mod plan;
mod scratch;

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Subcommand;
use dyad_command::cancel_on_signal;
use dyad_corpus::PassageContext;
use dyad_files::space::ByteSize;
use dyad_indexer::bulk::{self, BulkEstimate, Status};
use dyad_indexer::control::JobControl;
use dyad_indexer::source::RemoteSource;
use dyad_proto::client::CredentialOptions;
use dyad_proto::v1;
use serde::Serialize;

use self::scratch::ScratchArguments;
use super::bar::ProgressReporter;
use super::change::parse_age;
use super::documents::thread_count;
use super::model::{ModelArguments, OwnEncoder};
use super::report::OutputArguments;
use super::services::ServiceCalls;

#[derive(Debug, clap::Args)]
pub(super) struct BulkArguments {
    #[command(subcommand)]
    step: BulkStep,
}

#[derive(Debug, Subcommand)]
enum BulkStep {
    /// Cut the inputs into partitions and shards, estimate what they take by a sample, and put plan.json where there is
    /// none
    Plan(Box<plan::BulkPlanArguments>),
    /// Embed one partition; nothing is done where that is done already
    Embed(Box<EmbedArguments>),
    /// Build one shard, whose partitions are embedded; nothing is done where that is done already
    Shard(ShardArguments),
    /// Publish the shards, all of which are built, as the index's next generation by one conditional put
    Commit(CommitArguments),
    /// Say what is done of a job, from its files alone
    Status(StatusArguments),
    /// Remove what killed tasks have left: objects that no record names, by their age
    Gc(BulkGcArguments),
}

#[derive(Debug, clap::Args)]
struct EmbedArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    /// Number of the partition, from 0
    #[arg(long, value_name = "I")]
    partition: usize,
    /// Encoder services, http://HOST:PORT between commas: each gets batches in turn, and those of one that fails go to
    /// the others. Neither these nor `--model` are needed where the inputs hold the vectors
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    encoder: Vec<String>,
    #[command(flatten)]
    model: ModelArguments,
    /// Texts per call to an encoder service
    #[arg(long, default_value_t = 256)]
    batch_texts: usize,
    /// Deadline of one call to an encoder service, in seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    #[command(flatten)]
    scratch: ScratchArguments,
    /// For `--encoder`
    #[command(flatten)]
    credentials: CredentialOptions,
}

#[derive(Debug, clap::Args)]
struct ShardArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    /// Number of the shard, from 0
    #[arg(long, value_name = "J")]
    shard: usize,
    /// Threads; one per core by default
    #[arg(long)]
    threads: Option<usize>,
    #[command(flatten)]
    scratch: ScratchArguments,
}

#[derive(Debug, clap::Args)]
struct CommitArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    #[command(flatten)]
    scratch: ScratchArguments,
}

#[derive(Debug, clap::Args)]
struct StatusArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(Debug, clap::Args)]
struct BulkGcArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    /// Least age of what is removed, such as `12h` or `7d`: longer than any task takes. Of the index, only what tasks
    /// of this job have put and no generation names
    #[arg(long, value_name = "AGE", default_value = "7d", value_parser = parse_age)]
    older_than: Duration,
    /// Remove nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: BulkArguments) -> anyhow::Result<ExitCode> {
    let cancel = cancel_on_signal()?;
    let bar = ProgressReporter::default();
    let control = JobControl {
        progress: &bar,
        cancel: &cancel,
    };
    match arguments.step {
        BulkStep::Plan(arguments) => plan::run(*arguments, control)?,
        BulkStep::Embed(arguments) => embed(&arguments, control)?,
        BulkStep::Shard(arguments) => shard(&arguments, control)?,
        BulkStep::Commit(CommitArguments { plan, scratch }) => {
            let done = bulk::commit(&plan, &scratch.path(), control)?;
            let (generation, index, documents) = (done.manifest.generation, &done.index, done.manifest.documents());
            let mut out = io::stdout().lock();
            if done.is_new {
                let shards = done.manifest.shards.len();
                writeln!(
                    out,
                    "published generation {generation} of {index}: {documents} documents in {shards} shards"
                )?;
            } else {
                writeln!(
                    out,
                    "nothing to do: generation {generation} of {index} was published before"
                )?;
            }
        }
        BulkStep::Status(arguments) => status(&arguments, control)?,
        BulkStep::Gc(BulkGcArguments {
            plan,
            older_than,
            dry_run,
        }) => {
            let swept = bulk::gc(&plan, older_than, dry_run, control)?;
            let did = if dry_run { "would remove" } else { "removed" };
            writeln!(
                io::stdout().lock(),
                "{did} {} objects of {}",
                swept.files,
                ByteSize(swept.bytes)
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn embed(arguments: &EmbedArguments, control: JobControl<'_>) -> anyhow::Result<()> {
    let timeout = Duration::from_secs(arguments.timeout_s);
    let began = Instant::now();
    let (mut failure, mut own) = (None, None);
    let mut connected = || -> anyhow::Result<RemoteSource> {
        if own.is_none() {
            own = arguments.model.start()?;
        }
        let urls = own.as_ref().map_or_else(
            || arguments.encoder.clone(),
            |own: &OwnEncoder| vec![own.url().to_owned()],
        );
        anyhow::ensure!(
            !urls.is_empty(),
            "`--encoder` or `--model` is needed: the inputs do not hold the vectors"
        );
        let calls = ServiceCalls {
            urls: &urls,
            tower: v1::Tower::Answer,
            context: PassageContext::default(),
            batch_texts: arguments.batch_texts,
            timeout,
            credentials: &arguments.credentials,
        };
        calls.connect(control.cancel)
    };
    let mut open = || match connected() {
        Ok(source) => Ok(Box::new(source) as Box<_>),
        Err(error) => {
            failure = Some(error);
            Err(dyad_indexer::Error::NoVectors)
        }
    };
    let embedded = bulk::embed(
        &arguments.plan,
        arguments.partition,
        &arguments.scratch.path(),
        &mut open,
        control,
    );
    if let Some(failure) = failure {
        return Err(failure);
    }
    let bulk::EmbeddedPartition { done, is_new } = embedded?;
    let mut out = io::stdout().lock();
    if is_new {
        let (documents, rejected) = (done.documents, done.rejected);
        let rejected = if rejected > 0 {
            format!(", {rejected} bad records")
        } else {
            String::new()
        };
        let seconds = began.elapsed().as_secs_f64();
        writeln!(
            out,
            "partition {}: {documents} documents{rejected}; {seconds:.1} s",
            arguments.partition
        )?;
    } else {
        writeln!(out, "nothing to do: partition {} is done", arguments.partition)?;
    }
    Ok(())
}

fn shard(arguments: &ShardArguments, control: JobControl<'_>) -> anyhow::Result<()> {
    let threads = thread_count(arguments.threads)?;
    let built = bulk::shard(
        &arguments.plan,
        arguments.shard,
        &arguments.scratch.path(),
        threads,
        control,
    )?;
    let mut out = io::stdout().lock();
    if built.is_new {
        let done = &built.done;
        let peak = done
            .peak_memory_bytes
            .map_or_else(String::new, |peak| format!(", peak memory {}", ByteSize(peak)));
        writeln!(
            out,
            "shard {}: {} documents, recall@10 {:.4} at ef 64{peak}; {:.1} s",
            arguments.shard, done.shard.documents, done.recall_at_ef_64, done.seconds
        )?;
    } else {
        writeln!(out, "nothing to do: shard {} is done", arguments.shard)?;
    }
    Ok(())
}

fn status(arguments: &StatusArguments, control: JobControl<'_>) -> anyhow::Result<()> {
    let (plan, status) = bulk::status(&arguments.plan, control)?;
    let report = StatusReport {
        status,
        index: plan.job.index,
        has_vectors: plan.job.has_vectors,
        estimate: plan.estimate,
    };
    Ok(arguments.output.print(&report)?)
}

/// What is done of a job.
#[derive(Debug, Serialize)]
struct StatusReport {
    #[serde(flatten)]
    status: Status,
    index: String,
    has_vectors: bool,
    estimate: BulkEstimate,
}

impl fmt::Display for StatusReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, index, .. } = self;
        let (done, all) = (status.partitions_done, status.partitions);
        writeln!(f, "partitions: {done} of {all} embedded")?;
        writeln!(f, "shards: {} of {} built", status.shards_done, status.shards)?;
        let (read, documents, bad) = (status.read, status.documents, status.rejected);
        writeln!(f, "records: {read} read, {documents} documents, {bad} bad")?;
        for (partition, rejected) in &status.rejected_by_partition {
            writeln!(f, "  partition {partition}: {rejected} bad records")?;
        }
        let published = if status.committed {
            "is published"
        } else {
            "is not published"
        };
        writeln!(f, "generation {} of {index} {published}", status.generation)
    }
}
