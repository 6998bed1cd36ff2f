//! `dyad-encoder evaluate`: exact search over a BEIR folder, its hits reranked, and whether two models, or the two
//! rankings, differ by more than chance.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use dyad_command::{JobCancellation, cancel_on_signal};
use dyad_corpus::PassageContext;
use dyad_corpus::metrics::{Sampling, compare};
use dyad_corpus::run::{self, TrecRun};

use super::model::ModelOptions;
use crate::config::{PromptOptions, Tower};
use crate::data::DataError;
use crate::device::Compute;
use crate::model::{CrossEncoder, Model, VectorLength};
use crate::tokenize::Tokens;
use crate::train::{DEPTH, EvaluatedContext, Evaluator, METRICS};

#[derive(Debug, Args)]
pub(crate) struct EvaluateOptions {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    prompts: PromptOptions,
    /// BEIR folder: corpus, questions, judgements
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Its split
    #[arg(long, value_name = "NAME", default_value = "test")]
    split: String,
    /// What of its document reaches a passage's vector: none, title, late or title+late, with a weight after a colon
    /// (`dyad-encoder embed --help`)
    #[arg(long, value_name = "CONTEXT[:WEIGHT]", default_value_t = PassageContext::default())]
    context: PassageContext,
    /// File of the documents that the passages of the corpus were cut from, for a context that reads them
    #[arg(long, value_name = "FILE")]
    documents: Option<PathBuf>,
    /// Write the ranking in TREC's form
    #[arg(long, value_name = "FILE")]
    run: Option<PathBuf>,
    /// Another model, with the prompts of its files: its values, and paired tests of the difference
    #[arg(long, value_name = "DIR")]
    compare: Option<PathBuf>,
    /// Cross encoder: its order of the best hits next to the model's own, and paired tests of the difference. --run
    /// then writes its
    #[arg(long, value_name = "DIR", conflicts_with = "compare")]
    reranker: Option<PathBuf>,
    /// Hits of each question that it reorders
    #[arg(long, value_name = "N", default_value_t = 50, requires = "reranker",
        value_parser = clap::value_parser!(u8).range(1..=DEPTH as i64))]
    rerank: u8,
}

pub(crate) fn run(options: &EvaluateOptions) -> anyhow::Result<()> {
    let cancel = cancel_on_signal()?;
    let (evaluator, mut found) = search(&options.model.model, &options.prompts, options, &cancel)?;
    let first = evaluator.measure(&found);
    let mut name = "dyad-dense";
    let second = match (&options.compare, &options.reranker) {
        (Some(other), _) => {
            let (evaluator, found) = search(other, &PromptOptions::default(), options, &cancel)?;
            Some((other.display().to_string(), evaluator.measure(&found)))
        }
        (None, Some(directory)) => {
            let cross_encoder = CrossEncoder::open(directory, &options.model.compute())?;
            let budget = options.model.budget();
            let score = |pairs: &[Tokens]| cross_encoder.logits_until(pairs, budget, &cancel);
            let depth = usize::from(options.rerank);
            let reranked = evaluator.rerank(&found, depth, &cross_encoder.tokenizer(), &score)?;
            let reranked = reranked.ok_or(DataError::Interrupted)?;
            (found, name) = (reranked, "dyad-dense-rerank");
            let second = format!("its best {} in the order of {}", options.rerank, directory.display());
            Some((second, evaluator.measure(&found)))
        }
        (None, None) => None,
    };
    if let Some(path) = &options.run {
        run::write(path, &found, name)?;
    }
    let mut output = std::io::stdout().lock();
    let Some((other, second)) = second else {
        for (metric, value) in METRICS.iter().zip(&first.means) {
            writeln!(output, "{:<12} {value:.4}", metric.to_string())?;
        }
        return Ok(());
    };
    writeln!(output, "first: {}\nsecond: {other}", options.model.model.display())?;
    writeln!(
        output,
        "metric        first  second  difference  95 % interval      p (randomisation, bootstrap)"
    )?;
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

/// Judged questions and documents, and the best documents of each question.
fn search(
    model: &Path,
    prompts: &PromptOptions,
    options: &EvaluateOptions,
    cancel: &JobCancellation,
) -> anyhow::Result<(Evaluator, TrecRun)> {
    let compute = options.model.compute();
    let encoder = Model::open_with(model, &compute, prompts)?;
    let context = EvaluatedContext {
        context: options.context,
        documents: options.documents.clone(),
    };
    let evaluator = Evaluator::open_in(&context, &options.data, &options.split, &encoder)?;
    let budget = options.model.budget();
    let embed = |tower: Tower, texts: &[Tokens]| encoder.embed_until(tower, texts, VectorLength::Unit, budget, cancel);
    let device = Compute {
        device: compute.device,
        ..Compute::default()
    }
    .torch_device();
    let found = evaluator
        .search(&embed, encoder.info().dim, device)?
        .ok_or(DataError::Interrupted)?;
    Ok((evaluator, found))
}
