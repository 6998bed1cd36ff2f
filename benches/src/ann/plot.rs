//! SVG plots of a run: recall against queries per second on a log axis, and a bar per engine for build time and memory.
//!
//! Text is left to the viewer's own sans-serif font, so that drawing needs no font system.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::curve::{Curve, CurvePoint};
use super::measured::{EngineRun, Measured, MemoryOverTime, Speed};
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

type Drawn<T = ()> = std::result::Result<T, Box<dyn StdError>>;

/// Writes `recall-qps.svg`, `recall-qps-all-threads.svg`, `build.svg`, `memory.svg` (vectors cold) and `memory-served.svg`; returns their
/// paths. What was not measured is not plotted.
pub fn write_plots(dir: &Path, measured: &Measured) -> Result<Vec<PathBuf>> {
    let star = if measured.engines.iter().any(|run| run.reused) { "; * in an earlier run" } else { "" };
    let build = format!("build time, {} threads (s){star}", measured.threads);
    let memory = |when: &str| format!("resident memory, {when}, without the empty process (MB)");
    let megabytes = |run: &EngineRun, bytes| run.megabytes(bytes).unwrap_or(0.0);
    let plots = [
        ("recall-qps.svg", recall(measured, Speed::Median)),
        ("recall-qps-all-threads.svg", recall(measured, Speed::AllThreads)),
        ("build.svg", bars(measured, &build, |run| (run.index.built.build_s, run.reused))),
        (
            "memory.svg",
            bars(measured, &memory("full-precision vectors cold"), |run| {
                (megabytes(run, MemoryOverTime::serving_bytes), false)
            }),
        ),
        (
            "memory-served.svg",
            bars(measured, &memory("after one more pass over the queries"), |run| {
                (megabytes(run, MemoryOverTime::served_bytes), false)
            }),
        ),
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

/// The colour of an engine: in all plots that of the name by which it was asked for.
fn colour(measured: &Measured, engine: &str) -> RGBColor {
    let asked = measured.asked.iter();
    let at = asked.map(|asked| asked.name == engine || asked.members.iter().any(|member| member == engine));
    COLOURS[at.take_while(|found| !found).count() % COLOURS.len()]
}

struct Line {
    name: String,
    curve: Curve,
    /// Points of the curve that were measured: where curves of several engines cross, nothing was.
    marks: Vec<CurvePoint>,
    colour: RGBColor,
}

/// One curve per name asked for; nothing where no curve has a point.
fn recall(measured: &Measured, speed: Speed) -> Drawn<Option<String>> {
    let threaded = speed == Speed::AllThreads;
    let curves: Vec<Line> = measured
        .asked
        .iter()
        .filter_map(|asked| measured.family(asked))
        .map(|family| {
            let curve = measured.curve(&family.members, speed);
            let own = |name| measured.curve(std::slice::from_ref(name), speed).points().to_vec();
            let mut marks: Vec<CurvePoint> = family.members.iter().flat_map(own).collect();
            let same = |one: &CurvePoint, other: &CurvePoint| {
                one.recall.total_cmp(&other.recall).is_eq() && (one.qps - other.qps).abs() <= 1e-9 * one.qps
            };
            marks.retain(|point| curve.points().iter().any(|kept| same(point, kept)));
            Line { colour: colour(measured, &family.name), name: family.name, curve, marks }
        })
        .filter(|line| !line.curve.points().is_empty())
        .collect();
    let all = || curves.iter().flat_map(|line| line.curve.points());
    let recalls = || all().map(|point| point.recall);
    let left = recalls().fold(1.0, f64::min).max(LOWEST.min(recalls().fold(0.0, f64::max) - 0.01));
    let shown = || all().filter(|point| point.recall >= left).map(|point| point.qps);
    let (low, high) = (shown().fold(f64::INFINITY, f64::min), shown().fold(0.0, f64::max));
    if high <= 0.0 {
        return Ok(None);
    }
    let mut svg = String::new();
    let threads = if threaded { format!("{} threads", measured.threads) } else { "one thread".to_owned() };
    let title = format!("{}: recall@{} against queries per second, {threads}", measured.workload, measured.k);
    plot(&mut svg, &title, &curves, (left, low, high), measured.k)?;
    Ok(Some(svg))
}

fn plot(svg: &mut String, title: &str, curves: &[Line], (left, low, high): (f64, f64, f64), k: usize) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, ("sans-serif", 18))
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
    for Line { name, curve, marks, colour } in curves {
        let style = ShapeStyle::from(colour).stroke_width(2);
        let shown = |point: &&CurvePoint| point.recall >= left;
        let points = curve.points().iter().filter(shown).map(|point| (point.recall, point.qps));
        let marks = marks.iter().filter(shown).map(|point| (point.recall, point.qps));
        chart
            .draw_series(LineSeries::new(points, style))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        chart.draw_series(marks.map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A bar per engine, of a value; a pale one with a star where that was measured in an earlier run.
fn bars(measured: &Measured, what: &str, value: impl Fn(&EngineRun) -> (f64, bool)) -> Drawn<Option<String>> {
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
