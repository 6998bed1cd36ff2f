//! `dyad-encoder evaluate`: exact search over a BEIR folder, and whether two models differ by more than chance.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use dyad_command::{Cancellation, cancel_on_signal};
use dyad_corpus::metrics::{Evaluation, Sampling, compare};
use dyad_corpus::run::{self, Run};

use super::model::ModelOptions;
use crate::config::Tower;
use crate::data::DataError;
use crate::device::Compute;
use crate::model::{Model, VectorLength};
use crate::tokenize::Tokens;
use crate::train::{Evaluator, METRICS};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    model: ModelOptions,
    /// BEIR folder: corpus, questions, judgements
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Its split
    #[arg(long, value_name = "NAME", default_value = "test")]
    split: String,
    /// Write the ranking in TREC's form
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    /// Another model: its values, and paired tests of the difference
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let cancel = cancel_on_signal()?;
    let (found, first) = measure(&options.model.model, options, &cancel)?;
    if let Some(path) = &options.run {
        run::write(path, &found, "dyad-dense")?;
    }
    let mut output = std::io::stdout().lock();
    let Some(other) = &options.compare else {
        for (metric, value) in METRICS.iter().zip(&first.means) {
            writeln!(output, "{:<12} {value:.4}", metric.to_string())?;
        }
        return Ok(());
    };
    let (_, second) = measure(other, options, &cancel)?;
    writeln!(output, "first: {}\nsecond: {}", options.model.model.display(), other.display())?;
    writeln!(output, "metric        first  second  difference  95 % interval      p (randomisation, bootstrap)")?;
    for metric in METRICS {
        let compared = compare(&first, &second, metric, Sampling::default()).context("cannot compare the models")?;
        writeln!(
            output,
            "{:<12} {:.4}  {:.4}  {:+.4}     [{:+.4}, {:+.4}]  {:.5}, {:.5}",
            metric.to_string(),
            compared.first,
            compared.second,
            compared.difference,
            compared.interval.0,
            compared.interval.1,
            compared.p_randomisation,
            compared.p_bootstrap
        )?;
    }
    Ok(())
}

fn measure(model: &Path, options: &Options, cancel: &Cancellation) -> anyhow::Result<(Run, Evaluation)> {
    let compute = options.model.compute();
    let encoder = Model::open(model, &compute)?;
    let evaluator = Evaluator::open(&options.data, &options.split, &encoder.tokenizer())?;
    let (budget, go_on) = (options.model.budget(), |_| !cancel.is_cancelled());
    let embed = |tower: Tower, texts: &[Tokens]| encoder.embed_while(tower, texts, VectorLength::Unit, budget, go_on);
    let device = Compute { device: compute.device, ..Compute::default() }.torch_device();
    let found = evaluator.search(&embed, encoder.info().dim, device)?.ok_or(DataError::Interrupted)?;
    let measured = evaluator.measure(&found);
    Ok((found, measured))
}
