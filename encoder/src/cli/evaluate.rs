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
use crate::loss::Similarity;
use crate::model::{CrossEncoder, Model, VectorLength};
use crate::tokenize::Tokens;
use crate::train::{DEPTH, EvaluatedContext, EvaluatedVectors, Evaluator, METRICS};

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
    /// Cut vectors to this many leading values, normalised again; several separated by commas: a column for each next
    /// to that of whole vectors
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with_all = ["compare", "reranker", "run"])]
    dimensions: Vec<usize>,
    /// Hits of each question that it reorders
    #[arg(long, value_name = "N", default_value_t = 50, requires = "reranker",
        value_parser = clap::value_parser!(u8).range(1..=DEPTH as i64))]
    rerank: u8,
}

pub(crate) fn run(options: &EvaluateOptions) -> anyhow::Result<()> {
    let cancel = cancel_on_signal()?;
    if !options.dimensions.is_empty() {
        return show_dimensions(options, &cancel);
    }
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

/// Prints the metrics of whole vectors, and of vectors that are cut to each of the sizes.
fn show_dimensions(options: &EvaluateOptions, cancel: &JobCancellation) -> anyhow::Result<()> {
    let (evaluator, vectors, device) = embed(&options.model.model, &options.prompts, options, cancel)?;
    let mut columns = vec![("all".to_owned(), vectors.clone())];
    for dim in &options.dimensions {
        columns.push((dim.to_string(), vectors.cut(*dim, Similarity::Cosine)?));
    }
    let mut table = vec![format!("{:<12}", "dimensions")];
    table.extend(METRICS.iter().map(|metric| format!("{:<12}", metric.to_string())));
    for (name, vectors) in &columns {
        let measured = evaluator.measure(&evaluator.search_vectors(vectors, device)?);
        let cells = std::iter::once(format!(" {name:>6}"));
        let cells = cells.chain(measured.means.iter().map(|value| format!(" {value:.4}")));
        for (line, cell) in table.iter_mut().zip(cells) {
            line.push_str(&cell);
        }
    }
    let mut output = std::io::stdout().lock();
    for line in table {
        writeln!(output, "{line}")?;
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
    let (evaluator, vectors, device) = embed(model, prompts, options, cancel)?;
    let found = evaluator.search_vectors(&vectors, device)?;
    Ok((evaluator, found))
}

/// Judged questions and documents, their vectors, and the device that compares them.
fn embed(
    model: &Path,
    prompts: &PromptOptions,
    options: &EvaluateOptions,
    cancel: &JobCancellation,
) -> anyhow::Result<(Evaluator, EvaluatedVectors, tch::Device)> {
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
    let vectors = evaluator
        .embed(&embed, encoder.info().dim)?
        .ok_or(DataError::Interrupted)?;
    Ok((evaluator, vectors, device))
}
