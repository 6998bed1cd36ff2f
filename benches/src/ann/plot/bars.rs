//! One bar per engine: build time, memory.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{colour, heading};
use crate::ann::measured::{EngineRun, Measured};

const WIDTH: u32 = 900;
const BAR: u32 = 34;

struct Bar<'a> {
    name: &'a str,
    value: f64,
    colour: RGBColor,
}

/// Build seconds.
pub(super) fn build(measured: &Measured) -> Result<Option<String>, String> {
    let title = heading(measured, &format!("build time, {} threads (s)", measured.threads));
    bars(measured, &title, |run| run.index.built.build_s)
}

/// Resident megabytes while serving.
pub(super) fn memory(measured: &Measured) -> Result<Option<String>, String> {
    let title = heading(measured, "resident memory while serving, without the empty process (MB)");
    bars(measured, &title, |run| run.memory.map_or(0.0, |memory| memory.serving_bytes() as f64 / 1e6))
}

fn bars(measured: &Measured, title: &str, value: fn(&EngineRun) -> f64) -> Result<Option<String>, String> {
    let bars: Vec<Bar<'_>> = measured
        .engines
        .iter()
        .map(|run| (run.described.engine.as_str(), value(run)))
        .filter(|(_, value)| *value > 0.0)
        .map(|(name, value)| Bar { name, value, colour: colour(measured, name) })
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
    for (at, Bar { name, value, colour }) in bars.iter().enumerate() {
        let y = (top + BAR * at as u32) as i32;
        let end = left as i32 + (room * value / longest).round().max(1.0) as i32;
        root.draw(&Rectangle::new([(left as i32, y + 5), (end, y + BAR as i32 - 5)], colour.filled()))?;
        root.draw(&Text::new((*name).to_owned(), (16, y + BAR as i32 / 2), text(15)))?;
        root.draw(&Text::new(format!("{value:.1}"), (end + 8, y + BAR as i32 / 2), text(15)))?;
    }
    root.present()?;
    Ok(())
}
