//! `dyad-indexer delete`: by keys or by a filter.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use dyad_command::{UsageError, cancel_on_signal};
use dyad_corpus::KeyLines;
use dyad_filter::{document_filter, syntax};
use dyad_indexer::change::{self, ChangeStart, DeleteConfig, MissingKeys};
use dyad_indexer::control::JobControl;
use dyad_proto::{v1, validate};

use super::bar::ProgressReporter;
use super::change::{exit_for_missing, report_change};
use super::report::ChangeArguments;

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("deleted").required(true).multiple(true).args(["keys", "some_keys", "filter"]))]
pub(super) struct DeleteArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Keys of the documents, one per line; `-` is standard input
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Key of a document; may be repeated, and is in addition to `--keys`
    #[arg(long = "key", value_name = "KEY")]
    some_keys: Vec<String>,
    /// Delete the documents that match, as 'lang=en' or 'year<2020'; repeated, all conditions must hold. The forms are
    /// those of `dyad-searcher query --filter`
    #[arg(long, value_name = "CONDITION", value_parser = syntax::parse, conflicts_with_all = ["keys", "some_keys", "passages", "allow_missing"])]
    filter: Vec<v1::Filter>,
    /// The keys are of documents that were indexed with `--split`: all of their passages are deleted
    #[arg(long)]
    passages: bool,
    /// End with 0 even if no document has some of the keys, as where a deletion is repeated
    #[arg(long)]
    allow_missing: bool,
    #[command(flatten)]
    report: ChangeArguments,
}

pub(super) fn delete(arguments: &DeleteArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    let DeleteArguments {
        index,
        passages,
        report,
        ..
    } = arguments;
    let config = DeleteConfig {
        index,
        start: &ChangeStart::default(),
        passages: *passages,
        named_missing: MissingKeys::NAMED,
        dry_run: report.dry_run,
    };
    if let Some(filter) = syntax::all(arguments.filter.clone()) {
        let request = v1::DeleteRequest {
            filter: Some(filter.clone()),
            ..v1::DeleteRequest::default()
        };
        validate::delete_request(&request).map_err(|error| UsageError(error.to_string()))?;
        let outcome = change::delete_matching(&config, &document_filter(&filter), control)?;
        return report_change(&arguments.index, &outcome, &arguments.report, began);
    }
    let mut keys = arguments.some_keys.clone();
    if let Some(path) = &arguments.keys {
        keys.extend(KeyLines::read(path)?);
    }
    let outcome = change::delete_documents(&config, &keys, control)?;
    report_change(&arguments.index, &outcome, &arguments.report, began)?;
    exit_for_missing(&outcome, arguments.allow_missing)
}
