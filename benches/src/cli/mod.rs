//! The command line: arguments in, exit code out.
//!
//! | file | contents |
//! |---|---|
//! | `load.rs` | `dyad-bench load` |
//! | `quality.rs` | `dyad-bench quality` |
//! | `metrics.rs` | `dyad-bench metrics` |
//! | `ann.rs` | `dyad-bench ann` |
//! | `churn.rs` | `dyad-bench churn` |
//! | `filter.rs` | `dyad-bench filter` |
//! | `comparison.rs` | `dyad-bench encode` and `train-step`; what all comparisons share |
//! | `reproduce.rs` | `dyad-bench reproduce` |
//! | `synth.rs` | `dyad-bench synth` |
//! | `sentences.rs` | `dyad-bench sentences` |

mod ann;
mod churn;
mod comparison;
mod filter;
mod load;
mod metrics;
mod quality;
#[cfg(feature = "torch")]
mod reproduce;
mod sentences;
mod synth;

pub use metrics::TREC_METRICS;

use std::io::{stdin, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dyad_command::{FAILURE, INTERRUPTED, USAGE};
use dyad_index::kernels::{self, UnknownKernels};

use self::comparison::Compare;
use crate::ann::worker as ann_worker;
use crate::encode::{self, EncodeTask};
use crate::error::BenchError;

use crate::train_step::{self, TrainStep};

/// Measures dyad.
#[derive(Debug, Parser)]
#[command(name = "dyad-bench", version, about, disable_help_subcommand = true)]
struct BenchArguments {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Ask a running searcher every judged question of a BEIR folder, and say how good its answers are.
    Quality(quality::QualityCommand),
    /// Compute the metrics of a TREC run.
    Metrics(metrics::MetricsCommand),
    /// Measure approximate search against its peers.
    Ann(ann::AnnCommand),
    /// Measure an index that changes against its peers.
    Churn(churn::ChurnCommand),
    /// Measure search under filters against its peers.
    Filter(filter::FilterCommand),
    /// Put load on a served index, and on the layers below it.
    Load(load::LoadCommand),
    /// Measure texts to vectors against peers.
    Encode(Compare<EncodeTask>),
    /// Measure a step of training against peers.
    TrainStep(Compare<TrainStep>),
    /// Show a paper's finding on real data: train, evaluate, compare.
    #[cfg(feature = "torch")]
    Reproduce(reproduce::ReproduceCommand),
    /// Write a synthetic set of vectors.
    Synth(synth::SynthCommand),
    /// Write the sentences of a corpus.
    Sentences(sentences::SentencesCommand),
    /// Serve one engine of a comparison on stdin and stdout.
    #[command(hide = true)]
    Worker {
        comparison: String,
        #[arg(long)]
        engine: String,
    },
}

impl BenchCommand {
    /// Whether our code runs in this program, or in its workers, and is timed.
    fn measures_speed(&self) -> bool {
        matches!(
            self,
            Self::Ann(_) | Self::Churn(_) | Self::Filter(_) | Self::Load(_) | Self::Encode(_) | Self::TrainStep(_)
        )
    }
}

/// Runs the command line of this process, which was built of the commit `revision`. 0: done; 1: failed; 2: used
/// wrongly; 130: interrupted.
pub fn main(revision: &'static str) -> ExitCode {
    dyad_command::run(
        revision,
        |arguments: BenchArguments| arguments.run().map(|()| ExitCode::SUCCESS),
        exit_code,
    )
}

impl BenchArguments {
    fn run(self) -> anyhow::Result<()> {
        kernels::choose(kernels::requested_set().as_deref())?;
        let measures_speed = self.command.measures_speed();
        self.command.run()?;
        if cfg!(debug_assertions) && measures_speed {
            tracing::warn!(
                "this dyad-bench was built with debug assertions: our speeds are not those that users get. Build it with `--release`"
            );
        }
        Ok(())
    }
}

impl BenchCommand {
    fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Quality(arguments) => arguments.run(),
            Self::Metrics(arguments) => arguments.run(),
            Self::Ann(arguments) => arguments.run(),
            Self::Churn(arguments) => arguments.run(),
            Self::Filter(arguments) => arguments.run(),
            Self::Load(arguments) => arguments.run(),
            Self::Synth(arguments) => arguments.run(),
            Self::Sentences(arguments) => arguments.run(),
            Self::Encode(arguments) => arguments.run(),
            Self::TrainStep(arguments) => arguments.run(),
            Self::Worker { comparison, engine } => match comparison.as_str() {
                "ann" => ann_worker::serve(&engine, stdin().lock(), stdout()),
                #[cfg(feature = "torch")]
                "encode" => {
                    dyad_encoder::environment::begin_again();
                    encode::serve(&engine, stdin().lock(), stdout())
                }
                #[cfg(feature = "torch")]
                "train-step" => {
                    dyad_encoder::environment::begin_again();
                    dyad_encoder::train::keep_freed_memory();
                    train_step::serve(&engine, stdin().lock(), stdout())
                }
                other => anyhow::bail!(
                    "no worker of `{other}` in this dyad-bench. Feature `torch` holds our `{engine}`: build it with default features"
                ),
            },
            #[cfg(feature = "torch")]
            Self::Reproduce(arguments) => {
                dyad_encoder::environment::begin_again();
                dyad_encoder::train::keep_freed_memory();
                arguments.run()
            }
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(BenchError::Interrupted) => INTERRUPTED,
        _ if error.is::<UnknownKernels>() => USAGE,
        _ => FAILURE,
    }
}
