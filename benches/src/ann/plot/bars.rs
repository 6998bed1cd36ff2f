//! One bar per engine: build time, memory. A pale bar with a star is of an index kept from an earlier run.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::style::{colour, heading};
use crate::ann::measured::{EngineRun, Measured};

const WIDTH: u32 = 900;
const BAR: u32 = 34;

struct Bar<'a> {
    name: &'a str,
    value: f64,
    colour: RGBColor,
    /// Measured in an earlier run.
    earlier: bool,
}

/// Build seconds.
pub(super) fn build(measured: &Measured) -> Result<Option<String>, String> {
    let star = if measured.engines.iter().any(|run| run.reused) { "; * in an earlier run" } else { "" };
    let title = heading(measured, &format!("build time, {} threads (s){star}", measured.threads));
    bars(measured, &title, |run| (run.index.built.build_s, run.reused))
}

/// Resident megabytes right after the full-precision vectors were dropped.
pub(super) fn memory_cold(measured: &Measured) -> Result<Option<String>, String> {
    let title = heading(measured, "resident memory, full-precision vectors cold, without the empty process (MB)");
    bars(measured, &title, |run| (run.memory.map_or(0.0, |memory| memory.serving_bytes() as f64 / 1e6), false))
}

/// The same after one more pass.
pub(super) fn memory_served(measured: &Measured) -> Result<Option<String>, String> {
    let title =
        heading(measured, "resident memory after one more pass over the queries, without the empty process (MB)");
    bars(measured, &title, |run| (run.memory.map_or(0.0, |memory| memory.served_bytes() as f64 / 1e6), false))
}

fn bars(measured: &Measured, title: &str, value: fn(&EngineRun) -> (f64, bool)) -> Result<Option<String>, String> {
    let bars: Vec<Bar<'_>> = measured
        .engines
        .iter()
        .map(|run| (run.described.engine.as_str(), value(run)))
        .filter(|(_, (value, _))| *value > 0.0)
        .map(|(name, (value, earlier))| Bar { name, value, colour: colour(measured, name), earlier })
        .collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    draw(&mut svg, title, &bars).map_err(|error| error.to_string())?;
    Ok(Some(svg))
}

fn draw(svg: &mut String, title: &str, bars: &[Bar<'_>]) -> Result<(), Box<dyn std::error::Error>> {
    let (top, left, right) = (48, 150, 90);
    let height = top + BAR * bars.len() as u32 + 16;
    let root = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let middle = Pos::new(HPos::Left, VPos::Center);
    let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK).pos(middle);
    root.draw(&Text::new(title.to_owned(), (16, 24), text(18)))?;
    let longest = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let room = f64::from(WIDTH - left - right);
    for (at, Bar { name, value, colour, earlier }) in bars.iter().enumerate() {
        let y = (top + BAR * at as u32) as i32;
        let end = left as i32 + (room * value / longest).round().max(1.0) as i32;
        let (fill, star) = if *earlier { (colour.mix(0.4).filled(), "*") } else { (colour.filled(), "") };
        root.draw(&Rectangle::new([(left as i32, y + 5), (end, y + BAR as i32 - 5)], fill))?;
        root.draw(&Text::new((*name).to_owned(), (16, y + BAR as i32 / 2), text(15)))?;
        root.draw(&Text::new(format!("{value:.1}{star}"), (end + 8, y + BAR as i32 / 2), text(15)))?;
    }
    root.present()?;
    Ok(())
}
