//! The order of a run: shape by shape, open, warm up, interleaved passes, memory.
//!
//! An engine that fails leaves its shape with its error; the others go on. Only an interrupt ends the run.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::engines::start;
use super::measured::{Measured, ShapeRun};
use super::pairs;
use super::seat::{Seat, Task};
use super::workload::{Shape, Workload};
use crate::harness::{Failures, Programs, Result, in_turn, machine, stamp};

/// A run to be done.
#[derive(Debug)]
pub struct Job<'a> {
    /// What to measure.
    pub workload: &'a Workload,
    /// Engines in order; losses are compared with the first one's.
    pub engines: Vec<String>,
    /// `cpu`, `cuda` or `cuda:N`.
    pub device: String,
    /// Threads of every engine.
    pub threads: usize,
    /// Where the programs are.
    pub programs: Programs,
    /// Scratch files.
    pub cache: PathBuf,
    /// For each answer of a worker.
    pub deadline: Duration,
    /// Turns true when the run is to end.
    pub cancel: &'static AtomicBool,
}

/// Runs a workload; `note` hears what is being done.
pub fn run(job: &Job<'_>, note: &dyn Fn(&str)) -> Result<Measured> {
    let workload = job.workload;
    let scratch = job.cache.join(format!("scratch-{}", std::process::id()));
    fs_err::create_dir_all(&scratch)?;
    let scratch = fs_err::canonicalize(scratch)?;
    let party = Party { job, note, scratch: &scratch };
    let shapes: Result<Vec<ShapeRun>> = workload.shapes.iter().map(|shape| party.measure(shape)).collect();
    fs_err::remove_dir_all(&scratch)?;
    let name = fs_err::canonicalize(&workload.model)?;
    let name = name.file_name().unwrap_or(name.as_os_str()).to_string_lossy().into_owned();
    Ok(Measured {
        workload: workload.name.clone(),
        model: name,
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
    note: &'a dyn Fn(&str),
    scratch: &'a Path,
}

impl Party<'_> {
    fn measure(&self, shape: &Shape) -> Result<ShapeRun> {
        let (job, note) = (self.job, self.note);
        let pairs_path = self.scratch.join("pairs.jsonl");
        pairs::write(&pairs_path, &pairs::read(shape)?)?;
        let task = Task {
            workload: job.workload,
            shape,
            device: &job.device,
            threads: job.threads,
            pairs_path: &pairs_path,
            deadline: job.deadline,
        };
        note(&format!("{}: {} batches of {} pairs", shape.name, shape.batches, shape.batch));
        let mut failures = Failures::default();
        let mut seats = Vec::new();
        for engine in &job.engines {
            let worker = start(&job.programs, engine, job.threads, job.cancel);
            match worker.and_then(|worker| Seat::open(worker, &task)) {
                Ok(seat) => seats.push(seat),
                Err(error) => failures.push(engine, error, note)?,
            }
        }
        let mut first = None;
        self.each(&mut seats, 0, &mut failures, |seat| {
            note(&format!("{}: warming up", seat.engine()));
            seat.warm_up()?;
            seat.compare(*first.get_or_insert(seat.tokens()))
        })?;
        for pass in 0..job.workload.repeats {
            note(&format!("pass {} of {}", pass + 1, job.workload.repeats));
            self.each(&mut seats, pass, &mut failures, Seat::measure)?;
        }
        self.each(&mut seats, 0, &mut failures, Seat::weigh)?;
        Ok(ShapeRun {
            name: shape.name.clone(),
            batch: shape.batch,
            batches: shape.batches,
            tokens: first.unwrap_or(0),
            engines: seats.into_iter().map(Seat::close).collect(),
            failures: failures.into_vec(),
        })
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
