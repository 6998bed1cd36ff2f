//! The order of a run: shape by shape, open, warm up, interleaved passes, memory.
//!
//! An engine that fails leaves its shape with its error; the others go on. Only an interrupt ends the run.

use std::path::Path;

use super::measured::{Measured, ShapeRun};
use super::pairs;
use super::seat::Seat;
use super::workload::{Job, Shape};
use crate::harness::{Party, Result, Seat as _, in_scratch, write_lines};

/// Runs a workload; `note` hears what is being done.
pub fn run(job: &Job<'_>, note: &dyn Fn(&str)) -> Result<Measured> {
    let workload = job.workload;
    let shapes = in_scratch(&job.cache, |scratch| {
        workload.shapes.iter().map(|shape| measure(job, shape, scratch, note)).collect::<Result<_>>()
    })?;
    Ok(Measured { conditions: job.conditions(&workload.name, &workload.model, workload.repeats)?, shapes })
}

fn measure(job: &Job<'_>, shape: &Shape, scratch: &Path, note: &dyn Fn(&str)) -> Result<ShapeRun> {
    let pairs_path = scratch.join("pairs.jsonl");
    write_lines(&pairs_path, &pairs::read(shape)?)?;
    note(&format!("{}: {} batches of {} pairs", shape.name, shape.batches, shape.batch));
    let mut party = Party::new(note);
    for engine in &job.engines {
        party.admit(engine, job.start(engine).and_then(|worker| Seat::open(worker, job, shape, &pairs_path)))?;
    }
    let mut first = None;
    party.each(0, |seat| {
        note(&format!("{}: warming up", seat.engine()));
        seat.warm_up()?;
        seat.compare(*first.get_or_insert(seat.tokens()))
    })?;
    let repeats = job.workload.repeats;
    for pass in 0..repeats {
        note(&format!("pass {} of {repeats}", pass + 1));
        party.each(pass, Seat::measure)?;
    }
    party.each(0, Seat::weigh)?;
    let (engines, failures) = party.close(Seat::close);
    Ok(ShapeRun {
        name: shape.name.clone(),
        batch: shape.batch,
        batches: shape.batches,
        tokens: first.unwrap_or(0),
        engines,
        failures,
    })
}
