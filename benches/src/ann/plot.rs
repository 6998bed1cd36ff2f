//! SVG plots of a run: recall against queries per second on a log axis, and a bar per engine for build time and memory.
//!
//! Text is left to the viewer's own sans-serif font, so that drawing needs no font system.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::measured::{EngineRun, Measured, Speed};
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

const SIZE: (u32, u32) = (900, 600);
/// Recall below this is of no use to anybody, and would press the rest together.
const LOWEST: f64 = 0.8;
/// Height of a bar and the space around it.
const BAR: u32 = 34;

type Plotted<T = ()> = std::result::Result<T, Box<dyn StdError>>;

/// Writes `recall-qps.svg`, `recall-qps-all-threads.svg`, `build.svg` and `memory.svg`; returns their paths. What was not measured is not
/// plotted.
pub fn write_plots(dir: &Path, measured: &Measured) -> Result<Vec<PathBuf>> {
    let star = if measured.engines.iter().any(|run| run.reused) { "; * in an earlier run" } else { "" };
    let build = format!("build time, {} threads (s){star}", measured.threads);
    let memory = "resident memory after all searches, less the empty process (MB)";
    let served = |run: &EngineRun| (run.megabytes(|memory| memory.served).unwrap_or(0.0), false);
    let plots = [
        ("recall-qps.svg", recall(measured, Speed::Batch)),
        ("recall-qps-all-threads.svg", recall(measured, Speed::BatchAllThreads)),
        ("build.svg", bars(measured, &build, |run| (run.index.built.build_s, run.reused))),
        ("memory.svg", bars(measured, memory, served)),
    ];
    let mut paths = Vec::new();
    for (name, drawing) in plots {
        let path = dir.join(name);
        if let Some(svg) = drawing.map_err(|problem| Error::file(&path, problem))? {
            fs_err::write(&path, svg)?;
            paths.push(path);
        }
    }
    Ok(paths)
}

/// The colour of an engine, the same in all plots.
fn colour(measured: &Measured, engine: &str) -> RGBColor {
    let before = measured.engines.iter().take_while(|run| run.described.engine != engine).count();
    COLOURS[before % COLOURS.len()]
}

/// A curve per engine, with its measured points; nothing where no curve has a point.
fn recall(measured: &Measured, speed: Speed) -> Plotted<Option<String>> {
    let curves = measured.engines.iter().map(|run| (run.described.engine.as_str(), measured.curve(run, speed).0));
    let mut curves: Vec<(&str, Vec<(f64, f64)>)> = curves.filter(|(_, points)| !points.is_empty()).collect();
    let recalls = || curves.iter().flat_map(|(_, points)| points).map(|point| point.0);
    let left = recalls().fold(1.0, f64::min).max(LOWEST.min(recalls().fold(0.0, f64::max) - 0.01));
    for (_, points) in &mut curves {
        points.retain(|point| point.0 >= left);
    }
    let speeds = || curves.iter().flat_map(|(_, points)| points).map(|point| point.1);
    let (low, high) = (speeds().fold(f64::INFINITY, f64::min), speeds().fold(0.0, f64::max));
    if high <= 0.0 {
        return Ok(None);
    }
    let (workload, k) = (&measured.workload, measured.k);
    let threads = if speed == Speed::Batch { "one thread".to_owned() } else { format!("{} threads", measured.threads) };
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(format!("{workload}: recall@{k} against queries per second in batches, {threads}"), ("sans-serif", 18))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(80)
        .build_cartesian_2d(left..1.0, (low / 1.3..high * 1.3).log_scale())?;
    chart
        .configure_mesh()
        .x_desc(format!("recall@{k}"))
        .y_desc("queries per second (log)")
        .x_label_formatter(&|recall| format!("{recall:.3}"))
        .y_label_formatter(&|qps| format!("{qps:.0}"))
        .light_line_style(WHITE)
        .draw()?;
    for (name, points) in curves {
        let colour = colour(measured, name);
        let style = ShapeStyle::from(&colour).stroke_width(2);
        chart
            .draw_series(LineSeries::new(points.iter().copied(), style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart.draw_series(points.into_iter().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    drop(chart);
    drop(root);
    Ok(Some(svg))
}

/// A bar per engine, of a value; a pale one with a star where that was measured in an earlier run.
fn bars(measured: &Measured, what: &str, value: impl Fn(&EngineRun) -> (f64, bool)) -> Plotted<Option<String>> {
    let all = measured.engines.iter().map(|run| (run.described.engine.as_str(), value(run)));
    let bars: Vec<(&str, (f64, bool))> = all.filter(|(_, (value, _))| *value > 0.0).collect();
    if bars.is_empty() {
        return Ok(None);
    }
    let mut svg = String::new();
    let (top, left, right) = (48, 150, 90);
    let height = top + BAR * bars.len() as u32 + 16;
    let root = SVGBackend::with_string(&mut svg, (SIZE.0, height)).into_drawing_area();
    root.fill(&WHITE)?;
    let middle = Pos::new(HPos::Left, VPos::Center);
    let text = |size: i32| ("sans-serif", size).into_font().color(&BLACK).pos(middle);
    root.draw(&Text::new(format!("{}: {what}", measured.workload), (16, 24), text(18)))?;
    let longest = bars.iter().map(|(_, (value, _))| *value).fold(0.0, f64::max);
    let room = f64::from(SIZE.0 - left - right);
    for (at, &(name, (value, earlier))) in bars.iter().enumerate() {
        let (y, colour) = ((top + BAR * at as u32) as i32, colour(measured, name));
        let end = left as i32 + (room * value / longest).round().max(1.0) as i32;
        let (fill, star) = if earlier { (colour.mix(0.4).filled(), "*") } else { (colour.filled(), "") };
        root.draw(&Rectangle::new([(left as i32, y + 5), (end, y + BAR as i32 - 5)], fill))?;
        root.draw(&Text::new(name.to_owned(), (16, y + BAR as i32 / 2), text(15)))?;
        root.draw(&Text::new(format!("{value:.1}{star}"), (end + 8, y + BAR as i32 / 2), text(15)))?;
    }
    root.present()?;
    drop(root);
    Ok(Some(svg))
}
