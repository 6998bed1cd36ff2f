//! `dyad-indexer bulk plan`: arguments, the estimate.

use std::io::{self, Write as _};

use dyad_corpus::{PassageContext, ReadArguments};
use dyad_files::space::ByteSize;
use dyad_index::Metric;
use dyad_indexer::bulk::{self, BulkEstimate, GraphSettings, PlanConfig, VectorOrigin};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::{BuilderKind, RecallTarget};
use dyad_indexer::source::DeclaredModel;
use dyad_proto::client::{ClientConfig, CredentialOptions};
use dyad_proto::v1;

use super::super::dimensions::DimensionArguments;
use super::super::documents::{LongDocumentPolicy, MetricArgument};
use super::super::graph::GraphArguments;
use super::super::language::LanguageArguments;
use super::super::model::ModelArguments;
use super::super::services::ServiceCalls;
use super::scratch::ScratchArguments;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("vectors").required(true).args(["encoder", "model", "model_name"]))]
pub(super) struct BulkPlanArguments {
    /// Inputs: `s3://BUCKET/DIR/*.parquet`, or files of this machine
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
    #[command(flatten)]
    model: ModelArguments,
    /// The inputs are Parquet files that hold the vectors, in a column `vector`, and this is the name of the model that
    /// made them
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// Fingerprint of that model, as `dyad-encoder inspect` prints it, so that a searcher with this model answers from
    /// the index
    #[arg(long, value_name = "HEX", requires = "model_name")]
    fingerprint: Option<String>,
    /// How the vectors of the inputs are compared
    #[arg(long, value_enum, value_name = "METRIC", default_value_t = MetricArgument::Cosine, requires = "model_name")]
    metric: MetricArgument,
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
    /// Documents that are longer than the model reads: `error` fails and names the first, `truncate` embeds their
    /// beginnings, `split` makes passages of them that the model reads whole, and leaves others as they are
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = LongDocumentPolicy::Truncate, conflicts_with = "model_name")]
    on_long: LongDocumentPolicy,
    #[command(flatten)]
    dimensions: DimensionArguments,
    #[command(flatten)]
    graph: GraphArguments,
    #[command(flatten)]
    language: LanguageArguments,
    #[command(flatten)]
    scratch: ScratchArguments,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
    /// For `--encoder`
    #[command(flatten)]
    credentials: CredentialOptions,
}

pub(super) fn run(arguments: BulkPlanArguments, control: JobControl<'_>) -> anyhow::Result<()> {
    let metric = Metric::from(arguments.metric);
    let (graph, target) = (&arguments.graph, arguments.graph.target()?);
    // Threads are those of each task.
    let (params, row_type) = (graph.params(1), graph.row_type(metric));
    let config = PlanConfig {
        input: arguments.input,
        read: arguments.read.options().map_err(anyhow::Error::msg)?,
        max_bad: arguments.max_bad,
        on_long: arguments.on_long.into(),
        shard_documents: arguments.docs_per_shard,
        partition_documents: arguments.docs_per_partition,
        index: arguments.index,
        out: arguments.out,
        graph: GraphSettings::new(BuilderKind::Native, &params, row_type, target.map(RecallTarget::kept)),
        dimensions: arguments.dimensions.dimensions,
        language: arguments.language.language(),
        scratch: arguments.scratch.path(),
    };
    anyhow::ensure!(
        arguments.on_long != LongDocumentPolicy::Split || !arguments.read.splits(),
        "`--on-long split` is for documents that are not split otherwise: leave out `--split`, or take `--on-long error`"
    );
    anyhow::ensure!(
        !arguments.read.has_documents(),
        "`--documents` is for passages that are read in their documents, which bulk jobs do not: embed them with `dyad-encoder embed --context`"
    );
    let own = arguments.model.start()?;
    let vectors = if let Some(name) = &arguments.model_name {
        anyhow::ensure!(
            arguments.max_bad == 0,
            "`--max-bad` needs `--encoder` or `--model`: row i of a file that holds vectors is its record i, and none is skipped"
        );
        anyhow::ensure!(
            !arguments.read.splits(),
            "`--split` needs `--encoder` or `--model`: vectors of the inputs are of whole documents"
        );
        VectorOrigin::Input(DeclaredModel {
            name,
            fingerprint: arguments.fingerprint.as_deref(),
            metric,
        })
    } else {
        let urls = own.as_ref().map_or(arguments.encoder, |own| vec![own.url().to_owned()]);
        let calls = ServiceCalls {
            urls: &urls,
            tower: v1::Tower::Answer,
            context: PassageContext::default(),
            batch_texts: 256,
            timeout: ClientConfig::default().call_timeout,
            credentials: &arguments.credentials,
        };
        VectorOrigin::Encoder(Box::new(calls.connect(control.cancel)?))
    };
    let planned = bulk::plan(&config, vectors, control)?;
    let plan = &planned.plan;
    let mut out = io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(plan)?)?;
        return Ok(());
    }
    let (partitions, shards) = (plan.job.partitions.len(), plan.job.shards.len());
    let did = if planned.is_new {
        "planned"
    } else {
        "nothing to do: the plan is there already:"
    };
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

fn told(estimate: &BulkEstimate) -> Vec<String> {
    let mut lines = vec![format!(
        "by a sample of {}: about {} documents, {} of text in {} of input",
        estimate.sampled,
        estimate.documents,
        ByteSize(estimate.text_bytes),
        ByteSize(estimate.input_bytes)
    )];
    if let (Some(tokens), Some(truncated), Some(seconds)) = (estimate.tokens, estimate.truncated, estimate.embedding_s)
    {
        lines.push(format!(
            "embedding: {tokens} tokens, {truncated} texts truncated, {seconds:.0} s by the encoder services of this plan"
        ));
    }
    lines.push(format!(
        "the largest shard: at most {} of memory and {} of disk; the index: {} without its texts",
        ByteSize(estimate.shard_memory_bytes),
        ByteSize(estimate.shard_disk_bytes),
        ByteSize(estimate.index_bytes)
    ));
    lines
}
