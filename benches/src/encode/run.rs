//! The order of a run: shape by shape, open, tune, warm up, interleaved passes, memory.
//!
//! An engine that fails leaves its shape with its error; the others go on. Only an interrupt ends the run.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::engines::{LIMIT, start};
use super::limit::Limit;
use super::measured::{Measured, ShapeRun};
use super::model::Model;
use super::seat::{Seat, Task};
use super::texts::Texts;
use super::tokens::Counter;
use super::workload::{Shape, Workload};
use crate::dataset::Matrix;
use crate::harness::{Failures, Programs, Result, in_turn, machine, stamp};

/// A run to be done.
#[derive(Debug)]
pub struct Job<'a> {
    /// What to measure.
    pub workload: &'a Workload,
    /// Engines in order; vectors are compared with the first one's.
    pub engines: Vec<String>,
    /// `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// Threads of every engine.
    pub threads: usize,
    /// Where the programs are.
    pub programs: Programs,
    /// Views of the model, what peers make of it, and scratch files.
    pub cache: PathBuf,
    /// For each answer of a worker.
    pub deadline: Duration,
    /// Turns true when the run is to end.
    pub cancel: &'static AtomicBool,
}

/// Runs a workload; `note` hears what is being done.
pub fn run(job: &Job<'_>, note: &dyn Fn(&str)) -> Result<Measured> {
    let workload = job.workload;
    let model = Model::read(&workload.model)?;
    let counter = Counter::open(&model.dir, model.prompt.clone())?;
    let scratch = job.cache.join(format!("scratch-{}", std::process::id()));
    fs_err::create_dir_all(&scratch)?;
    let scratch = fs_err::canonicalize(scratch)?;
    let party = Party { job, model: &model, counter: &counter, note, scratch: &scratch };
    let shapes: Result<Vec<ShapeRun>> = workload.shapes.iter().map(|shape| party.measure(shape)).collect();
    fs_err::remove_dir_all(&scratch)?;
    let name = model.dir.file_name().unwrap_or(model.dir.as_os_str());
    Ok(Measured {
        workload: workload.name.clone(),
        model: name.to_string_lossy().into_owned(),
        size: model.size,
        device: job.device.clone(),
        threads: job.threads,
        repeats: workload.repeats,
        asked: job.engines.clone(),
        shapes: shapes?,
        machine: machine(),
        stamp: stamp(),
    })
}

struct Party<'a> {
    job: &'a Job<'a>,
    model: &'a Model,
    counter: &'a Counter,
    note: &'a dyn Fn(&str),
    scratch: &'a Path,
}

impl Party<'_> {
    fn measure(&self, shape: &Shape) -> Result<ShapeRun> {
        let job = self.job;
        let max_tokens = shape.tokens.unwrap_or(0).max(self.model.max_tokens);
        let model = self.model.reading(max_tokens, &job.cache)?;
        let texts = Texts::read(shape, self.counter, max_tokens)?;
        (self.note)(&format!("{}: {} texts, {} tokens", shape.name, texts.texts.len(), texts.tokens()));
        let texts_path = self.scratch.join("texts.jsonl");
        write_texts(&texts_path, &texts.texts)?;
        let task = Task {
            model: &model,
            device: &job.device,
            threads: job.threads,
            cache: &job.cache,
            texts_path: &texts_path,
            texts: texts.texts.len(),
            tokens: texts.tokens(),
            scratch: self.scratch,
            deadline: job.deadline,
        };
        let mut failures = Failures::default();
        let mut seats = Vec::new();
        for engine in &job.engines {
            let seat =
                start(&job.programs, engine, job.threads, job.cancel).and_then(|worker| Seat::open(worker, &task));
            match seat {
                Ok(seat) => seats.push(seat),
                Err(error) => failures.push(engine, error, self.note)?,
            }
        }
        self.warm_up(&mut seats, &mut failures)?;
        let limits = self.passes(&mut seats, &mut failures)?;
        self.each(&mut seats, 0, &mut failures, Seat::weigh)?;
        Ok(ShapeRun {
            name: shape.name.clone(),
            texts: texts.texts.len(),
            tokens: texts.tokens(),
            max_tokens,
            flops: texts.lengths.iter().map(|&length| self.model.size.flops(length as u64)).sum(),
            limits,
            engines: seats.into_iter().map(Seat::close).collect(),
            failures: failures.into_vec(),
        })
    }

    /// One untimed pass each; the first engine's vectors are what the others' are compared with.
    fn warm_up(&self, seats: &mut Vec<Seat>, failures: &mut Failures) -> Result<()> {
        let mut first: Option<Matrix> = None;
        self.each(seats, 0, failures, |seat| {
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
    fn passes(&self, seats: &mut Vec<Seat>, failures: &mut Failures) -> Result<BTreeMap<String, Vec<f64>>> {
        let job = self.job;
        let mut dtypes: Vec<String> = seats.iter().map(|seat| seat.limited_by().to_owned()).collect();
        dtypes.sort();
        dtypes.dedup();
        let worker = start(&job.programs, LIMIT, job.threads, job.cancel);
        let limit = worker.map(|worker| Limit::new(worker, &job.device, job.threads, job.deadline));
        let mut limit = self.keep(limit, failures)?;
        for pass in 0..job.workload.repeats {
            (self.note)(&format!("pass {} of {}", pass + 1, job.workload.repeats));
            if let Some(one) = limit.as_mut() {
                let measured = dtypes.iter().try_for_each(|dtype| one.measure(dtype));
                if self.keep(measured, failures)?.is_none() {
                    limit = None;
                }
            }
            self.each(seats, pass, failures, Seat::measure)?;
        }
        let Some(mut limit) = limit else { return Ok(BTreeMap::new()) };
        let gflops = limit.take();
        limit.quit();
        Ok(gflops)
    }

    /// Without the limit a run has no shares, and all else.
    fn keep<T>(&self, result: Result<T>, failures: &mut Failures) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) => failures.push(LIMIT, error, self.note).map(|()| None),
        }
    }

    fn each(
        &self,
        seats: &mut Vec<Seat>,
        turn: usize,
        failures: &mut Failures,
        step: impl FnMut(&mut Seat) -> Result<()>,
    ) -> Result<()> {
        for (seat, error) in in_turn(seats, turn, step) {
            let engine = seat.engine().to_owned();
            drop(seat);
            failures.push(&engine, error, self.note)?;
        }
        Ok(())
    }
}

fn write_texts(path: &Path, texts: &[String]) -> Result<()> {
    let mut out = std::io::BufWriter::new(fs_err::File::create(path)?);
    for text in texts {
        serde_json::to_writer(&mut out, text).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}
