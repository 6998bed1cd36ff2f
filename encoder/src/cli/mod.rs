//! The commands of `dyad-encoder`.
//!
//! | file | what |
//! |---|---|
//! | `embed.rs` | a corpus to an embeddings directory |
//! | `serve.rs` | the gRPC service, and HTTP |
//! | `encode.rs` | a few texts to JSON |
//! | `inspect.rs` | what a model is made of |
//! | `create.rs` | a dual encoder from one pretrained model |
//! | `export.rs` | the same model in another number type |
//! | `probe.rs` | how the two towers lie in their common space |
//! | `train.rs` | a dual encoder by one TOML |
//! | `evaluate.rs` | exact search over a BEIR folder |
//! | `mine.rs` | examples with hard negatives |
//! | `score.rs` | examples with a cross encoder's scores |
//! | `reqa.rs` | SQuAD to a BEIR folder of answer sentences |
//! | `examples.rs` | options of commands that read training examples |
//! | `model.rs` | options that all of them take |

mod create;
mod embed;
mod encode;
#[cfg(feature = "train")]
mod evaluate;
#[cfg(feature = "train")]
mod examples;
mod export;
mod inspect;
#[cfg(feature = "train")]
mod mine;
mod model;
#[cfg(feature = "train")]
mod probe;
#[cfg(feature = "train")]
mod reqa;
#[cfg(feature = "train")]
mod score;
mod serve;
#[cfg(feature = "train")]
mod train;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use dyad_command::{FAILURE, Follower, INTERRUPTED};

#[cfg(feature = "train")]
use crate::data::DataError;
use crate::embed::JobError;
#[cfg(feature = "train")]
use crate::train::TrainError;

/// Embeds text with a sentence-transformers model.
#[derive(Debug, Parser)]
#[command(name = "dyad-encoder", version, about, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: EncoderCommand,
}

#[derive(Debug, Subcommand)]
enum EncoderCommand {
    /// Embed a corpus into a directory; run it again to resume after an interruption.
    Embed(embed::EmbedOptions),
    /// Serve a model over gRPC, and optionally over HTTP.
    Serve(serve::ServeOptions),
    /// Embed the texts given and print one JSON object per text.
    Encode(encode::EncodeArguments),
    /// Describe a model: modules, sharing, parameters, fingerprint, memory.
    Inspect(inspect::InspectOptions),
    /// Make a model of two towers from one pretrained model, with any kind of sharing.
    Create(create::CreateOptions),
    /// Convert the weights of a model to another data type.
    Export(export::ExportOptions),
    /// Plot questions and answers in one plane, and measure how separable the towers are.
    #[cfg(feature = "train")]
    Probe(probe::ProbeArguments),
    /// Train a dual encoder as a TOML file says; run it again to resume after an interruption.
    #[cfg(feature = "train")]
    Train(train::TrainOptions),
    /// Search a BEIR folder exactly and measure the ranking; compare two models.
    #[cfg(feature = "train")]
    Evaluate(evaluate::EvaluateOptions),
    /// Find hard negatives for training examples by exact search.
    #[cfg(feature = "train")]
    Mine(mine::MineArguments),
    /// Score the passages of training examples by a cross encoder, for distillation.
    #[cfg(feature = "train")]
    Score(score::ScoreOptions),
    /// Write a SQuAD file as questions and answer sentences, by the ReQA construction.
    #[cfg(feature = "train")]
    Reqa(reqa::ReqaOptions),
}

/// Runs the command line of this process, which was built of the commit `revision`. 0: done; 1: failed; 2: used
/// wrongly; 130: interrupted.
pub fn main(revision: &'static str) -> ExitCode {
    // Before a configuration is read, which may come from a pipe.
    crate::environment::begin_again();
    dyad_command::run_server(
        revision,
        |cli: Cli, follower| cli.run(follower).map(|()| ExitCode::SUCCESS),
        exit_code,
    )
}

impl Cli {
    fn run(self, follower: Follower) -> anyhow::Result<()> {
        match self.command {
            EncoderCommand::Embed(options) => embed::run(&options),
            EncoderCommand::Serve(options) => serve::run(&options, follower),
            EncoderCommand::Encode(options) => encode::run(&options),
            EncoderCommand::Inspect(options) => inspect::run(&options),
            EncoderCommand::Create(options) => create::run(&options),
            EncoderCommand::Export(options) => export::run(&options),
            #[cfg(feature = "train")]
            EncoderCommand::Probe(options) => probe::run(&options),
            #[cfg(feature = "train")]
            EncoderCommand::Train(options) => train::run(&options),
            #[cfg(feature = "train")]
            EncoderCommand::Evaluate(options) => evaluate::run(&options),
            #[cfg(feature = "train")]
            EncoderCommand::Mine(options) => mine::run(&options),
            #[cfg(feature = "train")]
            EncoderCommand::Score(options) => score::run(&options),
            #[cfg(feature = "train")]
            EncoderCommand::Reqa(options) => reqa::run(&options),
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    let embedding = matches!(error.downcast_ref(), Some(JobError::Interrupted { .. }));
    #[cfg(feature = "train")]
    let training = matches!(error.downcast_ref(), Some(DataError::Interrupted))
        || matches!(error.downcast_ref(), Some(TrainError::Interrupted { .. }));
    #[cfg(not(feature = "train"))]
    let training = false;
    if embedding || training { INTERRUPTED } else { FAILURE }
}

#[cfg(test)]
mod tests {
    use dyad_command::chain;

    #[test]
    fn our_messages_say_a_cause_once() {
        let source = serde_json::from_str::<u32>("x").unwrap_err();
        let json = crate::Error::Json {
            path: "config.json".into(),
            source,
        };
        assert_eq!(chain(&json.into()).matches("expected value").count(), 1);
    }
}
