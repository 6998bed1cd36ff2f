//! The figures for people.

use std::io::{self, Write};

use super::measured::{Measured, MemoryOverTime, Speed};
use super::ratios::{Ratios, Side};
use crate::harness::OURS;

/// Characters of an engine's name.
const NAME: usize = 14;
/// Characters of a figure.
const FIGURE: usize = 12;
const MB: f64 = 1e6;

/// Prints every engine, then ours over each peer's.
pub fn write_table(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} vectors of {} values ({}), {} queries, recall@{}, M {}, efConstruction {}, {} repeats, {}",
        measured.workload,
        measured.rows,
        measured.dim,
        measured.metric,
        measured.queries,
        measured.k,
        measured.m,
        measured.ef_construction,
        measured.repeats,
        measured.machine.cpu
    )?;
    writeln!(out)?;
    engines(out, measured)?;
    let ratios = measured.ratios();
    if !ratios.is_empty() {
        writeln!(out)?;
        table_of_ratios(out, measured, &ratios)?;
    }
    for (engine, error) in &measured.failures {
        writeln!(out, "\n{engine} failed: {error}")?;
    }
    Ok(())
}

fn engines(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    write!(out, "{:<NAME$}", "QPS, 1 thread")?;
    for target in &measured.targets {
        write!(out, "{:>FIGURE$}", format!("at {target}"))?;
    }
    for heading in ["p99 us", "build s", "index MB", "cold MB", "served MB", "open ms"] {
        write!(out, "{heading:>FIGURE$}")?;
    }
    writeln!(out)?;
    for run in &measured.engines {
        let name = &run.described.engine;
        write!(out, "{name:<NAME$}")?;
        let curve = measured.curve(std::slice::from_ref(name), Speed::Median);
        for target in &measured.targets {
            let qps = curve.qps_at(*target).map_or_else(|outside| outside.to_string(), |qps| format!("{qps:.0}"));
            write!(out, " {:>width$}", shorten(&qps), width = FIGURE - 1)?;
        }
        // Of the first point that reaches the first target.
        let target = measured.targets.first().copied().unwrap_or(0.0);
        let p99 = run.points.iter().find(|point| point.recall >= target).map(|point| format!("{:.0}", point.p99_us));
        write!(out, "{:>FIGURE$}", p99.unwrap_or_else(|| "-".to_owned()))?;
        let reused = if run.reused { "*" } else { "" };
        write!(out, "{:>FIGURE$}", format!("{:.1}{reused}", run.index.built.build_s))?;
        write!(out, "{:>FIGURE$.1}", run.index.built.index_bytes as f64 / MB)?;
        for bytes in [MemoryOverTime::serving_bytes, MemoryOverTime::served_bytes] {
            let text = run.memory.as_ref().map(|memory| format!("{:.1}", bytes(memory) as f64 / MB));
            write!(out, "{:>FIGURE$}", text.unwrap_or_else(|| "-".to_owned()))?;
        }
        writeln!(out, "{:>FIGURE$.2}", run.open_ms)?;
    }
    if measured.engines.iter().any(|run| run.reused) {
        writeln!(
            out,
            "* an index kept from an earlier run: its build time is that of another day, and makes no ratio"
        )?;
    }
    Ok(())
}

fn table_of_ratios(out: &mut impl Write, measured: &Measured, ratios: &[Ratios]) -> io::Result<()> {
    write!(out, "{:<NAME$}", format!("{OURS} over"))?;
    for target in &measured.targets {
        write!(out, "{:>FIGURE$}", format!("at {target}"))?;
    }
    for heading in ["all threads", "build", "cold", "served", "index"] {
        write!(out, "{heading:>FIGURE$}")?;
    }
    writeln!(out)?;
    for ratio in ratios {
        write!(out, "{:<NAME$}", ratio.peer.name)?;
        for speed in &ratio.speed {
            let text = match speed.single {
                Ok(ratio) => format!("{ratio:.2}x"),
                Err((Side::Ours, _)) => "ours: none".to_owned(),
                Err((Side::Peer, _)) => "peer: none".to_owned(),
            };
            write!(out, "{text:>FIGURE$}")?;
        }
        let threaded = ratio.speed.first().and_then(|speed| speed.threaded.ok());
        for value in [threaded, ratio.build, ratio.rss, ratio.rss_served, ratio.bytes] {
            let text = value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}x"));
            write!(out, "{text:>FIGURE$}")?;
        }
        writeln!(out)?;
    }
    let first = measured.targets.first().copied().unwrap_or(0.0);
    writeln!(
        out,
        "QPS at equal recall, one thread: above 1 is faster; all threads: at {first}. Build, memory, index: below 1 is less. \
         Memory: cold is right after full-precision vectors were dropped, served after one more pass."
    )
}

/// The reason why there is no figure, in the space of one.
fn shorten(text: &str) -> String {
    text.replace("begins at ", "from ").replace("reaches only ", "to ").replace("no points", "-")
}
