//! `dyad-encoder score`: a cross encoder's scores for the passages of examples.

use std::io::Write;
use std::path::PathBuf;

use anyhow::ensure;
use clap::Args;
use dyad_command::cancel_on_signal;
use dyad_corpus::examples::ExampleReader;

use super::examples::{ExampleArguments, report};
use super::model::ModelOptions;
use crate::data::score_file;
use crate::model::CrossEncoder;

#[derive(Debug, Args)]
pub(crate) struct ScoreOptions {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    data: ExampleArguments,
    /// The examples with a logit for each passage, in Tevatron's JSON lines, in place of the scores that they bring;
    /// questions without an id get the number of their example, passages a digest of their text
    #[arg(long, value_name = "FILE.jsonl")]
    out: PathBuf,
}

pub(crate) fn run(options: &ScoreOptions) -> anyhow::Result<()> {
    ensure!(
        !options.out.exists(),
        "`{}` already exists. Name a new file, or move the old one away",
        options.out.display()
    );
    let examples = ExampleReader::open(&options.data.data, &options.data.read("train"))?;
    let cancel = cancel_on_signal()?;
    let model = CrossEncoder::open(&options.model.model, &options.model.compute())?;
    let scored = score_file(&model, examples, options.model.budget(), &options.out, &cancel)?;
    report(&scored.skipped);
    writeln!(
        std::io::stdout().lock(),
        "scored {} passages of {} examples, {} of them cut at {} tokens; {}",
        scored.pairs,
        scored.examples,
        scored.truncated,
        model.info().max_tokens,
        options.out.display()
    )?;
    Ok(())
}
