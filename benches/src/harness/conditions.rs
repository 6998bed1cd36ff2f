//! The conditions of a run: what was measured, where and when.

use serde::Serialize;

use super::csv::field;
use super::machine::{Machine, Stamp};
use super::programs::OURS;

/// What was measured, where and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Conditions {
    /// The workload's name.
    pub workload: String,
    /// The model directory's name.
    pub model: String,
    /// Where the engines computed.
    pub device: String,
    /// Threads of every engine.
    pub threads: usize,
    /// Timed passes.
    pub repeats: usize,
    /// Engines asked for.
    pub asked: Vec<String>,
    /// Where.
    pub machine: Machine,
    /// When, and of which source.
    pub stamp: Stamp,
}

impl Conditions {
    /// Headings of the columns that a record begins with.
    pub const HEADINGS: &'static str = "date,revision,workload,model,device,threads";

    /// These columns.
    pub fn columns(&self) -> String {
        let Self { workload, device, threads, stamp: Stamp { date, revision, .. }, .. } = self;
        format!("{date},{revision},{workload},{},{device},{threads}", field(&self.model))
    }

    /// The first line of a table for people.
    pub fn heading(&self) -> String {
        let Self { workload, model, device, threads, repeats, machine: Machine { cpu, .. }, .. } = self;
        format!("{workload}: {model} on {device}, {threads} threads, {repeats} repeats, {cpu}")
    }

    /// Characters of the column of engines in such a table.
    pub fn width(&self) -> usize {
        self.asked.iter().map(String::len).max().unwrap_or(0).max(OURS.len()) + 2
    }

    /// Engines that were asked for and failed somewhere, as `engine at shape`, from names and failures of shapes.
    pub fn failed<'a>(&self, shapes: impl Iterator<Item = (&'a String, &'a Vec<(String, String)>)>) -> Vec<String> {
        let all = shapes.flat_map(|(shape, failures)| failures.iter().map(move |(engine, _)| (shape, engine)));
        all.filter(|(_, engine)| self.asked.contains(engine))
            .map(|(shape, engine)| format!("{engine} at {shape}"))
            .collect()
    }
}
