//! What every command that measures writes about its run.

use std::io::{self, Write};

use serde_json::Value;

use super::table::FigureRow;

/// What a run has measured, in the forms in which it is written.
pub trait Measurement {
    /// What the names of its records begin with: workload, day and revision.
    fn record_name(&self) -> String;
    /// `summary.json`: all figures, unrounded, and what they are figures of.
    fn summary(&self) -> Value;
    /// Names of CSV files and their rows, for later runs to be compared with.
    fn files(&self) -> Vec<(&'static str, Vec<FigureRow>)>;
    /// Writes the figures for people.
    fn write_table(&self, out: &mut dyn Write) -> io::Result<()>;
    /// Engines that were asked for and failed.
    fn failed(&self) -> Vec<String> {
        Vec::new()
    }
}
