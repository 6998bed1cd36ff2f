//! The order of a run: shape by shape, open, tune, warm up, interleaved passes, memory.
//!
//! An engine that fails leaves its shape with its error; the others go on. Only an interrupt ends the run.

use std::collections::BTreeMap;
use std::path::Path;

use super::limit::{LIMIT, Limit};
use super::measured::{Measured, ShapeRun};
use super::model::Model;
use super::seat::{Seat, Task};
use super::texts::Texts;
use super::tokens::Counter;
use super::workload::{Job, Shape};
use crate::dataset::Matrix;
use crate::harness::{Party, Result, Seat as _, in_scratch, write_lines};

/// Runs a workload; `note` hears what is being done.
pub fn run(job: &Job<'_>, note: &dyn Fn(&str)) -> Result<Measured> {
    let workload = job.workload;
    let model = Model::read(&workload.model)?;
    let counter = Counter::open(&model.dir, model.prompt.clone())?;
    let shapes = in_scratch(&job.cache, |scratch| {
        let run = Run { job, model: &model, counter: &counter, note, scratch };
        workload.shapes.iter().map(|shape| run.measure(shape)).collect::<Result<_>>()
    })?;
    Ok(Measured { conditions: job.conditions(&workload.name, &model.dir, workload.repeats)?, size: model.size, shapes })
}

struct Run<'a> {
    job: &'a Job<'a>,
    model: &'a Model,
    counter: &'a Counter,
    note: &'a dyn Fn(&str),
    scratch: &'a Path,
}

impl Run<'_> {
    fn measure(&self, shape: &Shape) -> Result<ShapeRun> {
        let job = self.job;
        let max_tokens = shape.tokens.unwrap_or(0).max(self.model.max_tokens);
        let model = self.model.reading(max_tokens, &job.cache)?;
        let Texts { texts, lengths } = Texts::read(shape, self.counter, max_tokens)?;
        let tokens: u64 = lengths.iter().map(|&length| length as u64).sum();
        (self.note)(&format!("{}: {} texts, {tokens} tokens", shape.name, texts.len()));
        let texts_path = self.scratch.join("texts.jsonl");
        write_lines(&texts_path, &texts)?;
        let task =
            Task { job, model: &model, texts_path: &texts_path, texts: texts.len(), tokens, scratch: self.scratch };
        let mut party = Party::new(self.note);
        for engine in &job.engines {
            party.admit(engine, job.start(engine).and_then(|worker| Seat::open(worker, &task)))?;
        }
        self.warm_up(&mut party)?;
        let limits = self.passes(&mut party)?;
        party.each(0, Seat::weigh)?;
        let (engines, failures) = party.close(Seat::close);
        Ok(ShapeRun {
            name: shape.name.clone(),
            texts: texts.len(),
            tokens,
            max_tokens,
            flops: lengths.iter().map(|&length| self.model.size.flops(length as u64)).sum(),
            limits,
            engines,
            failures,
        })
    }

    /// One untimed pass each; the first engine's vectors are what the others' are compared with.
    fn warm_up(&self, party: &mut Party<'_, Seat>) -> Result<()> {
        let mut first: Option<Matrix> = None;
        party.each(0, |seat| {
            (self.note)(&format!("{}: tuning and warming up", seat.engine()));
            let own = seat.warm_up()?;
            if let Some(first) = &first {
                return seat.compare(first, &own);
            }
            // Also the first engine's own vectors have to be vectors.
            seat.compare(&own, &own)?;
            first = Some(own);
            Ok(())
        })
    }

    /// The timed passes, and the machine's limit before each of them.
    fn passes(&self, party: &mut Party<'_, Seat>) -> Result<BTreeMap<String, Vec<f64>>> {
        let (job, repeats) = (self.job, self.job.workload.repeats);
        let mut dtypes: Vec<String> = party.seats().iter().map(|seat| seat.limited_by().to_owned()).collect();
        dtypes.sort();
        dtypes.dedup();
        let limit = job.start(LIMIT).map(|worker| Limit::new(worker, &job.device, job.threads, job.deadline));
        let mut limit = keep(limit, party)?;
        for pass in 0..repeats {
            (self.note)(&format!("pass {} of {repeats}", pass + 1));
            if let Some(one) = limit.as_mut() {
                let measured = dtypes.iter().try_for_each(|dtype| one.measure(dtype));
                if keep(measured, party)?.is_none() {
                    limit = None;
                }
            }
            party.each(pass, Seat::measure)?;
        }
        let Some(mut limit) = limit else { return Ok(BTreeMap::new()) };
        let gflops = limit.take();
        limit.quit();
        Ok(gflops)
    }
}

/// Without the limit a run has no shares, and all else.
fn keep<T>(result: Result<T>, party: &mut Party<'_, Seat>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => party.fail(LIMIT, error).map(|()| None),
    }
}
