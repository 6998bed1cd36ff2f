//! `points.csv` and `engines.csv`, one run as rows that later runs can be compared with; and the figures for people.

use std::io::{self, Write};

use super::measured::{EngineRun, Measured, MemoryOverTime, Point, Speed};
use crate::harness::{OURS, or, write_csv, write_row};

/// Characters of an engine's name.
const NAME: usize = 14;

type OfPoint = (&'static str, fn(&Measured, &EngineRun, &Point) -> String);
type OfEngine = (&'static str, fn(&Measured, &EngineRun) -> String);

const POINTS: &[OfPoint] = &[
    ("date", |measured, _, _| measured.stamp.date.clone()),
    ("revision", |measured, _, _| measured.stamp.revision.clone()),
    ("workload", |measured, _, _| measured.workload.clone()),
    ("engine", |_, run, _| run.described.engine.clone()),
    ("version", |_, run, _| run.described.version.clone()),
    ("sweep", |_, run, _| run.described.more.sweep.clone()),
    ("value", |_, _, point| point.value.to_string()),
    ("recall", |_, _, point| format!("{:.6}", point.recall)),
    ("qps", |measured, _, point| format!("{:.1}", point.qps(measured.queries, Speed::Median))),
    ("qps_lowest", |measured, _, point| format!("{:.1}", point.qps(measured.queries, Speed::Slowest))),
    ("qps_highest", |measured, _, point| format!("{:.1}", point.qps(measured.queries, Speed::Fastest))),
    ("qps_all_threads", |measured, _, point| format!("{:.1}", point.qps(measured.queries, Speed::AllThreads))),
    ("threads", |measured, _, _| measured.threads.to_string()),
    ("p50_us", |_, _, point| format!("{:.2}", point.p50_us)),
    ("p99_us", |_, _, point| format!("{:.2}", point.p99_us)),
    ("repeats", |_, _, point| point.seconds.len().to_string()),
    ("rounds", |_, _, point| point.rounds.to_string()),
];

const ENGINES: &[OfEngine] = &[
    ("date", |measured, _| measured.stamp.date.clone()),
    ("revision", |measured, _| measured.stamp.revision.clone()),
    ("workload", |measured, _| measured.workload.clone()),
    ("engine", |_, run| run.described.engine.clone()),
    ("version", |_, run| run.described.version.clone()),
    ("settings", |_, run| run.described.settings.clone()),
    ("m", |measured, _| measured.m.to_string()),
    ("ef_construction", |measured, _| measured.ef_construction.to_string()),
    ("threads", |measured, _| measured.threads.to_string()),
    ("build_s", |_, run| format!("{:.3}", run.index.built.build_s)),
    ("index_bytes", |_, run| run.index.built.index_bytes.to_string()),
    ("index_reused", |_, run| run.reused.to_string()),
    ("open_ms", |_, run| format!("{:.3}", run.open_ms)),
    ("first_query_us", |_, run| format!("{:.1}", run.first_query_us)),
    ("baseline_bytes", |_, run| bytes(run, |memory| memory.baseline.rss_bytes)),
    ("opened_bytes", |_, run| bytes(run, |memory| memory.opened.rss_bytes)),
    ("served_bytes", |_, run| bytes(run, |memory| memory.served.rss_bytes)),
    ("cooled_bytes", |_, run| bytes(run, |memory| memory.cooled.rss_bytes)),
    ("served_cool_bytes", |_, run| bytes(run, |memory| memory.served_cool.rss_bytes)),
    ("serving_bytes", |_, run| bytes(run, MemoryOverTime::serving_bytes)),
    ("serving_after_pass_bytes", |_, run| bytes(run, MemoryOverTime::served_bytes)),
];

fn bytes(run: &EngineRun, value: fn(&MemoryOverTime) -> u64) -> String {
    or(run.memory.as_ref(), "", |memory| value(memory).to_string())
}

/// One row per engine and value of its sweep parameter.
pub fn write_points(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    let points = measured.engines.iter().flat_map(|run| run.points.iter().map(move |point| (run, point)));
    let row = |(run, point)| POINTS.iter().map(|(_, text)| text(measured, run, point)).collect();
    write_csv(out, POINTS.iter().map(|(heading, _)| *heading), points.map(row))
}

/// One row per engine.
pub fn write_engines(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    let row = |run| ENGINES.iter().map(|(_, text)| text(measured, run)).collect();
    write_csv(out, ENGINES.iter().map(|(heading, _)| *heading), measured.engines.iter().map(row))
}

/// Prints every engine, then ours over each peer's.
pub fn write_table(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    let Measured { workload, rows, dim, metric, queries, k, m, ef_construction, repeats, machine, .. } = measured;
    writeln!(
        out,
        "{workload}: {rows} vectors of {dim} values ({metric}), {queries} queries, recall@{k}, M {m}, efConstruction {ef_construction}, \
         {repeats} repeats, {}\n",
        machine.cpu
    )?;
    let at: Vec<String> = measured.targets.iter().map(|target| format!("at {target}")).collect();
    let headings = |others: &[&str]| -> Vec<String> {
        at.iter().cloned().chain(others.iter().map(|heading| (*heading).to_owned())).collect()
    };
    write_row(
        out,
        NAME,
        "QPS, 1 thread",
        headings(&["p99 us", "build s", "index MB", "cold MB", "served MB", "open ms"]),
    )?;
    for run in &measured.engines {
        write_row(out, NAME, &run.described.engine, engine(measured, run))?;
    }
    if measured.engines.iter().any(|run| run.reused) {
        writeln!(
            out,
            "* an index kept from an earlier run: its build time is that of another day, and makes no ratio"
        )?;
    }
    let ratios = measured.ratios();
    if !ratios.is_empty() {
        writeln!(out)?;
        write_row(out, NAME, &format!("{OURS} over"), headings(&["all threads", "build", "cold", "served", "index"]))?;
        let times = |ratio: f64| format!("{ratio:.2}x");
        for ratio in &ratios {
            let at = |speed, target: &f64| measured.ratio(&ratio.peer, speed, *target);
            let speed = measured.targets.iter().map(|target| match at(Speed::Median, target) {
                Ok(ratio) => times(ratio),
                Err((name, _)) => if name == OURS { "ours: none" } else { "peer: none" }.to_owned(),
            });
            let threaded = measured.targets.first().and_then(|target| at(Speed::AllThreads, target).ok());
            let others = [threaded, ratio.build, ratio.rss, ratio.rss_served, ratio.bytes];
            write_row(out, NAME, &ratio.peer.name, speed.chain(others.map(|value| or(value, "-", times))))?;
        }
        writeln!(
            out,
            "QPS at equal recall, one thread: above 1 is faster; all threads: at {}. Build, memory, index: below 1 is less. \
             Memory: cold is right after full-precision vectors were dropped, served after one more pass.",
            measured.targets.first().copied().unwrap_or(0.0)
        )?;
    }
    measured.failures.iter().try_for_each(|(engine, error)| writeln!(out, "\n{engine} failed: {error}"))
}

/// An engine's figures: queries per second at each target, and the rest.
fn engine(measured: &Measured, run: &EngineRun) -> Vec<String> {
    let curve = measured.curve(std::slice::from_ref(&run.described.engine), Speed::Median);
    // Where there is no figure, the reason in the space of one.
    let short =
        |text: String| text.replace("begins at", "from").replace("reaches only", "to").replace("no points", "-");
    let at = |target: &f64| curve.qps_at(*target).map_or_else(|why| short(why.to_string()), |qps| format!("{qps:.0}"));
    let mut figures: Vec<String> = measured.targets.iter().map(at).collect();
    // Of the first point that reaches the first target.
    let target = measured.targets.first().copied().unwrap_or(0.0);
    let p99 = run.points.iter().find(|point| point.recall >= target);
    let megabytes = |value| or(run.megabytes(value), "-", |megabytes| format!("{megabytes:.1}"));
    figures.extend([
        or(p99, "-", |point| format!("{:.0}", point.p99_us)),
        format!("{:.1}{}", run.index.built.build_s, if run.reused { "*" } else { "" }),
        format!("{:.1}", run.index.built.index_bytes as f64 / 1e6),
        megabytes(MemoryOverTime::serving_bytes),
        megabytes(MemoryOverTime::served_bytes),
        format!("{:.2}", run.open_ms),
    ]);
    figures
}
