//! How speed, build time and memory grow with the number of vectors: `y = c n^e`, by least squares on logarithms.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::harness::{or, write_row};

/// A figure of an engine over several runs.
#[derive(Debug)]
struct Series {
    /// Engine and quantity.
    name: [String; 2],
    /// Vectors and value, by ascending number of vectors.
    points: Vec<(f64, f64)>,
    /// The exponent e.
    exponent: Option<f64>,
}

/// Several runs of one kind of data, as their `summary.json` describes them.
#[derive(Debug)]
pub struct Growth(Vec<Series>);

impl Growth {
    /// Queries per second at each recall, build time and memory as served, of every engine that the runs have in common by name.
    pub fn of(summaries: &[Value]) -> Self {
        let mut series: Vec<Series> = Vec::new();
        let mut add = |summary: &Value, engine: &str, quantity: String, value: &Value| {
            let (Some(n), Some(value)) = (summary["rows"].as_f64(), value.as_f64()) else { return };
            let name = [engine.to_owned(), quantity];
            let at = series.iter().position(|series| series.name == name).unwrap_or(series.len());
            if at == series.len() {
                series.push(Series { name, points: Vec::new(), exponent: None });
            }
            series[at].points.push((n, value));
        };
        for summary in summaries {
            for (engine, at) in summary["qps_at"].as_object().into_iter().flatten() {
                for (recall, qps) in at.as_object().into_iter().flatten() {
                    add(summary, engine, format!("qps at {recall}"), qps);
                }
            }
            for run in summary["engines"].as_array().into_iter().flatten() {
                for (quantity, field) in [("build s", "build_s"), ("served MB", "served_mb")] {
                    add(summary, run["engine"].as_str().unwrap_or_default(), quantity.to_owned(), &run[field]);
                }
            }
        }
        for Series { points, exponent, .. } in &mut series {
            points.sort_by(|left, right| left.0.total_cmp(&right.0));
            *exponent = slope(points);
        }
        series.sort_by(|left, right| left.name.cmp(&right.name));
        Self(series)
    }

    /// A row per engine and quantity.
    pub fn to_json(&self) -> Value {
        let row = |Series { name: [engine, quantity], points, exponent }: &Series| json!({ "engine": engine, "quantity": quantity, "points": points, "exponent": exponent });
        self.0.iter().map(row).collect()
    }
}

/// Slope of log y over log n; `None` of fewer than two different n, or of values that have no logarithm.
pub(super) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, y)| (n.ln(), y.ln())).collect();
    let mean = |of: fn(&(f64, f64)) -> f64| logs.iter().map(of).sum::<f64>() / logs.len() as f64;
    let (mean_x, mean_y) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = logs.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    let together: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    Some(together / spread).filter(|slope| slope.is_finite())
}

/// Prints one row per engine and quantity, one column per size.
pub fn write_growth(out: &mut impl Write, growth: &Growth) -> io::Result<()> {
    let mut sizes: Vec<f64> = growth.0.iter().flat_map(|series| &series.points).map(|point| point.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let headings = sizes.iter().map(|size| format!("n {size}")).chain(["exponent".to_owned()]);
    write_row(out, 28, &format!("{:<14}{}", "engine", "quantity"), headings)?;
    for Series { name: [engine, quantity], points, exponent } in &growth.0 {
        let at = |size: &f64| points.iter().find(|point| point.0.total_cmp(size).is_eq());
        let figures = sizes.iter().map(|size| or(at(size), "-", |point| format!("{:.1}", point.1)));
        let figures = figures.chain([or(*exponent, "-", |exponent| format!("{exponent:+.3}"))]);
        write_row(out, 28, &format!("{engine:<14}{quantity}"), figures)?;
    }
    writeln!(out, "exponent e: the quantity grows like n^e (least squares on logarithms)")
}
