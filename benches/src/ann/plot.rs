//! SVG plots of a run: recall against queries per second in batches, on a log axis.
//!
//! Text is left to the viewer's own sans-serif font, so that drawing needs no font system.

use std::error::Error as StdError;
use std::path::Path;

use plotters::prelude::*;

use super::measured::{AnnMeasurement, SpeedKind};
use crate::error::{BenchError, BenchResult};

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

/// Writes `recall-qps.svg` and `recall-qps-all-threads.svg`; what was not measured is not plotted.
pub fn write_plots(dir: &Path, measured: &AnnMeasurement) -> BenchResult<()> {
    for (name, speed) in [
        ("recall-qps.svg", SpeedKind::Batch),
        ("recall-qps-all-threads.svg", SpeedKind::BatchAllThreads),
    ] {
        let path = dir.join(name);
        if let Some(svg) = recall(measured, speed).map_err(|problem| BenchError::file(&path, problem))? {
            fs_err::write(&path, svg)?;
        }
    }
    Ok(())
}

/// A curve per engine, with its measured points; nothing where no curve has a point.
fn recall(measured: &AnnMeasurement, speed: SpeedKind) -> Result<Option<String>, Box<dyn StdError>> {
    // The colour of an engine is the same in all plots.
    let curves = measured.engines.iter().zip(COLOURS.into_iter().cycle());
    let curves = curves.map(|(run, colour)| (run.described.engine.as_str(), colour, measured.curve(run, speed).0));
    let mut curves: Vec<_> = curves.filter(|(.., points)| !points.is_empty()).collect();
    let recalls = || curves.iter().flat_map(|(.., points)| points).map(|point| point.0);
    let left = recalls()
        .fold(1.0, f64::min)
        .max(LOWEST.min(recalls().fold(0.0, f64::max) - 0.01));
    for (.., points) in &mut curves {
        points.retain(|point| point.0 >= left);
    }
    let speeds = || curves.iter().flat_map(|(.., points)| points).map(|point| point.1);
    let (low, high) = (speeds().fold(f64::INFINITY, f64::min), speeds().fold(0.0, f64::max));
    if high <= 0.0 {
        return Ok(None);
    }
    let (workload, k) = (&measured.workload.name, measured.workload.k);
    let threads = if speed == SpeedKind::Batch {
        "one thread".to_owned()
    } else {
        format!("{} threads", measured.workload.threads)
    };
    let mut svg = String::new();
    let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            format!("{workload}: recall@{k} against queries per second in batches, {threads}"),
            ("sans-serif", 18),
        )
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
    for (name, colour, points) in curves {
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
