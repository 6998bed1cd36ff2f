//! A worker that holds our trainer: its public [`TrainingStep`]. All that the harness knows of it is here.

use std::io::{BufRead, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use dyad_encoder::data::{Cursor, TrainBatch};
use dyad_encoder::model::Model;
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::train::{Config, Length, TrainingStep};
use dyad_encoder::{Compute, Device, Dtype, Tower};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::protocol::{PreparedPairs, SteppedReply, TrainStepRequest, TrainStepShape};
use crate::harness::{self, EngineDescription, OpenedReply, TaskShape as _, read_lines};

/// Pairs in memory at a time with `dyad-cached`.
const CHUNK: usize = 256;

/// Serves requests until `quit` or the end of `input`.
pub(crate) fn serve(engine: &str, input: impl BufRead, output: impl Write) -> anyhow::Result<()> {
    let (dtype, chunk) = match engine {
        "dyad-bf16" => (Dtype::Bf16, 0),
        "dyad-cached" => (Dtype::F32, CHUNK),
        _ => (Dtype::F32, 0),
    };
    let how = match (dtype, chunk) {
        (Dtype::F32, 0) => "f32".to_owned(),
        (Dtype::F32, chunk) => format!("f32, gradient cache of {chunk} pairs at a time"),
        (dtype, _) => format!("products in {dtype} over weights in f32"),
    };
    let settings = format!("dyad_encoder::train::TrainingStep, in-batch loss, clipping to norm 1, AdamW, {how}");
    let described = EngineDescription::of_own(engine, TrainStepShape::OWN, settings, ())?;
    let mut trainer = None;
    harness::serve(input, output, &described, |request| {
        answer(&mut trainer, request, dtype, chunk)
    })
}

fn answer(
    trainer: &mut Option<Trainer>,
    request: TrainStepRequest,
    dtype: Dtype,
    chunk: usize,
) -> anyhow::Result<Value> {
    if let TrainStepRequest::Open {
        model,
        device,
        threads,
        learning_rate,
        temperature,
    } = request
    {
        let started = Instant::now();
        let device: Device = device.parse().map_err(|refusal: String| anyhow!(refusal))?;
        let compute = Compute {
            device,
            dtype,
            threads: Some(threads),
        };
        *trainer = Some(Trainer::open(&model, compute, chunk, [learning_rate, temperature])?);
        return Ok(OpenedReply::since(started));
    }
    let trainer = trainer.as_mut().context("nothing is open: `open` comes first")?;
    Ok(match request {
        TrainStepRequest::Prepare { pairs, batch } => {
            let pairs = read_lines(&pairs)?;
            trainer.prepare(&pairs, batch)?;
            json!(PreparedPairs {
                pairs: pairs.len(),
                batches: trainer.batches.len()
            })
        }
        _ => json!(trainer.steps()?),
    })
}

/// An open model and its batches.
#[derive(Debug)]
struct Trainer {
    step: TrainingStep,
    batches: Vec<TrainBatch>,
    tokens: u64,
}

impl Trainer {
    /// Opens a model for training at a learning rate and a temperature, with `chunk` pairs of a batch in memory at a
    /// time, or all where it is 0.
    fn open(
        model: &Path,
        compute: Compute,
        chunk: usize,
        [learning_rate, temperature]: [f64; 2],
    ) -> anyhow::Result<Self> {
        let settings = format!(
            "loss.temperature = {temperature:e}\n\
             optimizer = {{ kind = \"adamw\", learning-rate = {learning_rate:e}, weight-decay = 0.0 }}\n\
             schedule = {{ kind = \"constant\" }}\nclipping = {{ max-norm = 1.0 }}\nbatch = {{ chunk = {chunk} }}\n"
        );
        let config = Config::parse(&settings)
            .map_err(|reason| anyhow!(reason))
            .context("settings of the trainer")?;
        let stage = config.stages.first().context("settings of the trainer: no stage")?;
        let learned = Model::open_for_training(model, &compute)?;
        let length = Length {
            steps: u64::MAX,
            batches: u64::MAX,
        };
        let step = TrainingStep::new(learned, model, stage, &compute, length)?;
        Ok(Self {
            step,
            batches: Vec::new(),
            tokens: 0,
        })
    }

    /// Tokenizes pairs and keeps them as batches.
    fn prepare(&mut self, pairs: &[(String, String)], batch: usize) -> anyhow::Result<()> {
        let tokenizer = self.step.model().tokenizer();
        let encode = |tower: Tower, text: &str| tokenizer.encode(tower, text);
        let tokens: Vec<(Tokens, Tokens)> = pairs
            .par_iter()
            .map(|(question, answer)| Ok((encode(Tower::Question, question)?, encode(Tower::Answer, answer)?)))
            .collect::<Result<_, dyad_encoder::Error>>()?;
        self.tokens = tokens
            .iter()
            .map(|(question, answer)| (question.ids.len() + answer.ids.len()) as u64)
            .sum();
        let batches = tokens.chunks(batch).enumerate().map(|(number, pairs)| {
            let (questions, answers): (Vec<Tokens>, Vec<Tokens>) = pairs.iter().cloned().unzip();
            let size = questions.len();
            let (cursor, first) = (
                |position: usize| Cursor {
                    epoch: 0,
                    position: position as u64,
                },
                number * batch,
            );
            TrainBatch {
                questions,
                answers,
                contexts: Vec::new(),
                owners: Vec::new(),
                excluded: vec![false; size * size],
                teacher: None,
                examples: (first..first + size).map(|example| example as u32).collect(),
                cursor: cursor(number),
                next: cursor(number + 1),
            }
        });
        self.batches = batches.collect();
        Ok(())
    }

    /// One step with each batch. Nothing is padded.
    fn steps(&mut self) -> anyhow::Result<SteppedReply> {
        let started = Instant::now();
        let losses = self.batches.iter().map(|batch| Ok(self.step.run(batch)?.loss));
        let losses = losses.collect::<anyhow::Result<_>>()?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(SteppedReply {
            seconds,
            losses,
            tokens: self.tokens,
            computed_tokens: self.tokens,
        })
    }
}
