//! `dyad-encoder train`: a dual encoder by one TOML.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use dyad_command::cancel_on_signal;

use crate::train::config::DEFAULT;
use crate::train::{Config, keep_freed_memory, train};

#[derive(Debug, Args)]
pub(crate) struct TrainOptions {
    /// Settings; others have the defaults that `--print-config` prints
    #[arg(long, value_name = "FILE.toml", required_unless_present = "print_config")]
    config: Option<PathBuf>,
    /// Directory of the run: checkpoints, metrics, and the models `best` and `final`. An existing run is resumed
    #[arg(long, value_name = "DIR", required_unless_present = "print_config")]
    out: Option<PathBuf>,
    /// Print every setting with its default, and exit
    #[arg(long, conflicts_with_all = ["config", "out"])]
    print_config: bool,
}

pub(crate) fn run(options: &TrainOptions) -> anyhow::Result<()> {
    let mut output = std::io::stdout();
    let (Some(config), Some(out)) = (&options.config, &options.out) else {
        output.write_all(DEFAULT.as_bytes())?;
        return Ok(());
    };
    keep_freed_memory();
    let config = Config::open(config)?;
    let cancel = cancel_on_signal().context("cannot watch for signals")?;
    let outcome = train(&config, out, &cancel)?;
    let what = if outcome.was_finished {
        "nothing to do:"
    } else {
        "trained"
    };
    writeln!(
        output,
        "{what} {} steps; the last model is in {}",
        outcome.steps,
        outcome.last.display()
    )?;
    if let Some((path, step, value)) = outcome.best {
        let metric = config.evaluation.metric.metric();
        let before = outcome.before.map_or_else(String::new, |before| {
            let verdict = if value < before {
                ", which is better: training made it worse"
            } else {
                ""
            };
            format!(" (before training {before:.4}{verdict})")
        });
        writeln!(
            output,
            "best {metric} {value:.4} after step {step}{before}: {}",
            path.display()
        )?;
    }
    Ok(())
}
