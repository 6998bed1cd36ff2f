//! `dyad-indexer append`, `upsert`, `merge`, `purge` and `gc`: arguments in, a report out.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dyad_command::cancel_on_signal;
use dyad_corpus::KeyLines;
use dyad_files::space::{boundless, free_space};
use dyad_index::TextLanguage;
use dyad_indexer::change::{
    self, ChangeOutcome, MergeCandidates, MergeConfig, MetadataConfig, MissingKeys, Operation, PurgeConfig,
    UpsertConfig,
};
use dyad_indexer::control::JobControl;
use dyad_indexer::gc;
use dyad_indexer::graph_build::CertificateSample;
use dyad_indexer::plan::ByteSize;

use super::bar::ProgressReporter;
use super::documents;
use super::report::{ChangeArguments, ChangeReport, CollectedReport, join_numbers};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["embeddings", "encoder", "model", "vectors"]))]
pub(super) struct AppendArguments {
    #[command(flatten)]
    documents: documents::DocumentArguments,
    /// Leave documents whose keys are in the index as they are there, so that a batch can be sent again. Without, they
    /// are an error
    #[arg(long)]
    skip_existing: bool,
    #[command(flatten)]
    report: ChangeArguments,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["embeddings", "encoder", "model", "vectors", "metadata_only"]))]
pub(super) struct UpsertArguments {
    #[command(flatten)]
    documents: documents::DocumentArguments,
    /// Replace metadata only: of each record, key and `metadata` are read. Texts and vectors stay, and nothing is
    /// embedded
    #[arg(long, conflicts_with = "split")]
    metadata_only: bool,
    /// With `--metadata-only`: end with 0 even if no document has some of the keys
    #[arg(long, requires = "metadata_only")]
    allow_missing: bool,
    #[command(flatten)]
    report: ChangeArguments,
}

#[derive(Debug, clap::Args)]
pub(super) struct MergeArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Merge all shards, and not only those that need it: more than a tenth deleted, more than eight of about one
    /// size, or more than two of about one size next to larger ones; and those that are much smaller than one of these
    #[arg(long)]
    all: bool,
    /// Analyse texts by another language from now on, see `build --language`: every shard is written again
    #[arg(long, value_name = "LANGUAGE", requires = "all", value_parser = str::parse::<TextLanguage>)]
    language: Option<TextLanguage>,
    #[command(flatten)]
    rewrite: RewriteArguments,
    #[command(flatten)]
    report: ChangeArguments,
}

/// How shards are written again.
#[derive(Debug, clap::Args)]
pub(super) struct RewriteArguments {
    /// Most documents of a new shard
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    max_documents: u64,
    /// Most memory, such as `4GiB`: terms are written to the disk before they take more, and no new shard is larger
    /// than it allows. Refused before anything is read where it is not enough
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Build every graph from nothing, and not from that of the shard (merge: the largest shard) that is written again
    #[arg(long)]
    rebuild: bool,
    /// Threads; one per core by default
    #[arg(long)]
    threads: Option<usize>,
    /// Start even if the disk seems to have too little free space
    #[arg(long)]
    skip_space_check: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct PurgeArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Keys of the documents, one per line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    keys: PathBuf,
    /// The keys are of documents that were indexed with `--split`: all of their passages are purged
    #[arg(long)]
    passages: bool,
    /// End with 0 even if no generation holds some of the keys, as where a purge is repeated
    #[arg(long)]
    allow_missing: bool,
    /// Wait as long for programs that read a generation with the documents to open the next one: 0s, 5s, 1m
    #[arg(long, value_name = "TIME", value_parser = parse_age, default_value = "5s")]
    wait: Duration,
    #[command(flatten)]
    rewrite: RewriteArguments,
    #[command(flatten)]
    report: ChangeArguments,
}

/// Age of what is removed from an object store, where none is given.
const IN_STORE: Duration = Duration::from_hours(7 * 24);

#[derive(Debug, clap::Args)]
pub(super) struct GcArguments {
    /// Directory of the index, or its URL in an object store
    #[arg(long, value_name = "DIR|URL")]
    index: PathBuf,
    /// Keep the newest N generations, and the current one
    #[arg(long, value_name = "N", default_value_t = 3)]
    keep: usize,
    /// Keep generations younger than this: 90s, 30m, 12h, 7d; in an object store also files that no generation names,
    /// which have to be older than any push or job takes [default: 0s, of a URL 7d]
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    older_than: Option<Duration>,
    #[command(flatten)]
    report: ChangeArguments,
}

pub(super) fn parse_age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("expected a number with s, m, h or d, such as 12h, got `{text}`");
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = text
        .strip_suffix(unit)
        .and_then(|number| number.parse().ok())
        .ok_or_else(wrong)?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

impl RewriteArguments {
    pub(super) fn config(&self, index: &Path, all: bool, dry_run: bool) -> io::Result<MergeConfig> {
        Ok(MergeConfig {
            index: index.to_owned(),
            all,
            rebuild: self.rebuild,
            candidates: MergeCandidates::default(),
            sample: CertificateSample::Full,
            language: None,
            max_documents: self.max_documents,
            threads: documents::thread_count(self.threads)?,
            memory: self.memory.map(|ByteSize(bytes)| bytes),
            dry_run,
            free_space: if self.skip_space_check { boundless } else { free_space },
        })
    }
}

pub(super) fn append(arguments: &AppendArguments) -> anyhow::Result<ExitCode> {
    let operation = Operation::Append {
        skip_existing: arguments.skip_existing,
    };
    add(&arguments.documents, &arguments.report, operation)
}

pub(super) fn upsert(arguments: UpsertArguments) -> anyhow::Result<ExitCode> {
    if arguments.metadata_only {
        let (began, cancel) = (Instant::now(), cancel_on_signal()?);
        let control = JobControl {
            progress: &ProgressReporter::default(),
            cancel: &cancel,
        };
        let documents = arguments.documents;
        let (read, dry_run) = (documents.read_options()?, arguments.report.dry_run);
        let config = MetadataConfig {
            read,
            dry_run,
            corpus: documents.corpus_path()?,
            index: documents.index,
        };
        let outcome = change::update_metadata(&config, control)?;
        report_change(&config.index, &outcome, &arguments.report, began)?;
        return exit_for_missing(&outcome, arguments.allow_missing);
    }
    add(&arguments.documents, &arguments.report, Operation::Upsert)
}

fn add(
    documents: &documents::DocumentArguments,
    report: &ChangeArguments,
    operation: Operation,
) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let documents::OpenedDocuments {
        corpus,
        mut source,
        encoder: _encoder,
    } = documents.open(false, &cancel)?;
    let config = UpsertConfig {
        operation,
        sample: CertificateSample::Full,
        threads: documents.threads()?,
        dry_run: report.dry_run,
        free_space: documents.free_space(),
        index: documents.index.clone(),
        queries: documents.queries.clone(),
        passages: documents.passages(),
    };
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    // In a set of vectors each key comes once.
    let mut batch = corpus.open(operation == Operation::Upsert && !source.is_in_step())?;
    let outcome = change::upsert(&config, batch.as_mut(), source.as_mut(), control)?;
    anyhow::ensure!(
        outcome.change.read > outcome.change.rejected,
        "there is no document to index ({} records were read, {} of them skipped): the index is unchanged. Look at what `--corpus` or \
         `--keys` names",
        outcome.change.read,
        outcome.change.rejected
    );
    report_change(&config.index, &outcome, report, began)
}

pub(super) fn merge(arguments: &MergeArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    let config = arguments
        .rewrite
        .config(&arguments.index, arguments.all, arguments.report.dry_run)?;
    let config = MergeConfig {
        language: arguments.language,
        ..config
    };
    let outcome = change::merge(&config, control)?;
    report_change(&arguments.index, &outcome, &arguments.report, began)
}

pub(super) fn purge(arguments: &PurgeArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    let rewrite = arguments
        .rewrite
        .config(&arguments.index, false, arguments.report.dry_run)?;
    let config = PurgeConfig {
        rewrite,
        passages: arguments.passages,
        wait: arguments.wait,
    };
    let purged = change::purge(&config, &KeyLines::read(&arguments.keys)?, control)?;
    let in_use = &purged.collected.in_use;
    let report = ChangeReport::new(&arguments.index, &purged.outcome, arguments.report.dry_run, began);
    arguments
        .report
        .output
        .print(&report.with_collected(&purged.collected))?;
    if in_use.is_empty() {
        return exit_for_missing(&purged.outcome, arguments.allow_missing);
    }
    anyhow::bail!(
        "the generations {} still hold these documents, and a process of this machine reads them. Let it load the current \
         generation (`dyad-searcher admin reload`), then run this again",
        join_numbers(in_use)
    )
}

pub(super) fn gc(arguments: &GcArguments) -> anyhow::Result<ExitCode> {
    if let Some(url) = arguments.index.to_str().filter(|index| index.contains("://")) {
        let older_than = arguments.older_than.unwrap_or(IN_STORE);
        return super::store::gc(url, arguments.keep, older_than, &arguments.report);
    }
    let collected = gc::gc(
        &arguments.index,
        arguments.keep,
        arguments.older_than.unwrap_or_default(),
        arguments.report.dry_run,
    )?;
    arguments.report.output.print(&CollectedReport {
        collected,
        dry_run: arguments.report.dry_run,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What was asked for a document that is not there is told by the exit code: the key may be misspelt. All else is done
/// by then.
pub(super) fn exit_for_missing(outcome: &ChangeOutcome, is_allowed: bool) -> anyhow::Result<ExitCode> {
    let ChangeOutcome {
        missing: MissingKeys { total, first },
        ..
    } = outcome;
    if is_allowed || *total == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let named: Vec<String> = first.iter().map(|key| format!("`{}`", key.escape_debug())).collect();
    let more = if *total > first.len() as u64 { ", ..." } else { "" };
    anyhow::bail!(
        "keys that no document of the index has ({total}): {}{more}. Nothing else was left out. Correct them, or accept them with \
         `--allow-missing`",
        named.join(", ")
    )
}

/// Prints what a change did, and ends with 0.
pub(super) fn report_change(
    index: &Path,
    outcome: &ChangeOutcome,
    arguments: &ChangeArguments,
    began: Instant,
) -> anyhow::Result<ExitCode> {
    let report = ChangeReport::new(index, outcome, arguments.dry_run, began);
    arguments.output.print(&report)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_numbers_with_units() {
        let seconds = ["0s", "90s", "30m", "12h", "7d"].map(|text| parse_age(text).unwrap().as_secs());
        assert_eq!(seconds, [0, 90, 1_800, 43_200, 604_800]);
        for wrong in [
            "",
            "s",
            "12",
            "-1h",
            "1.5h",
            "1w",
            "99999999999999999999d",
            "999999999999999999d",
            "é",
        ] {
            assert!(parse_age(wrong).unwrap_err().contains("12h"), "{wrong}");
        }
    }
}
