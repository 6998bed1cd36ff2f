//! The commands of `dyad-encoder`.
//!
//! | file | what |
//! |---|---|
//! | `embed.rs` | a corpus to an embeddings directory |
//! | `serve.rs` | the gRPC service, and HTTP beside it |
//! | `encode.rs` | a few texts to JSON |
//! | `inspect.rs` | what a model is made of |
//! | `create.rs` | a dual encoder from one pretrained model |
//! | `export.rs` | the same model in another number type |
//! | `probe.rs` | how the two towers lie in their common space |
//! | `train.rs` | a dual encoder by one TOML |
//! | `evaluate.rs` | exact search over a BEIR folder |
//! | `mine.rs` | examples with hard negatives |
//! | `reqa.rs` | SQuAD to a BEIR folder of answer sentences |
//! | `examples.rs` | options of commands that read training examples |
//! | `signals.rs` | how long jobs are interrupted |
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
mod serve;
mod signals;
#[cfg(feature = "train")]
mod train;

use std::fmt::Write;

use clap::{Parser, Subcommand};

/// Exit code of an interrupted job, as shells have it: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Embeds text with a sentence-transformers model.
#[derive(Debug, Parser)]
#[command(name = "dyad-encoder", version, about, max_term_width = 110)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Embed a corpus into a directory; run again after an interruption to go on.
    Embed(embed::Options),
    /// Serve a model over gRPC, and over HTTP where asked.
    Serve(serve::Options),
    /// Embed the texts given and print one JSON object per text.
    Encode(encode::Options),
    /// Print what a model is made of: modules, ties, parameters, fingerprint, memory.
    Inspect(inspect::Options),
    /// Make a bundle of two towers from one pretrained model, in any of the sharings.
    Create(create::Options),
    /// Write the same model with its weights in another number type.
    Export(export::Options),
    /// Draw questions and answers in one plane, and say how far the towers are apart.
    #[cfg(feature = "train")]
    Probe(probe::Options),
    /// Train a dual encoder by one TOML; run again after an interruption to go on.
    #[cfg(feature = "train")]
    Train(train::Options),
    /// Search a BEIR folder exactly and measure the ranking; compare two models.
    #[cfg(feature = "train")]
    Evaluate(evaluate::Options),
    /// Find hard negatives for training examples by exact search.
    #[cfg(feature = "train")]
    Mine(mine::Options),
    /// Write a SQuAD file as questions and answer sentences, by the ReQA construction.
    #[cfg(feature = "train")]
    Reqa(reqa::Options),
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Embed(options) => embed::run(&options),
            Command::Serve(options) => serve::run(&options),
            Command::Encode(options) => encode::run(&options),
            Command::Inspect(options) => inspect::run(&options),
            Command::Create(options) => create::run(&options),
            Command::Export(options) => export::run(&options),
            #[cfg(feature = "train")]
            Command::Probe(options) => probe::run(&options),
            #[cfg(feature = "train")]
            Command::Train(options) => train::run(&options),
            #[cfg(feature = "train")]
            Command::Evaluate(options) => evaluate::run(&options),
            #[cfg(feature = "train")]
            Command::Mine(options) => mine::run(&options),
            #[cfg(feature = "train")]
            Command::Reqa(options) => reqa::run(&options),
        }
    }
}

/// An error with its causes, from the outside in. Most messages hold their cause's words already: those are not said again.
pub fn told(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let missing = || crate::Error::Io(fs_err::read("nope.toml").unwrap_err());
        let message = told(&missing().into());
        assert_eq!(
            message,
            "cannot read the model: failed to open file `nope.toml`: No such file or directory (os error 2)"
        );
        let outside = Err::<(), _>(missing()).context("cannot train").unwrap_err();
        assert_eq!(told(&outside), format!("cannot train: {message}"));
        let source = serde_json::from_str::<u32>("x").unwrap_err();
        let json = crate::Error::Json { path: "config.json".into(), source };
        assert_eq!(told(&json.into()).matches("expected value").count(), 1);
    }
}
