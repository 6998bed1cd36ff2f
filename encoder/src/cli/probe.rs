//! `dyad-encoder probe`: how the two towers lie in their common space.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;

use super::examples::ExampleArguments;
use super::model::ModelOptions;
use crate::config::PromptOptions;
use crate::model::Model;
use crate::probe::{ProbeOptions, probe, svg};

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    prompts: PromptOptions,
    #[command(flatten)]
    data: ExampleArguments,
    /// Plot of the t-SNE
    #[arg(long, value_name = "FILE.svg")]
    out: PathBuf,
    /// Questions, and answers, to choose
    #[arg(long, value_name = "N", default_value_t = 400, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    pairs: u32,
    /// Seed of the choice, the folds and the picture
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &ProbeArguments) -> anyhow::Result<()> {
    let encoder = Model::open_with(&options.model.model, &options.model.compute(), &options.prompts)?;
    let asked = ProbeOptions {
        data: options.data.data.clone(),
        read: options.data.read("test"),
        pairs: options.pairs as usize,
        seed: options.seed,
        budget: options.model.budget(),
    };
    let (found, places) = probe(&encoder, &asked)?;
    fs_err::write(&options.out, svg(&found, &places))?;
    let mut output = std::io::stdout().lock();
    if options.json {
        let value = serde_json::to_string_pretty(&found).context("cannot write the numbers as JSON")?;
        writeln!(output, "{value}")?;
        return Ok(());
    }
    let (separation, geometry) = (found.separation, found.geometry);
    writeln!(output, "{}: {} questions and their answers", found.model, found.pairs)?;
    writeln!(
        output,
        "separable   {:.3} +- {:.3}  (accuracy of a linear classifier, {} folds; 0.5 is mixed)",
        separation.accuracy, separation.standard_error, separation.folds
    )?;
    writeln!(
        output,
        "alignment   {:.3}  (mean squared distance of a question and its answer)",
        geometry.alignment
    )?;
    writeln!(
        output,
        "uniformity  {:.3}  (questions {:.3}, answers {:.3})",
        geometry.uniformity, geometry.uniformity_questions, geometry.uniformity_answers
    )?;
    writeln!(
        output,
        "cosine      {:.3} of the centroids, {:.3} of pairs",
        geometry.centroid_cosine, geometry.pair_cosine
    )?;
    writeln!(output, "picture     {}", options.out.display())?;
    Ok(())
}
