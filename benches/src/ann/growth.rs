//! How speed and build time grow with the number of vectors: `y = c n^e`, by least squares on logarithms.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::measured::{Asked, EngineRun, Measured, MemoryOverTime, Speed};
use crate::harness::{or, write_row};

/// One quantity of one engine (or of a name that stands for several) over several sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Series {
    pub(super) engine: String,
    /// What grows.
    pub(super) quantity: String,
    /// Vectors and value, by ascending number of vectors.
    pub(super) points: Vec<(usize, f64)>,
    /// The exponent e; `None` of fewer than two sizes.
    pub(super) exponent: Option<f64>,
}

/// Several runs of one kind of data.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    workloads: Vec<String>,
    pub(super) series: Vec<Series>,
}

impl Growth {
    /// Follows queries per second at each target, build time and memory (vectors cold, and after a pass) of every engine through the runs.
    pub fn of(runs: &[Measured]) -> Self {
        let mut runs: Vec<&Measured> = runs.iter().collect();
        runs.sort_by_key(|run| run.rows);
        let mut names: Vec<&Asked> = Vec::new();
        for asked in runs.iter().flat_map(|run| &run.asked) {
            if !names.contains(&asked) {
                names.push(asked);
            }
        }
        let mut series = Vec::new();
        let mut follow = |engine: &str, quantity: String, value: &dyn Fn(&Measured) -> Option<f64>| {
            let points: Vec<_> = runs.iter().filter_map(|run| Some((run.rows, value(run)?))).collect();
            if !points.is_empty() {
                let exponent = exponent(&points);
                series.push(Series { engine: engine.to_owned(), quantity, points, exponent });
            }
        };
        let targets = runs.first().map_or(Vec::new(), |run| run.targets.clone());
        for asked in names {
            let name = asked.name.as_str();
            for &target in &targets {
                follow(name, format!("qps at {target}"), &|run| {
                    run.curve(&run.family(asked)?.members, Speed::Median).qps_at(target).ok()
                });
            }
            let of_one = |run: &Measured, value: &dyn Fn(&EngineRun) -> Option<f64>| {
                value(run.representative(&run.family(asked)?.members)?)
            };
            follow(name, "build s".to_owned(), &|run| of_one(run, &|run| Some(run.index.built.build_s)));
            for (quantity, bytes) in
                [("cold MB", MemoryOverTime::serving_bytes as fn(&_) -> _), ("served MB", MemoryOverTime::served_bytes)]
            {
                follow(name, quantity.to_owned(), &|run| of_one(run, &|run| run.megabytes(bytes)));
            }
        }
        Self { workloads: runs.iter().map(|run| run.workload.clone()).collect(), series }
    }

    /// Everything as JSON; exponents also by engine and quantity.
    pub fn to_json(&self) -> Value {
        let mut exponents = Map::new();
        for series in &self.series {
            let of_engine = exponents.entry(series.engine.clone()).or_insert_with(|| json!({}));
            of_engine[&series.quantity] = json!(series.exponent);
        }
        json!({ "workloads": self.workloads, "exponents": exponents, "series": self.series })
    }
}

/// Slope of log y over log n; `None` of fewer than two different n, or of values that have no logarithm.
pub(super) fn exponent(points: &[(usize, f64)]) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points.iter().map(|(n, y)| ((*n as f64).ln(), y.ln())).collect();
    let count = logs.len() as f64;
    let (mean_x, mean_y) =
        (logs.iter().map(|(x, _)| x).sum::<f64>() / count, logs.iter().map(|(_, y)| y).sum::<f64>() / count);
    let spread: f64 = logs.iter().map(|(x, _)| (x - mean_x) * (x - mean_x)).sum();
    let together: f64 = logs.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let slope = together / spread;
    slope.is_finite().then_some(slope)
}

/// Prints one row per series, one column per size.
pub fn write_growth(out: &mut impl Write, growth: &Growth) -> io::Result<()> {
    let mut sizes: Vec<usize> = growth.series.iter().flat_map(|series| &series.points).map(|(n, _)| *n).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let row = |out: &mut _, [engine, quantity]: [&str; 2], figures: Vec<String>| {
        write_row(out, 28, &format!("{engine:<14}{quantity}"), figures)
    };
    let headings = sizes.iter().map(|size| format!("n {size}")).chain(["exponent".to_owned()]);
    row(out, ["engine", "quantity"], headings.collect())?;
    for series in &growth.series {
        let at = |size: &usize| series.points.iter().find(|(n, _)| n == size);
        let mut figures: Vec<String> =
            sizes.iter().map(|size| or(at(size), "-", |(_, value)| format!("{value:.1}"))).collect();
        figures.push(or(series.exponent, "-", |exponent| format!("{exponent:+.3}")));
        row(out, [&series.engine, &series.quantity], figures)?;
    }
    writeln!(out, "exponent e: the quantity grows like n^e (least squares on logarithms)")
}
