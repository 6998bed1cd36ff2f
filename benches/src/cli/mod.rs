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

use std::io::{stdin, stdout};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dyad_command::{FAILURE, INTERRUPTED, USAGE};
use dyad_index::kernels::{self, UnknownKernels};

use self::comparison::Compare;
use crate::ann::worker as ann_worker;
use crate::encode::{self, Encode};
use crate::error::Error;

use crate::train_step::{self, TrainStep};

/// Measures dyad.
#[derive(Debug, Parser)]
#[command(name = "dyad-bench", version, about, disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Ask a running searcher every judged question of a BEIR folder, and say how good its answers are.
    Quality(quality::Quality),
    /// Compute the metrics of a TREC run.
    Metrics(metrics::Metrics),
    /// Measure approximate search against its peers.
    Ann(ann::Ann),
    /// Measure an index that changes against its peers.
    Churn(churn::ChurnCommand),
    /// Measure search under filters against its peers.
    Filter(filter::FilterCommand),
    /// Put load on a served index, and on the layers below it.
    Load(load::LoadCommand),
    /// Measure texts to vectors against peers.
    Encode(Compare<Encode>),
    /// Measure a step of training against peers.
    TrainStep(Compare<TrainStep>),
    /// Show a paper's finding on real data: train, evaluate, compare.
    #[cfg(feature = "torch")]
    Reproduce(reproduce::Reproduce),
    /// Write a synthetic set of vectors.
    Synth(synth::Synth),
    /// Write the sentences of a corpus.
    Sentences(sentences::Sentences),
    /// Serve one engine of a comparison on stdin and stdout.
    #[command(hide = true)]
    Worker {
        comparison: String,
        #[arg(long)]
        engine: String,
    },
}

/// Runs the command line of this process. 0: done; 1: failed; 2: used wrongly; 130: interrupted.
pub fn main() -> ExitCode {
    dyad_command::run(|arguments: Arguments| arguments.run().map(|()| ExitCode::SUCCESS), exit_code)
}

impl Arguments {
    fn run(self) -> anyhow::Result<()> {
        kernels::choose(kernels::asked().as_deref())?;
        match self.command {
            Command::Quality(arguments) => arguments.run(),
            Command::Metrics(arguments) => arguments.run(),
            Command::Ann(arguments) => arguments.run(),
            Command::Churn(arguments) => arguments.run(),
            Command::Filter(arguments) => arguments.run(),
            Command::Load(arguments) => arguments.run(),
            Command::Synth(arguments) => arguments.run(),
            Command::Sentences(arguments) => arguments.run(),
            Command::Encode(arguments) => arguments.run(),
            Command::TrainStep(arguments) => arguments.run(),
            Command::Worker { comparison, engine } => match comparison.as_str() {
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
            Command::Reproduce(arguments) => {
                dyad_encoder::environment::begin_again();
                dyad_encoder::train::keep_freed_memory();
                arguments.run()
            }
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(Error::Interrupted) => INTERRUPTED,
        _ if error.is::<UnknownKernels>() => USAGE,
        _ => FAILURE,
    }
}
