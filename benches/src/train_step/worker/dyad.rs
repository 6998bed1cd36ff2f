//! Our trainer as an engine: its public [`Step`]. All that the harness knows of it is here.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use dyad_encoder::data::{Cursor, TrainBatch};
use dyad_encoder::model::Model;
use dyad_encoder::tokenize::Tokens;
use dyad_encoder::train::{Config, Length, Step};
use dyad_encoder::{Compute, Device, Dtype, Tower};
use rayon::prelude::*;

use super::trainer::{Steps, Trainer};

/// An open model and its batches.
#[derive(Debug)]
pub(super) struct Dyad {
    step: Step,
    batches: Vec<TrainBatch>,
    tokens: u64,
}

impl Dyad {
    /// Opens a model; `numbers` are learning rate and temperature. A device that the encoder does not know is refused in its own
    /// words.
    pub(super) fn open(
        model: &Path,
        device: &str,
        threads: usize,
        [learning_rate, temperature]: [f64; 2],
    ) -> anyhow::Result<Self> {
        let device: Device = device.parse().map_err(|refusal: String| anyhow!(refusal))?;
        let compute = Compute { device, dtype: Dtype::F32, threads: Some(threads) };
        let settings = format!(
            "loss.temperature = {temperature:e}\n\
             optimizer = {{ kind = \"adamw\", learning-rate = {learning_rate:e}, weight-decay = 0.0 }}\n\
             schedule = {{ kind = \"constant\" }}\nclipping = {{ max-norm = 1.0 }}\n"
        );
        let config = Config::parse(&settings).map_err(|reason| anyhow!(reason)).context("settings of the trainer")?;
        let stage = config.stages.first().context("settings of the trainer: no stage")?;
        let learned = Model::open_for_training(model, &compute)?;
        let length = Length { steps: u64::MAX, batches: u64::MAX };
        let step = Step::new(learned, model, stage, &compute, length)?;
        Ok(Self { step, batches: Vec::new(), tokens: 0 })
    }
}

impl Trainer for Dyad {
    fn prepare(&mut self, pairs: &[(String, String)], batch: usize) -> anyhow::Result<usize> {
        let tokenizer = self.step.learned().tokenizer();
        let encode = |tower: Tower, text: &str| tokenizer.encode(tower, text);
        let tokens: Vec<(Tokens, Tokens)> = pairs
            .par_iter()
            .map(|(question, answer)| Ok((encode(Tower::Question, question)?, encode(Tower::Answer, answer)?)))
            .collect::<Result<_, dyad_encoder::Error>>()?;
        self.tokens = tokens.iter().map(|(question, answer)| (question.ids.len() + answer.ids.len()) as u64).sum();
        let batches = tokens.chunks(batch).enumerate().map(|(number, pairs)| {
            let (questions, answers): (Vec<Tokens>, Vec<Tokens>) = pairs.iter().cloned().unzip();
            let size = questions.len();
            let (cursor, first) = (|position: usize| Cursor { epoch: 0, position: position as u64 }, number * batch);
            TrainBatch {
                questions,
                answers,
                owners: Vec::new(),
                excluded: vec![false; size * size],
                teacher: None,
                examples: (first..first + size).map(|example| example as u32).collect(),
                cursor: cursor(number),
                next: cursor(number + 1),
            }
        });
        self.batches = batches.collect();
        Ok(self.batches.len())
    }

    fn steps(&mut self) -> anyhow::Result<Steps> {
        let losses = self.batches.iter().map(|batch| Ok(self.step.run(batch)?.loss));
        Ok(Steps { losses: losses.collect::<anyhow::Result<_>>()?, tokens: self.tokens })
    }
}
