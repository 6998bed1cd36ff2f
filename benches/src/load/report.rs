//! What is written about a run: the summary, and a table for people.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::passes::LoadStep;
use super::run::LoadMeasurement;
use super::truth::ndcg_name;
use crate::harness::{FigureFormat, FigureRow, Measurement, ShownColumn, TextTable};

/// Columns of the table; those that no row has are left out.
const COLUMNS: [ShownColumn<'static>; 22] = [
    ShownColumn::new("qps", "answers/s", FigureFormat::Decimals(1)),
    ShownColumn::new("of_first_engine", "of first", FigureFormat::Times),
    ShownColumn::new("of_first_load", "of 1st load", FigureFormat::Times),
    ShownColumn::new("p50_ms", "p50 ms", FigureFormat::Decimals(3)),
    ShownColumn::new("p99_ms", "p99 ms", FigureFormat::Decimals(3)),
    ShownColumn::new("p999_ms", "p99.9 ms", FigureFormat::Decimals(3)),
    ShownColumn::new("service_p50_ms", "sent p50", FigureFormat::Decimals(3)),
    ShownColumn::new("service_p99_ms", "sent p99", FigureFormat::Decimals(3)),
    ShownColumn::new("cpu_us", "own CPU us", FigureFormat::Decimals(0)),
    ShownColumn::new("server_cpu_us", "its CPU us", FigureFormat::Decimals(0)),
    ShownColumn::new("failed_share", "failed", FigureFormat::Percent),
    ShownColumn::new("recall", "recall", FigureFormat::Decimals(4)),
    ShownColumn::new("goodput_of_capacity", "goodput", FigureFormat::Percent),
    ShownColumn::new("late", "late", FigureFormat::Decimals(0)),
    ShownColumn::new("broken", "broken", FigureFormat::Decimals(0)),
    ShownColumn::new("refused", "refused", FigureFormat::Decimals(0)),
    ShownColumn::new("not_sent", "not sent", FigureFormat::Decimals(0)),
    ShownColumn::new("refused_p50_ms", "refused p50", FigureFormat::Decimals(3)),
    ShownColumn::new("refused_p99_ms", "refused p99", FigureFormat::Decimals(3)),
    ShownColumn::new("back_after_s", "back after", FigureFormat::Decimals(1)),
    ShownColumn::new("resident_max_bytes", "max MB", FigureFormat::Megabytes),
    ShownColumn::new("resident_bytes_per_minute", "MB/minute", FigureFormat::Megabytes),
];

impl Measurement for LoadMeasurement {
    fn record_name(&self) -> String {
        self.stamp.record(&self.workload.name)
    }

    fn summary(&self) -> Value {
        json!({
            "workload": self.workload,
            "points": self.points,
            "details": self.details,
            "machine": self.machine,
            "stamp": self.stamp,
        })
    }

    /// `points.csv`: a row for each engine and load.
    fn files(&self) -> Vec<(&'static str, Vec<FigureRow>)> {
        vec![("points.csv", self.points.clone())]
    }

    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let kinds = &self.workload.kinds;
        let names: Vec<String> = kinds.iter().map(|kind| ndcg_name(kinds, kind)).collect();
        let headings = names
            .iter()
            .map(|name| name.replace("ndcg_10_", "nDCG ").replace("ndcg_10", "nDCG@10"));
        let headings: Vec<String> = headings.collect();
        let qualities = names.iter().zip(&headings);
        let qualities = qualities.map(|(name, heading)| ShownColumn::new(name, heading, FigureFormat::Decimals(4)));
        let is_known = |column: &ShownColumn<'_>| {
            self.points
                .iter()
                .any(|row| row.get(column.name).is_some_and(|value| !value.is_null()))
        };
        let columns: Vec<ShownColumn<'_>> = COLUMNS.into_iter().chain(qualities).filter(is_known).collect();
        let mut table = TextTable::of_columns("", &columns);
        for row in &self.points {
            table.push_row(&line_name(row), &columns, row);
        }
        table.write(out)
    }
}

/// `grpc-text, 16 clients`.
fn line_name(row: &FigureRow) -> String {
    let engine = row.get("engine").and_then(Value::as_str).unwrap_or_default();
    let clients = row
        .get("clients")
        .and_then(Value::as_u64)
        .map(|clients| LoadStep::Clients(clients as usize));
    let step = clients.or_else(|| row.get("rate").and_then(Value::as_f64).map(LoadStep::Rate));
    step.map_or_else(|| engine.to_owned(), |step| format!("{engine}, {step}"))
}
