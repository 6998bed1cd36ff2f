//! Which pairs the engines are given, what they are asked, what is checked (as many tokens as the first engine has, and losses that
//! are numbers), and the figures.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dyad_corpus::examples::{ExampleOptions, ExampleReader};
use serde_json::{Value, json};

use super::protocol::{Prepared, Request, Shape, Stepped};
use crate::error::{Error, Result};
use crate::harness::{At, Column, Job, Session, Show, Task, evenly, extremes, write_lines};

/// Divisor of the cosines: the default of sentence-transformers' loss.
const TEMPERATURE: f64 = 0.05;

/// Steps of training, at one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainStep {
    pub(super) shape: Shape,
    /// Real tokens of a pass, as the first engine counts them.
    pub(super) tokens: Option<u64>,
    pub(super) pairs: PathBuf,
}

impl Task for TrainStep {
    type Shape = Shape;
    type More = ();
    /// The pass that warmed up: its weights are those of the model, then those that the steps made.
    type Point = Stepped;
    const COLUMNS: &'static [Column<Self>] = &[
        ("batch", |at| json!(at.shape.task.shape.batch)),
        ("batches", |at| json!(at.shape.task.shape.batches)),
        ("tokens", |at| json!(at.run.point.tokens)),
        ("step_ms", |at| json!(at.step_ms(at.run.median_s()))),
        ("step_ms_lowest", |at| json!(at.step_ms(extremes(&at.run.seconds).0))),
        ("step_ms_highest", |at| json!(at.step_ms(extremes(&at.run.seconds).1))),
        ("pairs_per_s", |at| json!(at.shape.task.pairs() as f64 / at.run.median_s())),
        ("padding_share", |at| {
            let Stepped { tokens, computed_tokens, .. } = &at.run.point;
            json!(computed_tokens.saturating_sub(*tokens) as f64 / (*computed_tokens).max(1) as f64)
        }),
        ("loss_difference", |at| json!(at.loss_difference())),
        ("losses", |at| json!(at.run.point.losses)),
    ];
    const TABLE: &'static [(&'static str, &'static str, Show)] = &[
        ("ms/step", "step_ms", Show::Decimals(1)),
        ("pairs/s", "pairs_per_s", Show::Decimals(1)),
        ("padding", "padding_share", Show::Percent),
        ("peak MB", "peak_bytes", Show::Megabytes),
        ("loss off", "loss_difference", Show::Power),
        ("dyad over", "dyad_over", Show::Times),
    ];
    const LEGEND: &'static str = "A step: forward of both towers, in-batch loss, backward, clipping, AdamW; tokenizing is not timed. \
        Peak memory less what the process had before it opened the model; loss off: largest relative difference to the first \
        engine's losses of the same batches.";

    fn prepare(_: &Job<'_, Shape>, shape: &Shape, scratch: &Path) -> Result<Self> {
        let path = scratch.join("pairs.jsonl");
        write_lines(&path, &read_pairs(shape)?)?;
        Ok(Self { shape: shape.clone(), tokens: None, pairs: path })
    }

    fn describe(&self) -> String {
        let tokens = self.tokens.map(|tokens| format!(", {:.0} tokens", tokens as f64 / self.shape.batches as f64));
        format!("steps with {} pairs{}", self.shape.batch, tokens.unwrap_or_default())
    }

    fn open(&self, job: &Job<'_, Shape>) -> Value {
        let (model, device, threads) = (job.workload.model.clone(), job.device.clone(), job.workload.threads);
        let (learning_rate, temperature) = (self.shape.learning_rate, TEMPERATURE);
        json!(Request::Open { model, device, threads, learning_rate, temperature })
    }

    fn load(&self, session: &mut Session<Self>) -> Result<()> {
        let (pairs, batch, batches) = (self.pairs.clone(), self.shape.batch, self.shape.batches);
        let prepared: Prepared = session.worker.ask(&Request::Prepare { pairs, batch })?;
        let words = |prepared: &Prepared| format!("{} pairs in {} batches", prepared.pairs, prepared.batches);
        session.worker.require("prepare", words(&Prepared { pairs: self.pairs(), batches }), words(&prepared))
    }

    fn warm_up(&mut self, session: &mut Session<Self>) -> Result<()> {
        session.run.point = self.steps(session)?;
        let tokens = session.run.point.tokens;
        let words = |tokens: u64| format!("{tokens} tokens");
        // An engine that cuts texts shorter does less work than the first one.
        session.worker.require("steps", words(*self.tokens.get_or_insert(tokens)), words(tokens))
    }

    fn pass(&self, session: &mut Session<Self>) -> Result<f64> {
        Ok(self.steps(session)?.seconds)
    }
}

impl TrainStep {
    /// Pairs of a pass.
    fn pairs(&self) -> usize {
        self.shape.batch * self.shape.batches
    }

    fn steps(&self, session: &mut Session<Self>) -> Result<Stepped> {
        let stepped: Stepped = session.worker.ask(&Request::Steps)?;
        session.worker.above_zero("steps", "a time above 0", stepped.seconds)?;
        if stepped.losses.len() != self.shape.batches || !stepped.losses.iter().all(|loss| loss.is_finite()) {
            let expected = format!("{} losses that are numbers", self.shape.batches);
            return Err(session.worker.unexpected("steps", expected, format!("{:?}", stepped.losses)));
        }
        Ok(stepped)
    }
}

impl At<'_, TrainStep> {
    /// Milliseconds per step of a pass that took `seconds`.
    fn step_ms(&self, seconds: f64) -> f64 {
        seconds * 1e3 / self.shape.task.shape.batches as f64
    }

    /// The largest difference to the first engine's losses of the same batches, in shares of those.
    fn loss_difference(&self) -> f64 {
        let first = self.shape.engines.first().map_or(&[][..], |first| &first.point.losses);
        let pairs = self.run.point.losses.iter().zip(first);
        pairs.map(|(own, other)| (own - other).abs() / other.abs().max(f64::MIN_POSITIVE)).fold(0.0, f64::max)
    }
}

/// The pairs of a shape, as many as its batches take: from examples of any form, chosen evenly over the file, no question and no answer
/// twice.
pub(super) fn read_pairs(shape: &Shape) -> Result<Vec<(String, String)>> {
    let fail = |error: dyad_corpus::Error| Error::file(&shape.pairs, error);
    let options = ExampleOptions { split: "train".to_owned(), ..ExampleOptions::default() };
    let mut pairs = Vec::new();
    let (mut questions, mut answers) = (HashSet::new(), HashSet::new());
    for example in ExampleReader::open(&shape.pairs, &options).map_err(fail)? {
        let example = example.map_err(fail)?;
        let Some(answer) = example.positives.first().map(|passage| passage.passage().into_owned()) else { continue };
        // An answer that stands twice in a batch would need a mask, which peers do not have.
        if questions.insert(example.question.clone()) && answers.insert(answer.clone()) {
            pairs.push((example.question, answer));
        }
    }
    let wanted = shape.batch * shape.batches;
    if pairs.len() < wanted {
        let field = format!("`shape.{}.batches`", shape.name);
        let expected = format!("at most what the {} different pairs of the file give", pairs.len());
        return Err(Error::malformed(&shape.pairs, field, expected, format!("{wanted} pairs")));
    }
    Ok(evenly(pairs, wanted))
}
