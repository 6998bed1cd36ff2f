//! Which pairs the engines are given, what they are asked, what is checked (as many tokens as the first engine has, and
//! losses that are numbers), and the figures.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dyad_corpus::examples::{ExampleOptions, ExampleReader};
use serde_json::{Value, json};

use super::protocol::{PreparedPairs, SteppedReply, TrainStepRequest, TrainStepShape};
use crate::error::{BenchError, BenchResult};
use crate::harness::{
    BenchTask, EngineRun, FigureFormat, ShownColumn, TaskJob, TaskSession, evenly, extremes, write_lines,
};

/// Divisor of the cosines: the default of sentence-transformers' loss.
const TEMPERATURE: f64 = 0.05;

/// Steps of training, at one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainStep {
    pub(super) shape: TrainStepShape,
    /// Real tokens of a pass, as the first engine counts them.
    pub(super) tokens: Option<u64>,
    pub(super) pairs: PathBuf,
}

impl BenchTask for TrainStep {
    type Shape = TrainStepShape;
    type Details = ();
    /// The pass that warmed up: its weights are those of the model, then those that the steps made.
    type Point = SteppedReply;
    const TABLE: &'static [ShownColumn<'static>] = &[
        ShownColumn::new("step_ms", "ms/step", FigureFormat::Decimals(1)),
        ShownColumn::new("pairs_per_s", "pairs/s", FigureFormat::Decimals(1)),
        ShownColumn::new("padding_share", "padding", FigureFormat::Percent),
        ShownColumn::new("peak_bytes", "peak MB", FigureFormat::Megabytes),
        ShownColumn::new("loss_difference", "loss off", FigureFormat::Power),
        ShownColumn::new("dyad_over", "dyad over", FigureFormat::Times),
    ];
    const LEGEND: &'static str = "A step: forward of both towers, in-batch loss, backward, clipping, AdamW; tokenizing is not timed. \
        Peak memory less what the process had before it opened the model; loss off: largest relative difference to the first \
        engine's losses of the same batches.";

    fn prepare(_: &TaskJob<'_, TrainStepShape>, shape: &TrainStepShape, scratch: &Path) -> BenchResult<Self> {
        let path = scratch.join("pairs.jsonl");
        write_lines(&path, &read_pairs(shape)?)?;
        Ok(Self {
            shape: shape.clone(),
            tokens: None,
            pairs: path,
        })
    }

    fn describe(&self) -> String {
        let tokens = self
            .tokens
            .map(|tokens| format!(", {:.0} tokens", tokens as f64 / self.shape.batches as f64));
        format!("steps with {} pairs{}", self.shape.batch, tokens.unwrap_or_default())
    }

    fn open(&self, job: &TaskJob<'_, TrainStepShape>) -> Value {
        let (model, device, threads) = (job.workload.model.clone(), job.device.clone(), job.workload.threads);
        let (learning_rate, temperature) = (self.shape.learning_rate, TEMPERATURE);
        json!(TrainStepRequest::Open {
            model,
            device,
            threads,
            learning_rate,
            temperature
        })
    }

    fn load(&self, session: &mut TaskSession<Self>) -> BenchResult<()> {
        let (pairs, batch, batches) = (self.pairs.clone(), self.shape.batch, self.shape.batches);
        let prepared: PreparedPairs = session.worker.ask(&TrainStepRequest::Prepare { pairs, batch })?;
        let words = |prepared: &PreparedPairs| format!("{} pairs in {} batches", prepared.pairs, prepared.batches);
        session.worker.require(
            "prepare",
            words(&PreparedPairs {
                pairs: self.pairs(),
                batches,
            }),
            words(&prepared),
        )
    }

    fn warm_up(&mut self, session: &mut TaskSession<Self>) -> BenchResult<()> {
        session.run.point = self.steps(session)?;
        let tokens = session.run.point.tokens;
        let words = |tokens: u64| format!("{tokens} tokens");
        // An engine that cuts texts shorter does less work than the first one.
        session
            .worker
            .require("steps", words(*self.tokens.get_or_insert(tokens)), words(tokens))
    }

    fn pass(&self, session: &mut TaskSession<Self>) -> BenchResult<f64> {
        Ok(self.steps(session)?.seconds)
    }

    fn figures(&self, run: &EngineRun<Self>, first: &EngineRun<Self>) -> Value {
        let SteppedReply {
            tokens,
            computed_tokens,
            losses,
            ..
        } = &run.point;
        let (fastest, slowest) = extremes(&run.seconds);
        let step_ms = |seconds: f64| seconds * 1e3 / self.shape.batches as f64;
        json!({
            "batch": self.shape.batch,
            "batches": self.shape.batches,
            "tokens": tokens,
            "step_ms": step_ms(run.median_s()),
            "step_ms_lowest": step_ms(fastest),
            "step_ms_highest": step_ms(slowest),
            "pairs_per_s": self.pairs() as f64 / run.median_s(),
            "padding_share": computed_tokens.saturating_sub(*tokens) as f64 / (*computed_tokens).max(1) as f64,
            "loss_difference": largest_difference(losses, &first.point.losses),
            "losses": losses,
        })
    }
}

impl TrainStep {
    /// Pairs of a pass.
    fn pairs(&self) -> usize {
        self.shape.batch * self.shape.batches
    }

    fn steps(&self, session: &mut TaskSession<Self>) -> BenchResult<SteppedReply> {
        let stepped: SteppedReply = session.worker.ask(&TrainStepRequest::Steps)?;
        session.worker.above_zero("steps", "a time above 0", stepped.seconds)?;
        if stepped.losses.len() != self.shape.batches || !stepped.losses.iter().all(|loss| loss.is_finite()) {
            let expected = format!("{} losses that are numbers", self.shape.batches);
            return Err(session
                .worker
                .unexpected("steps", expected, format!("{:?}", stepped.losses)));
        }
        Ok(stepped)
    }
}

/// The largest difference of losses to others of the same batches, in shares of those.
fn largest_difference(losses: &[f64], others: &[f64]) -> f64 {
    let pairs = losses.iter().zip(others);
    pairs
        .map(|(own, other)| (own - other).abs() / other.abs().max(f64::MIN_POSITIVE))
        .fold(0.0, f64::max)
}

/// The pairs of a shape, as many as its batches take: from examples of any form, chosen evenly over the file, no
/// question and no answer twice.
pub(super) fn read_pairs(shape: &TrainStepShape) -> BenchResult<Vec<(String, String)>> {
    let fail = |error: dyad_corpus::Error| BenchError::file(&shape.pairs, error);
    let options = ExampleOptions {
        split: "train".to_owned(),
        ..ExampleOptions::default()
    };
    let mut pairs = Vec::new();
    let (mut questions, mut answers) = (HashSet::new(), HashSet::new());
    for example in ExampleReader::open(&shape.pairs, &options).map_err(fail)? {
        let example = example.map_err(fail)?;
        let Some(answer) = example.positives.first().map(|passage| passage.passage().into_owned()) else {
            continue;
        };
        // An answer that stands twice in a batch would need a mask, which peers do not have.
        if questions.insert(example.question.clone()) && answers.insert(answer.clone()) {
            pairs.push((example.question, answer));
        }
    }
    let wanted = shape.batch * shape.batches;
    if pairs.len() < wanted {
        let field = format!("`shape.{}.batches`", shape.name);
        let expected = format!("at most what the {} different pairs of the file give", pairs.len());
        return Err(BenchError::malformed(
            &shape.pairs,
            field,
            expected,
            format!("{wanted} pairs"),
        ));
    }
    Ok(evenly(pairs, wanted))
}
