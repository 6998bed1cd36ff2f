//! How speed and build time grow with the number of vectors: `y = c n^e`, by least squares on logarithms.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::measured::{Asked, EngineRun, Measured, MemoryOverTime};

/// One quantity of one engine over several sizes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The engine, or a name that stands for several.
    pub engine: String,
    /// What grows.
    pub quantity: String,
    /// Vectors and value, by ascending number of vectors.
    pub points: Vec<(usize, f64)>,
    /// The exponent e; `None` of fewer than two sizes.
    pub exponent: Option<f64>,
}

/// Several runs of one kind of data.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    /// Names of the workloads.
    pub workloads: Vec<String>,
    /// Everything that was followed.
    pub series: Vec<Series>,
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
                follow(name, format!("qps at {target}"), &|run| run.family(asked)?.curve.qps_at(target).ok());
            }
            let of_one = |run: &Measured, value: fn(&EngineRun) -> Option<f64>| {
                value(run.representative(&run.family(asked)?.members)?)
            };
            follow(name, "build s".to_owned(), &|run| of_one(run, |run| Some(run.index.built.build_s)));
            follow(name, "cold MB".to_owned(), &|run| of_one(run, |run| megabytes(run, MemoryOverTime::serving_bytes)));
            follow(name, "served MB".to_owned(), &|run| {
                of_one(run, |run| megabytes(run, MemoryOverTime::served_bytes))
            });
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

fn megabytes(run: &EngineRun, bytes: fn(&MemoryOverTime) -> u64) -> Option<f64> {
    Some(bytes(run.memory.as_ref()?) as f64 / 1e6)
}

/// Slope of log y over log n; `None` of fewer than two different n, or of values that have no logarithm.
fn exponent(points: &[(usize, f64)]) -> Option<f64> {
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
    write!(out, "{:<14}{:<14}", "engine", "quantity")?;
    for size in &sizes {
        write!(out, "{:>12}", format!("n {size}"))?;
    }
    writeln!(out, "{:>12}", "exponent")?;
    for series in &growth.series {
        write!(out, "{:<14}{:<14}", series.engine, series.quantity)?;
        for size in &sizes {
            let value = series.points.iter().find(|(n, _)| n == size).map(|(_, value)| format!("{value:.1}"));
            write!(out, "{:>12}", value.unwrap_or_else(|| "-".to_owned()))?;
        }
        let exponent = series.exponent.map_or_else(|| "-".to_owned(), |exponent| format!("{exponent:+.3}"));
        writeln!(out, "{exponent:>12}")?;
    }
    writeln!(out, "exponent e: the quantity grows like n^e (least squares on logarithms)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ann::fixture;

    #[test]
    fn a_family_is_followed_through_its_fastest_member() {
        let mut measured = fixture::measured();
        let members = ["slow", "fast"].map(str::to_owned).to_vec();
        measured.asked = vec![Asked { name: "family".to_owned(), members }];
        measured.engines = vec![
            fixture::engine("slow", &[(0.94, 1.0), (0.99, 10.0)], 7.0, 30),
            fixture::engine("fast", &[(0.94, 0.1), (0.99, 1.0)], 3.0, 8),
        ];
        let growth = Growth::of(&[measured]);
        let at = |quantity: &str| {
            let series = growth.series.iter().find(|series| series.quantity == quantity).unwrap();
            (series.points[0].0, series.points[0].1.round())
        };
        assert_eq!((at("build s"), at("cold MB"), at("served MB")), ((1_000, 3.0), (1_000, 8.0), (1_000, 10.0)));
    }

    #[test]
    fn a_power_law_is_found_again() {
        let law = |n: usize| (n, 3.0 * (n as f64).powf(-0.25));
        assert!((exponent(&[law(100_000), law(300_000), law(1_000_000)]).unwrap() + 0.25).abs() < 1e-12);
    }

    #[test]
    fn the_fit_is_the_one_of_least_squares() {
        // log10: x = 0, 1, 2 and y = 0, 1, 1: the slope is 1/2.
        assert!((exponent(&[(1, 1.0), (10, 10.0), (100, 10.0)]).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn too_little_has_no_exponent() {
        assert_eq!(
            (exponent(&[]), exponent(&[(5, 2.0)]), exponent(&[(5, 2.0), (5, 3.0)]), exponent(&[(1, 0.0), (2, 1.0)])),
            (None, None, None, None)
        );
    }
}
