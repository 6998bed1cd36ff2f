//! `dyad-indexer reembed` and `compare`: an index with the vectors of another model, and what it finds.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dyad_command::cancel_on_signal;
use dyad_files::space::{boundless, free_space};
use dyad_index::manifest;
use dyad_indexer::change::{ReembedConfig, ReembedEstimate, estimate, reembed};
use dyad_indexer::compare::{GenerationComparison, GenerationQuestions, compare_generations};
use dyad_indexer::control::JobControl;
use dyad_indexer::graph_build::RecallTarget;
use dyad_indexer::plan::ByteSize;
use dyad_indexer::source::KeptSource;
use dyad_proto::client::CredentialOptions;
use dyad_proto::v1;
use serde_json::json;

use super::bar::ProgressReporter;
use super::documents::thread_count;
use super::model::ModelArguments;
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
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// For `--encoder`
    #[command(flatten)]
    credentials: CredentialOptions,
}

#[derive(Debug, clap::Args)]
pub(super) struct CompareArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Questions, embedded by the model of the generation before: a directory that `dyad-encoder embed --tower
    /// question` has made
    #[arg(long, value_name = "DIR")]
    queries: PathBuf,
    /// The same questions, embedded by the model of the generation after; left out where both have one model
    #[arg(long, value_name = "DIR")]
    queries_after: Option<PathBuf>,
    /// The generation before; by default the one that was current before that after
    #[arg(long, value_name = "GENERATION")]
    before: Option<u64>,
    /// The generation after; by default the current one
    #[arg(long, value_name = "GENERATION")]
    after: Option<u64>,
    /// Hits compared
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    k: u16,
    /// Judgements of the questions, in BEIR's or TREC's form: metrics of both generations and paired tests
    #[arg(long, value_name = "FILE")]
    qrels: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: ReembedArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let target = arguments
        .min_recall
        .map(|recall| RecallTarget::new(recall, arguments.at_ef))
        .transpose()?;
    let config = ReembedConfig {
        max_documents: arguments.max_documents,
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
    let mut out = io::stdout().lock();
    if arguments.dry_run {
        let ReembedEstimate {
            documents,
            sampled,
            text_bytes,
            tokens,
            embedding,
            truncated,
            disk_bytes,
            memory_bytes,
        } = estimate(&config, &mut source, control)?;
        let seconds = embedding.as_secs_f64();
        if arguments.json {
            let record = json!({
                "dry_run": true, "documents": documents, "sampled": sampled, "text_bytes": text_bytes, "tokens": tokens,
                "embedding_s": seconds,
                "truncated": truncated, "disk_bytes": disk_bytes, "memory_bytes": memory_bytes,
            });
            writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
        } else {
            writeln!(
                out,
                "dry run: {documents} documents of about {} of text{}; embedding them takes about {seconds:.0} s, by {sampled} of them; about \
                 {} of disk next to the index as it is, at most {} of memory{}",
                ByteSize(text_bytes),
                tokens.map_or_else(String::new, |tokens| format!(" and {tokens} tokens")),
                ByteSize(disk_bytes),
                ByteSize(memory_bytes),
                truncated
                    .filter(|texts| *texts > 0)
                    .map_or_else(String::new, |texts| format!("; about {texts} texts are truncated")),
            )?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let outcome = reembed(&config, &mut KeptSource::new(source, &config.index), control)?;
    let seconds = began.elapsed().as_secs_f64();
    if arguments.json {
        let record = json!({
            "index": config.index.display().to_string(),
            "generation": outcome.manifest.as_ref().map(|manifest| manifest.generation),
            "model": outcome.manifest.as_ref().map(|manifest| manifest.model.clone()),
            "documents_before": outcome.documents_before,
            "documents_after": outcome.documents_after,
            "change": outcome.change,
            "seconds": seconds,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
    } else if let Some(manifest) = &outcome.manifest {
        writeln!(
            out,
            "re-embedded {} documents by `{}` (fingerprint {}): generation {} of `{}`, {seconds:.1} s. A searcher that has this model loads it; \
             `dyad-indexer rollback` goes back to the one before",
            outcome.documents_after,
            manifest.model.name,
            manifest.model.fingerprint,
            manifest.generation,
            config.index.display(),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn compare(arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
    let cancel = cancel_on_signal()?;
    let index = &arguments.index;
    let after = arguments
        .after
        .map_or_else(|| manifest::current(index).map(|current| current.generation), Ok)?;
    let before = arguments
        .before
        .map_or_else(|| manifest::predecessor(index, after), Ok)?;
    let asked = |generation: u64, questions: &PathBuf| GenerationQuestions {
        generation,
        questions: questions.clone(),
    };
    let first = asked(before, &arguments.queries);
    let second = asked(after, arguments.queries_after.as_ref().unwrap_or(&arguments.queries));
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    let k = usize::from(arguments.k);
    let compared = compare_generations(index, [&first, &second], k, arguments.qrels.as_deref(), control)?;
    let GenerationComparison {
        questions,
        overlap,
        same_first,
        furthest,
        metrics,
        ..
    } = compared;
    let mut out = io::stdout().lock();
    if arguments.json {
        let metrics: Vec<_> = metrics
            .iter()
            .map(|(metric, compared)| {
                json!({
                    "metric": metric.to_string(), "questions": compared.questions, "before": compared.first, "after": compared.second,
                    "difference": compared.difference, "interval": [compared.interval.0, compared.interval.1],
                    "p": compared.p_randomisation,
                })
            })
            .collect();
        let record = json!({
            "before": before, "after": after, "questions": questions, "k": k, "overlap": overlap, "same_first": same_first,
            "furthest": furthest.iter().map(|(key, shared)| json!({"question": key, "shared": shared})).collect::<Vec<_>>(),
            "metrics": metrics,
        });
        writeln!(out, "{}", serde_json::to_string_pretty(&record)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "generations {before} and {after}, {questions} questions, exact search"
    )?;
    writeln!(
        out,
        "overlap@{k} {overlap:.4}; the same first hit for {:.1} %",
        100.0 * same_first
    )?;
    let furthest: Vec<String> = furthest
        .iter()
        .map(|(key, shared)| format!("{key} ({shared})"))
        .collect();
    writeln!(out, "fewest shared hits: {}", furthest.join(", "))?;
    if !metrics.is_empty() {
        writeln!(out, "metric        before  after   difference  95 % interval      p")?;
    }
    for (metric, compared) in &metrics {
        writeln!(
            out,
            "{:<12}  {:.4}  {:.4}  {:+.4}     [{:+.4}, {:+.4}]  {:.5}",
            metric.to_string(),
            compared.first,
            compared.second,
            compared.difference,
            compared.interval.0,
            compared.interval.1,
            compared.p_randomisation
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
