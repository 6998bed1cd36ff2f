//! SVG plots of a run.
//!
//! | file | what lives there |
//! |---|---|
//! | `recall.rs` | recall against queries per second, on a log axis |
//! | `bars.rs` | build time, memory |
//!
//! Text is left to the viewer's own sans-serif font, so that drawing needs no font system.

mod bars;
mod recall;

use std::path::{Path, PathBuf};

use plotters::style::RGBColor;

use super::measured::Measured;
use crate::harness::{Error, Result};

/// Colours that also differ for the colour-blind (Okabe and Ito 2008), the first for our own engine.
const COLOURS: [RGBColor; 8] = [
    RGBColor(213, 94, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(120, 120, 120),
    RGBColor(0, 0, 0),
];

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

/// The colour of an engine: in all plots that of the name by which it was asked for.
fn colour(measured: &Measured, engine: &str) -> RGBColor {
    let asked = measured.asked.iter();
    let at = asked.map(|asked| asked.name == engine || asked.members.iter().any(|member| member == engine));
    COLOURS[at.take_while(|found| !found).count() % COLOURS.len()]
}

fn heading(measured: &Measured, what: &str) -> String {
    format!("{}: {what}", measured.workload)
}

#[cfg(test)]
mod tests;
