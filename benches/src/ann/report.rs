//! `points.csv` and `engines.csv`, one run as rows that later runs can be compared with; and the figures for people.

use std::io::{self, Write};

use super::measured::{EngineRun, Measured, MemoryOverTime, Point, Speed};
use crate::harness::{Memory, OURS, extremes, median, or, per_second, write_csv, write_row};

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
    ("qps", |measured, _, point| format!("{:.1}", point.qps(measured.queries, Speed::Batch))),
    ("qps_lowest", |measured, _, point| qps(measured, extremes(&point.seconds).1)),
    ("qps_highest", |measured, _, point| qps(measured, extremes(&point.seconds).0)),
    ("qps_all_threads", |measured, _, point| format!("{:.1}", point.qps(measured.queries, Speed::BatchAllThreads))),
    ("threads", |measured, _, _| measured.threads.to_string()),
    ("p50_us", |_, _, point| or(median(&point.passes_p50_us), "", |micros| format!("{micros:.2}"))),
    ("p99_us", |_, _, point| or(median(&point.passes_p99_us), "", |micros| format!("{micros:.2}"))),
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
    ("baseline_bytes", |_, run| bytes(run, |memory| memory.baseline)),
    ("opened_bytes", |_, run| bytes(run, |memory| memory.opened)),
    ("served_bytes", |_, run| bytes(run, |memory| memory.served)),
    ("evicted_bytes", |_, run| bytes(run, |memory| memory.evicted)),
    ("evicted_pass_bytes", |_, run| bytes(run, |memory| memory.evicted_pass)),
];

fn qps(measured: &Measured, seconds: f64) -> String {
    format!("{:.1}", per_second(measured.queries, seconds))
}

fn bytes(run: &EngineRun, at: fn(&MemoryOverTime) -> Memory) -> String {
    or(run.memory.as_ref(), "", |memory| at(memory).rss_bytes.to_string())
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
    let Measured { workload, rows, dim, metric, queries, k, m, ef_construction, repeats, targets, machine, .. } =
        measured;
    let first = targets.first().copied().unwrap_or(0.0);
    writeln!(
        out,
        "{workload}: {rows} vectors of {dim} values ({metric}), {queries} queries, recall@{k}, M {m}, efConstruction {ef_construction}, \
         medians of {repeats} interleaved passes\n{}, kernels {}\n",
        machine.cpu, machine.kernels
    )?;
    let headings = |others: &[&str]| -> Vec<String> {
        let at = targets.iter().map(|target| format!("at {target}"));
        at.chain(others.iter().map(|heading| (*heading).to_owned())).collect()
    };
    let others = ["p50 us", "p99 us", "build s", "index MB", "served MB", "evicted MB", "open ms"];
    write_row(out, NAME, "batch QPS", headings(&others))?;
    for run in &measured.engines {
        write_row(out, NAME, &run.described.engine, engine(measured, run))?;
    }
    writeln!(
        out,
        "QPS: the engine's batch call for all queries, one thread, at equal recall. p50, p99: one call per query, one thread, at {first}.\n\
         served: resident after all searches, less the empty process; evicted: after mapped full-precision vectors were dropped and one \
         more pass."
    )?;
    if measured.engines.iter().any(|run| run.reused) {
        writeln!(out, "*: an index kept from an earlier run; its build time has no ratio.")?;
    }
    let ratios = measured.ratios();
    if !ratios.is_empty() {
        writeln!(out)?;
        let others = ["single call", "all threads", "build", "index", "served", "evicted"];
        write_row(out, NAME, &format!("{OURS} over"), headings(&others))?;
        let times = |ratio: f64| format!("{ratio:.2}x");
        for ratio in &ratios {
            let at = |speed, target: f64| measured.ratio(ratio.peer, speed, target);
            let speed = targets.iter().map(|&target| match at(Speed::Batch, target) {
                Ok(ratio) => times(ratio),
                Err((name, _)) => if name == OURS { "ours: none" } else { "peer: none" }.to_owned(),
            });
            let [single, threaded] = [Speed::SingleP50, Speed::BatchAllThreads].map(|speed| at(speed, first).ok());
            let others = [single, threaded, ratio.build, ratio.bytes, ratio.rss_served, ratio.rss_evicted];
            write_row(out, NAME, &ratio.peer.described.engine, speed.chain(others.map(|value| or(value, "-", times))))?;
        }
        writeln!(
            out,
            "Above 1 is faster: batch QPS on one thread; at {first}, p50 of single calls, and batch QPS on all threads. Below 1 is less: \
             build, index, memory."
        )?;
    }
    measured.failures.iter().try_for_each(|(engine, error)| writeln!(out, "\n{engine} failed: {error}"))
}

/// An engine's figures: queries per second at each target, and the rest.
fn engine(measured: &Measured, run: &EngineRun) -> Vec<String> {
    // Where there is no figure, the reason in the space of one.
    let short =
        |text: String| text.replace("begins at", "from").replace("reaches only", "to").replace("no points", "-");
    let curve = measured.curve(run, Speed::Batch);
    let at = |target: &f64| curve.qps_at(*target).map_or_else(|why| short(why.to_string()), |qps| format!("{qps:.0}"));
    let mut figures: Vec<String> = measured.targets.iter().map(at).collect();
    let target = measured.targets.first().copied().unwrap_or(0.0);
    let micros = |speed| or(measured.curve(run, speed).qps_at(target).ok(), "-", |qps| format!("{:.0}", 1e6 / qps));
    let megabytes = |at| or(run.megabytes(at), "-", |megabytes| format!("{megabytes:.1}"));
    figures.extend([
        micros(Speed::SingleP50),
        micros(Speed::SingleP99),
        format!("{:.1}{}", run.index.built.build_s, if run.reused { "*" } else { "" }),
        format!("{:.1}", run.index.built.index_bytes as f64 / 1e6),
        megabytes(|memory| memory.served),
        megabytes(|memory| memory.evicted_pass),
        format!("{:.2}", run.open_ms),
    ]);
    figures
}
