//! `dyad-indexer bulk`: a corpus embedded and indexed by tasks that any engine can schedule, repeat and kill.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Subcommand;
use dyad_command::cancel_on_signal;
use dyad_corpus::ReadArguments;
use dyad_files::space::Bytes;
use dyad_index::Metric;
use dyad_index::format::RowType;
use dyad_indexer::bulk::{self, Estimate, Graph, PlanConfig, Vectors};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::RecallTarget;
use dyad_indexer::source::{DeclaredModel, RemoteConfig, RemoteSource};
use dyad_proto::client::{ClientConfig, CredentialOptions, Credentials};
use serde_json::json;

use super::bar::Bar;
use super::build::VectorType;
use super::change::age;
use super::documents::{Compared, Long, threads};

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    step: Step,
}

#[derive(Debug, Subcommand)]
enum Step {
    /// Cut the inputs into partitions and shards, estimate what they take by a sample, and put plan.json where there is none
    Plan(Box<PlanArguments>),
    /// Embed one partition; nothing is done where that is done already
    Embed(EmbedArguments),
    /// Build one shard, whose partitions are embedded; nothing is done where that is done already
    Shard(ShardArguments),
    /// Publish the shards, all of which are built, as the index's next generation by one conditional put
    Commit(CommitArguments),
    /// Say what is done of a job, from its files alone
    Status(StatusArguments),
    /// Remove what killed tasks have left: objects that no record names, by their age
    Gc(GcArguments),
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("vectors").required(true).args(["encoder", "model_name"]))]
struct PlanArguments {
    /// Inputs: 's3://BUCKET/DIR/*.parquet', or files of this machine
    #[arg(long, value_name = "PATTERN")]
    input: String,
    /// The index: s3://, gs://, az:// or file://
    #[arg(long, value_name = "URL")]
    index: String,
    /// Where the job's plan, records and vectors go: s3://, gs://, az:// or file://
    #[arg(long, value_name = "URL")]
    out: String,
    /// Encoder service of the model, http://HOST:PORT, or several between commas: embeds a sample
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    encoder: Vec<String>,
    /// The inputs are Parquet files that hold the vectors, in a column `vector`, and this is the name of the model that made them
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Fingerprint of that model, as `dyad-encoder inspect` prints it, so that a searcher with this model answers from the index
    #[arg(long, value_name = "HEX", requires = "model_name")]
    fingerprint: Option<String>,
    /// How the vectors of the inputs are compared
    #[arg(long, value_enum, value_name = "METRIC", default_value_t = Compared::Cosine, requires = "model_name")]
    metric: Compared,
    /// Documents of a shard, about
    #[arg(long, value_name = "N", default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    docs_per_shard: u64,
    /// Documents of a partition, about: what one task embeds
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    docs_per_partition: u64,
    #[command(flatten)]
    read: ReadArguments,
    /// Bad records to skip, of all inputs together; with more the job fails
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_bad: u64,
    /// Documents that are longer than the model reads: `error` fails and names the first, `truncate` embeds their beginnings, `split` makes passages of them
    /// that the model reads whole, and leaves others as they are
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Long::Truncate, requires = "encoder")]
    on_long: Long,
    /// Type of the stored vectors; by default f16, and f32 for the metric `l2`
    #[arg(long, value_enum)]
    vector_type: Option<VectorType>,
    /// Links per node on the upper layers, twice as many on layer 0
    #[arg(long, default_value_t = 16)]
    m: usize,
    /// Beam width of insertion
    #[arg(long, default_value_t = 200)]
    ef_construction: usize,
    /// Seed of the order of insertion
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Fail a shard whose recall@10 is lower; above 0, at most 1
    #[arg(long, value_name = "RECALL")]
    min_recall: Option<f64>,
    /// Beam width at which `--min-recall` must be reached
    #[arg(long, value_name = "EF", default_value_t = 128, requires = "min_recall")]
    at_ef: usize,
    #[command(flatten)]
    scratch: Scratch,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    /// For `--encoder`
    #[command(flatten)]
    credentials: CredentialOptions,
}

#[derive(Debug, clap::Args)]
struct Scratch {
    /// Directory for files in use; what killed tasks have left there is removed by the next one [default: `dyad-bulk` in the system's directory for
    /// temporary files]
    #[arg(long = "scratch", value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Scratch {
    fn path(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| std::env::temp_dir().join("dyad-bulk"))
    }
}

#[derive(Debug, clap::Args)]
struct EmbedArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    /// Number of the partition, from 0
    #[arg(long, value_name = "I")]
    partition: usize,
    /// Encoder services, http://HOST:PORT between commas: each gets batches in turn, and those of one that fails go to the others. Not needed where
    /// the inputs hold the vectors
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    encoder: Vec<String>,
    /// Texts per call to an encoder service
    #[arg(long, default_value_t = 256)]
    batch_texts: usize,
    /// Deadline of one call to an encoder service, in seconds
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
    #[command(flatten)]
    scratch: Scratch,
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
    scratch: Scratch,
}

#[derive(Debug, clap::Args)]
struct CommitArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    #[command(flatten)]
    scratch: Scratch,
}

#[derive(Debug, clap::Args)]
struct StatusArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct GcArguments {
    /// The job, as given by `plan --out`
    #[arg(long, value_name = "URL")]
    plan: String,
    /// Least age of what is removed, such as `12h` or `7d`: longer than any task takes
    #[arg(long, value_name = "AGE", default_value = "7d", value_parser = age)]
    older_than: Duration,
    /// Remove nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let cancel = cancel_on_signal()?;
    let bar = Bar::default();
    let control = JobControl { progress: &bar, cancel: &cancel };
    match arguments.step {
        Step::Plan(arguments) => plan(*arguments, control)?,
        Step::Embed(arguments) => embed(&arguments, control)?,
        Step::Shard(arguments) => shard(&arguments, control)?,
        Step::Commit(CommitArguments { plan, scratch }) => {
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
                writeln!(out, "nothing to do: generation {generation} of {index} was published before")?;
            }
        }
        Step::Status(arguments) => status(&arguments, control)?,
        Step::Gc(GcArguments { plan, older_than, dry_run }) => {
            let swept = bulk::gc(&plan, older_than, dry_run, control)?;
            let did = if dry_run { "would remove" } else { "removed" };
            writeln!(io::stdout().lock(), "{did} {} objects of {}", swept.files, Bytes(swept.bytes))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn connect(
    urls: &[String],
    batch_texts: usize,
    timeout: Duration,
    credentials: &CredentialOptions,
) -> anyhow::Result<RemoteSource> {
    let client =
        ClientConfig { call_timeout: timeout, credentials: Credentials::open(credentials)?, ..ClientConfig::default() };
    let config = RemoteConfig { batch_texts, client, ..RemoteConfig::default() };
    Ok(RemoteSource::connect_all(urls, config)?)
}

fn plan(arguments: PlanArguments, control: JobControl<'_>) -> anyhow::Result<()> {
    let target = arguments.min_recall.map(|recall| RecallTarget::new(recall, arguments.at_ef)).transpose()?;
    let metric = Metric::from(arguments.metric);
    let row_type = arguments.vector_type.map_or_else(|| RowType::usual(metric), RowType::from);
    let usual = Graph::default();
    let config = PlanConfig {
        input: arguments.input,
        read: arguments.read.options().map_err(anyhow::Error::msg)?,
        max_bad: arguments.max_bad,
        on_long: arguments.on_long.into(),
        shard_documents: arguments.docs_per_shard,
        partition_documents: arguments.docs_per_partition,
        index: arguments.index,
        out: arguments.out,
        graph: Graph {
            m: arguments.m,
            ef_construction: arguments.ef_construction,
            seed: arguments.seed,
            vector_type: row_type.name().to_owned(),
            min_recall: target.map(RecallTarget::kept),
            ..usual
        },
        scratch: arguments.scratch.path(),
    };
    anyhow::ensure!(
        arguments.on_long != Long::Split || !arguments.read.splits(),
        "`--on-long split` is for documents that are not split otherwise: leave out `--split`, or take `--on-long error`"
    );
    let vectors = match &arguments.model_name {
        Some(name) => {
            anyhow::ensure!(
                !arguments.read.splits(),
                "`--split` needs `--encoder`: vectors of the inputs are of whole documents"
            );
            Vectors::Input(DeclaredModel { name, fingerprint: arguments.fingerprint.as_deref(), metric })
        }
        None => {
            let timeout = ClientConfig::default().call_timeout;
            Vectors::Encoder(Box::new(connect(&arguments.encoder, 256, timeout, &arguments.credentials)?))
        }
    };
    let planned = bulk::plan(&config, vectors, control)?;
    let plan = &planned.plan;
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(plan)?)?;
        return Ok(());
    }
    let (partitions, shards) = (plan.job.partitions.len(), plan.job.shards.len());
    let did = if planned.is_new { "planned" } else { "nothing to do: the plan is there already:" };
    writeln!(
        out,
        "{did} generation {} of {}: {partitions} partitions (`bulk embed --partition 0` to {}), {shards} shards (`bulk shard --shard 0` to {})",
        plan.generation,
        plan.job.index,
        partitions.saturating_sub(1),
        shards.saturating_sub(1),
    )?;
    for line in told(&plan.estimate) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn told(estimate: &Estimate) -> Vec<String> {
    let mut lines = vec![format!(
        "by a sample of {}: about {} documents, {} of text in {} of input",
        estimate.sampled,
        estimate.documents,
        Bytes(estimate.text_bytes),
        Bytes(estimate.input_bytes)
    )];
    if let (Some(tokens), Some(truncated), Some(seconds)) = (estimate.tokens, estimate.truncated, estimate.embedding_s)
    {
        lines.push(format!(
            "embedding: {tokens} tokens, {truncated} texts truncated, {seconds:.0} s by the encoder services that were named"
        ));
    }
    lines.push(format!(
        "the largest shard: at most {} of memory and {} of disk; the index: {} without its texts",
        Bytes(estimate.shard_memory_bytes),
        Bytes(estimate.shard_disk_bytes),
        Bytes(estimate.index_bytes)
    ));
    lines
}

fn embed(arguments: &EmbedArguments, control: JobControl<'_>) -> anyhow::Result<()> {
    let timeout = Duration::from_secs(arguments.timeout_s);
    let began = Instant::now();
    let mut failure = None;
    let mut open = || {
        if arguments.encoder.is_empty() {
            failure = Some(anyhow::anyhow!("`--encoder` is needed: the inputs do not hold the vectors"));
            return Err(dyad_indexer::Error::NoVectors);
        }
        match connect(&arguments.encoder, arguments.batch_texts, timeout, &arguments.credentials) {
            Ok(source) => Ok(Box::new(source) as Box<_>),
            Err(error) => {
                failure = Some(error);
                Err(dyad_indexer::Error::NoVectors)
            }
        }
    };
    let embedded = bulk::embed(&arguments.plan, arguments.partition, &arguments.scratch.path(), &mut open, control);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let bulk::Embedded { done, is_new } = embedded?;
    let mut out = io::stdout().lock();
    if is_new {
        let (documents, rejected) = (done.documents, done.rejected);
        let rejected = if rejected > 0 { format!(", {rejected} bad records") } else { String::new() };
        let seconds = began.elapsed().as_secs_f64();
        writeln!(out, "partition {}: {documents} documents{rejected}; {seconds:.1} s", arguments.partition)?;
    } else {
        writeln!(out, "nothing to do: partition {} is done", arguments.partition)?;
    }
    Ok(())
}

fn shard(arguments: &ShardArguments, control: JobControl<'_>) -> anyhow::Result<()> {
    let threads = threads(arguments.threads)?;
    let built = bulk::shard(&arguments.plan, arguments.shard, &arguments.scratch.path(), threads, control)?;
    let mut out = io::stdout().lock();
    if built.is_new {
        let done = &built.done;
        let peak = done.peak_memory_bytes.map_or_else(String::new, |peak| format!(", peak memory {}", Bytes(peak)));
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
    let mut out = io::stdout().lock();
    if arguments.json {
        let mut record = serde_json::to_value(&status)?;
        let fields = record.as_object_mut().context("a status is an object")?;
        fields.insert("index".to_owned(), json!(plan.job.index));
        fields.insert("has_vectors".to_owned(), json!(plan.job.has_vectors));
        fields.insert("estimate".to_owned(), serde_json::to_value(&plan.estimate)?);
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
        return Ok(());
    }
    writeln!(out, "partitions: {} of {} embedded", status.partitions_done, status.partitions)?;
    writeln!(out, "shards: {} of {} built", status.shards_done, status.shards)?;
    writeln!(out, "records: {} read, {} documents, {} bad", status.read, status.documents, status.rejected)?;
    for (partition, rejected) in &status.rejected_by_partition {
        writeln!(out, "  partition {partition}: {rejected} bad records")?;
    }
    let (generation, index) = (status.generation, &plan.job.index);
    let published = if status.committed { "is published" } else { "is not published" };
    writeln!(out, "generation {generation} of {index} {published}")?;
    Ok(())
}
