//! `dyad-indexer compare`: what two generations find for the same questions.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use dyad_command::cancel_on_signal;
use dyad_index::manifest;
use dyad_indexer::compare::{GenerationComparison, GenerationQuestions, compare_generations};
use dyad_indexer::control::JobControl;
use serde::Serialize;

use super::bar::ProgressReporter;
use super::report::OutputArguments;

#[derive(Debug, clap::Args)]
pub(super) struct CompareArguments {
    /// Directory of the index
    #[arg(long, value_name = "DIR")]
    index: PathBuf,
    /// Questions, embedded by the model of the generation before: a directory that `dyad-encoder embed --tower
    /// question` has made
    #[arg(long, value_name = "DIR")]
    queries: PathBuf,
    /// The same questions, embedded by the model of the generation after; left out where both have one model
    #[arg(long, value_name = "DIR")]
    queries_after: Option<PathBuf>,
    /// The generation before; by default the one that was current before that after
    #[arg(long, value_name = "GENERATION")]
    before: Option<u64>,
    /// The generation after; by default the current one
    #[arg(long, value_name = "GENERATION")]
    after: Option<u64>,
    /// Hits compared
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    k: u16,
    /// Judgements of the questions, in BEIR's or TREC's form: metrics of both generations and paired tests
    #[arg(long, value_name = "FILE")]
    qrels: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArguments,
}

/// How two generations differ.
#[derive(Debug, Serialize)]
struct CompareReport {
    before: u64,
    after: u64,
    questions: usize,
    k: usize,
    overlap: f64,
    same_first: f64,
    furthest: Vec<FurthestQuestion>,
    metrics: Vec<ComparedMetric>,
}

/// A question for which they share few hits.
#[derive(Debug, Serialize)]
struct FurthestQuestion {
    question: String,
    shared: usize,
}

/// A metric of both over the judged questions.
#[derive(Debug, Serialize)]
struct ComparedMetric {
    metric: String,
    questions: usize,
    before: f64,
    after: f64,
    difference: f64,
    interval: [f64; 2],
    p: f64,
}

impl CompareReport {
    fn new(before: u64, after: u64, compared: GenerationComparison) -> Self {
        let furthest = compared.furthest.into_iter();
        let metrics = compared.metrics.into_iter();
        Self {
            before,
            after,
            questions: compared.questions,
            k: compared.k,
            overlap: compared.overlap,
            same_first: compared.same_first,
            furthest: furthest
                .map(|(question, shared)| FurthestQuestion { question, shared })
                .collect(),
            metrics: metrics
                .map(|(metric, pair)| ComparedMetric {
                    metric: metric.to_string(),
                    questions: pair.questions,
                    before: pair.first,
                    after: pair.second,
                    difference: pair.difference,
                    interval: pair.interval.into(),
                    p: pair.p_randomisation,
                })
                .collect(),
        }
    }
}

impl fmt::Display for CompareReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            before,
            after,
            questions,
            k,
            overlap,
            ..
        } = self;
        writeln!(
            f,
            "generations {before} and {after}, {questions} questions, exact search"
        )?;
        let same_first = 100.0 * self.same_first;
        writeln!(f, "overlap@{k} {overlap:.4}; the same first hit for {same_first:.1} %")?;
        let furthest: Vec<String> = self
            .furthest
            .iter()
            .map(|FurthestQuestion { question, shared }| format!("{question} ({shared})"))
            .collect();
        writeln!(f, "fewest shared hits: {}", furthest.join(", "))?;
        if !self.metrics.is_empty() {
            writeln!(f, "metric        before  after   difference  95 % interval      p")?;
        }
        for compared in &self.metrics {
            let [low, high] = compared.interval;
            writeln!(
                f,
                "{:<12}  {:.4}  {:.4}  {:+.4}     [{low:+.4}, {high:+.4}]  {:.5}",
                compared.metric, compared.before, compared.after, compared.difference, compared.p
            )?;
        }
        Ok(())
    }
}

/// The questions as the model of one generation has embedded them.
fn embedded_for(generation: u64, questions: &Path) -> GenerationQuestions {
    GenerationQuestions {
        generation,
        questions: questions.to_owned(),
    }
}

pub(super) fn run(arguments: &CompareArguments) -> anyhow::Result<ExitCode> {
    let cancel = cancel_on_signal()?;
    let index = &arguments.index;
    let after = match arguments.after {
        Some(after) => after,
        None => manifest::current(index)?.generation,
    };
    let before = match arguments.before {
        Some(before) => before,
        None => manifest::predecessor(index, after)?,
    };
    let queries_after = arguments.queries_after.as_ref().unwrap_or(&arguments.queries);
    let first = embedded_for(before, &arguments.queries);
    let second = embedded_for(after, queries_after);
    let control = JobControl {
        progress: &ProgressReporter::default(),
        cancel: &cancel,
    };
    let k = usize::from(arguments.k);
    let compared = compare_generations(index, [&first, &second], k, arguments.qrels.as_deref(), control)?;
    arguments.output.print(&CompareReport::new(before, after, compared))?;
    Ok(ExitCode::SUCCESS)
}
