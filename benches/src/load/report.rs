//! What is written about a run: the summary, and a table for people.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::run::Measured;
use super::truth::ndcg_name;
use crate::harness::{Row, Show, write_line};

/// Characters of an engine's name and its load.
const NAME: usize = 34;
/// Columns of the table; those that no row has are left out.
const COLUMNS: [(&str, &str, Show); 22] = [
    ("qps", "answers/s", Show::Decimals(1)),
    ("of_first_engine", "of first", Show::Times),
    ("of_first_load", "of 1st load", Show::Times),
    ("p50_ms", "p50 ms", Show::Decimals(3)),
    ("p99_ms", "p99 ms", Show::Decimals(3)),
    ("p999_ms", "p99.9 ms", Show::Decimals(3)),
    ("service_p50_ms", "sent p50", Show::Decimals(3)),
    ("service_p99_ms", "sent p99", Show::Decimals(3)),
    ("cpu_us", "own CPU us", Show::Decimals(0)),
    ("server_cpu_us", "its CPU us", Show::Decimals(0)),
    ("failed_share", "failed", Show::Percent),
    ("recall", "recall", Show::Decimals(4)),
    ("goodput_of_capacity", "goodput", Show::Percent),
    ("late", "late", Show::Decimals(0)),
    ("broken", "broken", Show::Decimals(0)),
    ("refused", "refused", Show::Decimals(0)),
    ("not_sent", "not sent", Show::Decimals(0)),
    ("refused_p50_ms", "refused p50", Show::Decimals(3)),
    ("refused_p99_ms", "refused p99", Show::Decimals(3)),
    ("back_after_s", "back after", Show::Decimals(1)),
    ("resident_max_bytes", "max MB", Show::Megabytes),
    ("resident_bytes_per_minute", "MB/minute", Show::Megabytes),
];

impl Measured {
    /// Everything, unrounded.
    pub fn summary(&self) -> Value {
        json!({
            "workload": self.workload,
            "points": self.points,
            "details": self.details,
            "machine": self.machine,
            "stamp": self.stamp,
        })
    }

    /// Prints a line for each engine and load.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let has = |name: &str| self.points.iter().any(|row| row.get(name).is_some_and(|value| !value.is_null()));
        let kinds = &self.workload.kinds;
        let quality = |kind| {
            let name = ndcg_name(kinds, kind);
            let heading = name.replace("ndcg_10_", " nDCG ").replace("ndcg_10", "nDCG@10");
            (name, heading, Show::Decimals(4))
        };
        let columns = COLUMNS.into_iter().map(|(name, heading, show)| (name.to_owned(), heading.to_owned(), show));
        let columns: Vec<_> = columns.chain(kinds.iter().map(quality)).filter(|(name, ..)| has(name)).collect();
        write_line(out, NAME, "", columns.iter().map(|(_, heading, _)| heading))?;
        for row in &self.points {
            let figures = columns.iter().map(|(name, _, show)| show.text(row.get(name).unwrap_or(&Value::Null)));
            write_line(out, NAME, &name(row), figures)?;
        }
        out.flush()
    }
}

/// `grpc-text, 16 clients`.
fn name(row: &Row) -> String {
    let engine = row.get("engine").and_then(Value::as_str).unwrap_or_default();
    let figure = |name: &str| row.get(name).and_then(Value::as_f64);
    match (figure("clients"), figure("rate")) {
        (Some(1.0), _) => format!("{engine}, 1 client"),
        (Some(clients), _) => format!("{engine}, {clients} clients"),
        (_, Some(rate)) => format!("{engine}, {rate:.0} per second"),
        _ => engine.to_owned(),
    }
}
