//! `dyad-indexer maintain`: merge and gc in one call, for a timer.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dyad_command::cancel_on_signal;
use dyad_indexer::control::JobControl;
use dyad_indexer::maintenance::{self, Maintained, Retention};

use super::bar::ProgressReporter;
use super::change::{RewriteArguments, parse_age};
use super::report::{ChangeArguments, ChangeReport};

#[derive(Debug, clap::Args)]
pub(super) struct MaintainArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Keep the newest N generations, and the current one
    #[arg(long, value_name = "N", default_value_t = 3)]
    keep: usize,
    /// Keep generations younger than this: 90s, 30m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = parse_age, default_value = "0s")]
    older_than: Duration,
    #[command(flatten)]
    rewrite: RewriteArguments,
    #[command(flatten)]
    report: ChangeArguments,
}

pub(super) fn run(arguments: &MaintainArguments) -> anyhow::Result<ExitCode> {
    let (began, cancel) = (Instant::now(), cancel_on_signal()?);
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    let dry_run = arguments.report.dry_run;
    let config = arguments.rewrite.config(&arguments.index, false, dry_run)?;
    let retention = Retention {
        keep: arguments.keep,
        older_than: arguments.older_than,
    };
    let Maintained { outcome, collected } = maintenance::maintain(&config, retention, control)?;
    let report = ChangeReport::new(&arguments.index, &outcome, dry_run, began);
    arguments.report.output.print(&report.with_collected(&collected))?;
    Ok(ExitCode::SUCCESS)
}
