//! The figures for people.

use std::io::{self, Write};

use dyad_corpus::metrics::Metric;

use super::report::Report;

/// Characters of a system's name.
const NAME: usize = 12;
/// Characters of a figure.
const FIGURE: usize = 9;

/// The name of a column.
fn heading(metric: Metric) -> String {
    match metric {
        Metric::ReciprocalRank => "MRR".to_owned(),
        Metric::ReciprocalRankAt(k) => format!("MRR@{k}"),
        Metric::Precision(k) => format!("P@{k}"),
        Metric::Recall(k) => format!("R@{k}"),
        Metric::Ndcg(k) => format!("nDCG@{k}"),
        Metric::Success(k) => format!("S@{k}"),
        other => other.to_string(),
    }
}

/// A difference with its sign; what rounds to nothing has none of the negative kind.
fn signed(value: f64) -> String {
    let rounded = (value * 1e4).round() / 1e4;
    format!("{:+.4}", rounded + 0.0)
}

/// Prints a measurement: one row per system, then what the graph walk lost.
pub fn write_table(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let Report { data, split, queries, k, .. } = report;
    let served = report.served.as_ref().map_or_else(|| "generation 0, model -".to_owned(), ToString::to_string);
    writeln!(out, "{}, split {split}: {queries} queries, k {k}, index {served}\n", data.display())?;
    write!(out, "{:<NAME$}", "")?;
    for metric in &report.metrics {
        write!(out, "{:>FIGURE$}", heading(*metric))?;
    }
    writeln!(out, "{:>12}", "queries/s")?;
    for row in &report.rows {
        write!(out, "{:<NAME$}", row.system)?;
        for mean in &row.means {
            write!(out, "{mean:>FIGURE$.4}")?;
        }
        writeln!(out, "{:>12.1}", row.queries_per_s)?;
    }

    if !report.losses.is_empty() {
        writeln!(out)?;
        write!(out, "{:<width$}", "ANN loss: exact minus ANN", width = NAME + FIGURE * report.metrics.len())?;
        writeln!(out, "{:>12}", format!("overlap@{}", report.overlap_depth()))?;
    }
    for loss in &report.losses {
        write!(out, "{:<NAME$}", loss.mode.name())?;
        for mean in &loss.means {
            write!(out, "{:>FIGURE$}", signed(*mean))?;
        }
        writeln!(out, "{:>12.4}", loss.overlap)?;
    }

    writeln!(out)?;
    writeln!(out, "All judged queries count, those without results as 0 (trec_eval -c).")?;
    if report.drop_identical_ids {
        writeln!(out, "Hits with the query's own key were dropped.")?;
    }
    if !report.left_out.is_empty() {
        let names: Vec<String> = report.left_out.iter().copied().map(heading).collect();
        writeln!(out, "Left out, because k is only {}: {}.", report.k, names.join(", "))?;
    }
    if let Some(folder) = report.rows.first().and_then(|row| row.run.parent()) {
        writeln!(out, "Runs: {}", folder.display())?;
    }
    Ok(())
}
