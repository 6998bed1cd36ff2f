//! Recall against queries per second, on a log axis.

use plotters::prelude::*;

use super::style::{colour, heading};
use crate::ann::curve::{Curve, CurvePoint};
use crate::ann::measured::{Measured, Speed};

const SIZE: (u32, u32) = (900, 600);
/// Recall below this is of no use to anybody, and would press the rest together.
const LOWEST: f64 = 0.8;

struct Line {
    name: String,
    curve: Curve,
    /// Points of the curve that were measured: where curves of several engines cross, nothing was.
    marks: Vec<CurvePoint>,
    colour: RGBColor,
}

/// One curve per name asked for; nothing where no curve has a point.
pub(super) fn draw(measured: &Measured, threaded: bool) -> Result<Option<String>, String> {
    let curves: Vec<Line> = measured
        .asked
        .iter()
        .filter_map(|asked| measured.family(asked))
        .map(|family| {
            let (curve, speed) =
                if threaded { (family.threaded, Speed::AllThreads) } else { (family.curve, Speed::Median) };
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
    let title = heading(measured, &format!("recall@{} against queries per second, {threads}", measured.k));
    let drawn = plot(&mut svg, &title, &curves, (left, low, high), measured.k);
    drawn.map_err(|error| error.to_string())?;
    Ok(Some(svg))
}

type Drawn = Result<(), Box<dyn std::error::Error>>;

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
