//! The figures, ANN loss and overlap, as JSON.

use std::path::PathBuf;

use dyad_corpus::metrics::Metric;
use dyad_corpus::run::Run;
use serde_json::{Map, Value, json};

use super::ask::Served;
use super::system::{Mode, System};

/// Depth at which the hits of the graph walk are compared with those of exact search.
pub(super) const OVERLAP_DEPTH: usize = 10;

/// One system's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// What was measured.
    pub system: System,
    /// The run that was written.
    pub run: PathBuf,
    /// One mean per [`Report::metrics`], over all judged queries.
    pub means: Vec<f64>,
    /// Questions per second of wall-clock time. For information: the clients' load is not controlled.
    pub queries_per_s: f64,
}

/// What the graph walk lost against exact search.
#[derive(Debug, Clone, PartialEq)]
pub struct Loss {
    /// Of which ranking.
    pub mode: Mode,
    /// Exact minus ANN, one per [`Report::metrics`].
    pub means: Vec<f64>,
    /// [`overlap`] at 10, or at k where that is smaller.
    pub overlap: f64,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    pub(crate) server: String,
    pub(crate) data: PathBuf,
    pub(crate) split: String,
    /// Judged questions, all of which count.
    pub queries: usize,
    /// Hits asked for per question.
    pub k: u32,
    pub(crate) drop_identical_ids: bool,
    /// What answered; `None` where no system was measured.
    pub served: Option<Served>,
    /// The columns.
    pub metrics: Vec<Metric>,
    pub(crate) left_out: Vec<Metric>,
    /// One per system, in the order measured.
    pub rows: Vec<Row>,
    /// One per system that was measured both ways.
    pub losses: Vec<Loss>,
}

impl Report {
    /// The depth at which [`Loss::overlap`] was taken.
    pub fn overlap_depth(&self) -> usize {
        OVERLAP_DEPTH.min(self.k as usize)
    }

    /// Everything, unrounded; metrics under trec_eval's names.
    pub fn to_json(&self) -> Value {
        let system = |row: &Row| {
            json!({
                "mode": row.system.mode.name(),
                "exact": row.system.exact,
                "run": row.run,
                "metrics": self.named(&row.means),
                "queries_per_s": row.queries_per_s,
            })
        };
        let loss = |loss: &Loss| {
            json!({
                "mode": loss.mode.name(),
                "metrics": self.named(&loss.means),
                "overlap": { "depth": self.overlap_depth(), "mean": loss.overlap },
            })
        };
        json!({
            "server": self.server,
            "data": self.data,
            "split": self.split,
            "queries": self.queries,
            "average": "complete",
            "k": self.k,
            "drop_identical_ids": self.drop_identical_ids,
            "generation": self.served.as_ref().map(|served| served.generation),
            "fingerprint": self.served.as_ref().map(|served| served.fingerprint.as_str()),
            "systems": self.rows.iter().map(system).collect::<Vec<_>>(),
            "ann_loss": self.losses.iter().map(loss).collect::<Vec<_>>(),
        })
    }

    fn named(&self, means: &[f64]) -> Map<String, Value> {
        self.metrics.iter().zip(means).map(|(metric, mean)| (metric.to_string(), (*mean).into())).collect()
    }
}

/// Mean over the queries of the share of `truth`'s first `depth` hits that are also among `run`'s, both in the order served.
/// Queries without hits in `truth` do not count; 1 where none has any.
pub fn overlap(run: &Run, truth: &Run, depth: usize) -> f64 {
    let mut sum = 0.0;
    let mut queries = 0;
    for (query, expected) in truth {
        let expected = expected.get(..depth).unwrap_or(expected);
        if expected.is_empty() {
            continue;
        }
        let found = run.get(query).map_or(&[][..], Vec::as_slice);
        let found = found.get(..depth).unwrap_or(found);
        let shared = expected.iter().filter(|(key, _)| found.iter().any(|(other, _)| other == key)).count();
        sum += shared as f64 / expected.len() as f64;
        queries += 1;
    }
    if queries == 0 { 1.0 } else { sum / f64::from(queries) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(keys: &[&str]) -> Vec<(String, f32)> {
        keys.iter().map(|key| ((*key).to_owned(), 1.0)).collect()
    }

    #[test]
    fn overlap_is_the_shared_part_of_the_truth() {
        let truth = Run::from([
            ("q1".to_owned(), hits(&["a", "b", "c"])),
            ("q2".to_owned(), hits(&["a"])),
            ("q3".to_owned(), hits(&["a", "b"])),
        ]);
        let run = Run::from([("q1".to_owned(), hits(&["b", "x", "a"])), ("q2".to_owned(), hits(&["a", "b"]))]);
        // q1 shares b of a, b; q2 all of its one; q3 nothing.
        assert!((overlap(&run, &truth, 2) - (0.5 + 1.0 + 0.0) / 3.0).abs() < 1e-12);
        assert!((overlap(&run, &truth, 10) - (2.0 / 3.0 + 1.0) / 3.0).abs() < 1e-12);
        assert!((overlap(&truth, &truth, 10) - 1.0).abs() < 1e-12);
        assert!((overlap(&run, &Run::new(), 10) - 1.0).abs() < 1e-12);
    }
}
