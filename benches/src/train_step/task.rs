//! What engines are asked, and what is checked: as many tokens as the first engine has, and losses that are numbers.

use std::path::Path;

use serde_json::{Value, json};

use super::Workload;
use super::protocol::{More, Point, Prepared, Request, Stepped, TrainStep};
use super::workload::Shape;
use super::{pairs, report};
use crate::harness::{Column, Job, Measured, Result, Session, Task, write_lines};

/// Divisor of the cosines: the default of sentence-transformers' loss.
const TEMPERATURE: f64 = 0.05;

impl Task for TrainStep {
    type Shape = Shape;
    type Context = ();
    type More = More;
    type Point = Point;
    const COLUMNS: &'static [Column<Self>] = report::COLUMNS;
    const TABLE: &'static [Column<Self>] = report::TABLE;
    const LEGEND: &'static str = report::LEGEND;

    fn context(_: &Workload) -> Result<()> {
        Ok(())
    }

    fn prepare(_: &Job<'_, Shape>, (): &(), shape: &Shape, scratch: &Path) -> Result<Self> {
        let path = scratch.join("pairs.jsonl");
        write_lines(&path, &pairs::read(shape)?)?;
        let &Shape { batch, batches, learning_rate, .. } = shape;
        Ok(Self { batch, batches, learning_rate, tokens: None, pairs: path })
    }

    fn describe(&self) -> String {
        let tokens = self.tokens.map(|tokens| tokens as f64 / self.batches.max(1) as f64);
        let tokens = tokens.map_or_else(String::new, |tokens| format!(", {tokens:.0} tokens"));
        format!("steps with {} pairs{tokens}", self.batch)
    }

    fn open(&self, job: &Job<'_, Shape>) -> Value {
        let (model, device, threads) = (job.workload.model.clone(), job.device.clone(), job.threads);
        json!(Request::Open { model, device, threads, learning_rate: self.learning_rate, temperature: TEMPERATURE })
    }

    fn load(&self, session: &mut Session<Self>) -> Result<()> {
        let prepared: Prepared = session.ask(&Request::Prepare { pairs: self.pairs.clone(), batch: self.batch })?;
        let expected = Prepared { pairs: self.batch * self.batches, batches: self.batches };
        if prepared == expected {
            return Ok(());
        }
        Err(session.worker.unexpected("prepare", format!("{expected:?}"), format!("{prepared:?}")))
    }

    fn warm_up(&mut self, session: &mut Session<Self>) -> Result<()> {
        let Stepped { losses, tokens, computed_tokens, .. } = self.steps(session)?;
        session.run.point = Point { losses, tokens, computed_tokens };
        let first = *self.tokens.get_or_insert(tokens);
        if tokens == first {
            return Ok(());
        }
        // An engine that cuts texts shorter does less work.
        Err(session.worker.unexpected("steps", format!("{first} tokens, as the first engine"), tokens))
    }

    fn pass(&self, session: &mut Session<Self>) -> Result<f64> {
        Ok(self.steps(session)?.seconds)
    }

    fn summary(measured: &Measured<Self>) -> Value {
        report::summary(measured)
    }
}

impl TrainStep {
    fn steps(&self, session: &mut Session<Self>) -> Result<Stepped> {
        let stepped: Stepped = session.ask(&Request::Steps)?;
        session.worker.above_zero("steps", "a time above 0", stepped.seconds)?;
        if stepped.losses.len() != self.batches || !stepped.losses.iter().all(|loss| loss.is_finite()) {
            let expected = format!("{} losses that are numbers", self.batches);
            return Err(session.worker.unexpected("steps", expected, format!("{:?}", stepped.losses)));
        }
        Ok(stepped)
    }
}
