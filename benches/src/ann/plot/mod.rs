//! SVG plots of a run.
//!
//! | file | what lives there |
//! |---|---|
//! | `recall.rs` | recall against queries per second, on a log axis |
//! | `bars.rs` | build time, memory |
//! | `style.rs` | colours and headings |
//!
//! Text is left to the viewer's own sans-serif font, so that drawing needs no font system.

mod bars;
mod recall;
mod style;

use std::path::{Path, PathBuf};

use super::measured::Measured;
use crate::harness::{Error, Result};

/// Writes `recall-qps.svg`, `recall-qps-all-threads.svg`, `build.svg`, `memory.svg` (vectors cold) and `memory-served.svg`; returns their paths.
pub fn write_plots(dir: &Path, measured: &Measured) -> Result<Vec<PathBuf>> {
    let plots = [
        ("recall-qps.svg", recall::draw(measured, false)),
        ("recall-qps-all-threads.svg", recall::draw(measured, true)),
        ("build.svg", bars::build(measured)),
        ("memory.svg", bars::memory_cold(measured)),
        ("memory-served.svg", bars::memory_served(measured)),
    ];
    let mut paths = Vec::new();
    for (name, drawing) in plots {
        let path = dir.join(name);
        let drawing = drawing.map_err(|problem| Error::Plot { path: path.clone(), problem })?;
        if let Some(svg) = drawing {
            fs_err::write(&path, svg)?;
            paths.push(path);
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests;
