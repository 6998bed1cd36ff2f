//! `points.csv` and `engines.csv`, one run as rows that later runs can be compared with; `summary.json`; and the figures for people.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::measured::{EngineRun, Family, Measured, Point, Speed};
use super::workload::Workload;
use crate::harness::{OURS, Row, Show, extremes, median, per_second, row, write_line};

/// Characters of an engine's name.
const NAME: usize = 26;

type OfPoint = (&'static str, fn(&(&Measured, &EngineRun, &Point)) -> Value);
type OfEngine = (&'static str, fn(&(&Measured, &EngineRun)) -> Value);

const POINTS: &[OfPoint] = &[
    ("date", |(measured, ..)| json!(measured.stamp.date)),
    ("revision", |(measured, ..)| json!(measured.stamp.revision)),
    ("workload", |(measured, ..)| json!(measured.workload.name)),
    ("engine", |(_, run, _)| json!(run.described.engine)),
    ("version", |(_, run, _)| json!(run.described.version)),
    ("sweep", |(_, run, _)| json!(run.described.more.sweep)),
    ("value", |(.., point)| json!(point.value)),
    ("recall", |(.., point)| json!(point.recall)),
    ("qps", |(measured, _, point)| json!(point.qps(measured.queries, Speed::Batch))),
    ("qps_lowest", |(measured, _, point)| json!(per_second(measured.queries, extremes(&point.seconds).1))),
    ("qps_highest", |(measured, _, point)| json!(per_second(measured.queries, extremes(&point.seconds).0))),
    ("qps_all_threads", |(measured, _, point)| json!(point.qps(measured.queries, Speed::BatchAllThreads))),
    ("threads", |(measured, ..)| json!(measured.workload.threads)),
    ("p50_us", |(.., point)| json!(median(&point.passes_p50_us))),
    ("p99_us", |(.., point)| json!(median(&point.passes_p99_us))),
    ("repeats", |(.., point)| json!(point.seconds.len())),
    ("rounds", |(.., point)| json!(point.rounds)),
    ("seconds", |(.., point)| json!(point.seconds)),
    ("seconds_all_threads", |(.., point)| json!(point.seconds_all_threads)),
    ("passes_p50_us", |(.., point)| json!(point.passes_p50_us)),
    ("passes_p99_us", |(.., point)| json!(point.passes_p99_us)),
];

const ENGINES: &[OfEngine] = &[
    ("date", |(measured, _)| json!(measured.stamp.date)),
    ("revision", |(measured, _)| json!(measured.stamp.revision)),
    ("workload", |(measured, _)| json!(measured.workload.name)),
    ("engine", |(_, run)| json!(run.described.engine)),
    ("version", |(_, run)| json!(run.described.version)),
    ("settings", |(_, run)| json!(run.described.settings)),
    ("m", |(measured, _)| json!(measured.workload.m)),
    ("ef_construction", |(measured, _)| json!(measured.workload.ef_construction)),
    ("threads", |(measured, _)| json!(measured.workload.threads)),
    ("machine", |(measured, _)| json!(measured.machine.cpu)),
    ("build_s", |(_, run)| json!(run.index.built.build_s)),
    ("index_bytes", |(_, run)| json!(run.index.built.index_bytes)),
    ("index_reused", |(_, run)| json!(run.index.reused)),
    ("open_ms", |(_, run)| json!(run.open_ms)),
    ("page_cache", |(measured, _)| json!(if measured.cold { "cold" } else { "warm" })),
    ("memory_limit_bytes", |(measured, _)| json!(measured.memory_limit)),
    ("first_pass_value", |(_, run)| json!(run.first_pass.value)),
    ("first_query_us", |(_, run)| json!(run.first_pass.first_us)),
    ("first_pass_s", |(_, run)| json!(run.first_pass.seconds)),
    ("first_pass_p50_us", |(_, run)| json!(run.first_pass.p50_us)),
    ("first_pass_p99_us", |(_, run)| json!(run.first_pass.p99_us)),
    ("baseline_bytes", |(_, run)| json!(run.memory.baseline.rss_bytes)),
    ("opened_bytes", |(_, run)| json!(run.memory.opened.rss_bytes)),
    ("served_bytes", |(_, run)| json!(run.memory.served.rss_bytes)),
    ("evicted_bytes", |(_, run)| json!(run.memory.evicted.rss_bytes)),
    ("evicted_pass_bytes", |(_, run)| json!(run.memory.evicted_pass.rss_bytes)),
];

/// Ratios of ours over a peer's, where below 1 is less: headings, keys of the summary, and the figure that is compared.
type Over = (&'static str, &'static str, fn(&EngineRun) -> Option<f64>);
const OVER: [Over; 4] = [
    // Times of two days have no ratio.
    ("build", "build_ratio", |run| Some(run.index.built.build_s).filter(|_| !run.index.reused)),
    ("index", "index_bytes_ratio", |run| Some(run.index.built.index_bytes as f64)),
    ("served", "rss_ratio_served", |run| Some(run.megabytes(run.memory.served))),
    ("evicted", "rss_ratio_evicted", |run| Some(run.megabytes(run.memory.evicted_pass))),
];

/// Keys of the summary, and what is divided.
const RATIOS: [(&str, Speed); 3] = [
    ("ratios", Speed::Batch),
    ("ratios_all_threads", Speed::BatchAllThreads),
    ("ratios_single_call", Speed::SingleP50),
];

impl Measured {
    /// `points.csv`: a row per engine and value of its sweep parameter.
    pub fn points(&self) -> Vec<Row> {
        self.engines.iter().flat_map(|run| self.points_of(run)).collect()
    }

    fn points_of(&self, run: &EngineRun) -> Vec<Row> {
        run.points.iter().map(|point| row(POINTS, &(self, run, point))).collect()
    }

    /// `engines.csv`: a row per engine.
    pub fn rows(&self) -> Vec<Row> {
        self.engines.iter().map(|run| row(ENGINES, &(self, run))).collect()
    }

    /// `summary.json`: the workload, the ratios, and all that is needed to know what they are ratios of.
    ///
    /// `ratios` holds, per peer and recall, our queries per second over the peer's: the engine's batch call on one thread.
    /// `ratios_all_threads` is the same on all threads, `ratios_single_call` the peer's median time of a single call over ours. A recall
    /// that one of the two does not reach is `null` there and explained in `unreached`. `build_ratio`, `rss_ratio_served` (after all
    /// searches), `rss_ratio_evicted` (after full-precision vectors were evicted and one more pass) and `index_bytes_ratio` are ours over
    /// the peer's: below 1 is less; `null` where one of the two ends below the first recall. `build_ratio` is `null` also where an
    /// index was kept from an earlier run.
    pub fn summary(&self) -> Value {
        let per_peer = |value: &dyn Fn(&EngineRun) -> Value| -> Value {
            self.peers().map(|peer| (peer.described.engine.clone(), value(peer))).collect::<Map<_, _>>().into()
        };
        let at_targets = |value: &dyn Fn(f64) -> Option<Value>| -> Value {
            let at = |target: &f64| Some((target.to_string(), value(*target)?));
            self.workload.targets.iter().filter_map(at).collect::<Map<_, _>>().into()
        };
        let mut summary = json!(self);
        for (key, speed) in RATIOS {
            summary[key] = per_peer(&|peer| at_targets(&|target| Some(json!(self.ratio(peer, speed, target).ok()))));
        }
        let unreached = |peer: &EngineRun, target: f64| {
            let (whose, why) = self.ratio(peer, Speed::Batch, target).err()?;
            Some(format!("{whose}: {why}").into())
        };
        summary["unreached"] = per_peer(&|peer| at_targets(&|target| unreached(peer, target)));
        for (_, key, figure) in OVER {
            summary[key] = per_peer(&|peer| json!(self.over(peer, figure)));
        }
        let engine = |run: &EngineRun| {
            let mut engine = row(ENGINES, &(self, run));
            let qps_at = |target| Some(json!(self.curve(run, Speed::Batch).qps_at(target).ok()));
            engine.insert("qps_at".to_owned(), at_targets(&qps_at));
            engine.insert("points".to_owned(), json!(self.points_of(run)));
            engine
        };
        summary["engines"] = self
            .engines
            .iter()
            .map(|run| (run.described.engine.clone(), engine(run).into()))
            .collect::<Map<_, _>>()
            .into();
        let family = |family: &Family| {
            let mut figures = Map::from_iter([("members".to_owned(), json!(family.members))]);
            let best =
                |target| Some(json!(self.best(family, Speed::Batch, target).map(|(run, _)| &run.described.engine)));
            figures.insert("best".to_owned(), at_targets(&best));
            for (key, speed) in RATIOS {
                let ratio = |target| Some(json!(self.best(family, speed, target).map(|(_, ratio)| ratio)));
                figures.insert(key.to_owned(), at_targets(&ratio));
            }
            (family.name.clone(), figures.into())
        };
        summary["families"] = self.families.iter().map(family).collect::<Map<_, _>>().into();
        for (key, reasons) in [("failures", &self.failures), ("skipped", &self.skipped)] {
            summary[key] = reasons.iter().map(|(name, why)| (name.clone(), json!(why))).collect::<Map<_, _>>().into();
        }
        summary
    }

    /// Prints every engine, then ours over each peer's.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { workload, rows, dim, queries, machine, .. } = self;
        let Workload { name, metric, k, m, ef_construction, repeats, targets, .. } = workload;
        let first = targets.first().copied().unwrap_or(0.0);
        writeln!(
            out,
            "{name}: {rows} vectors of {dim} values ({}), {queries} queries, recall@{k}, M {m}, efConstruction {ef_construction}, \
             medians of {repeats} interleaved passes\n{}, kernels {}",
            metric.name(),
            machine.cpu,
            machine.kernels
        )?;
        match self.memory_limit {
            Some(bytes) => writeln!(out, "at most {} MiB for each engine from opening on, files cold\n", bytes >> 20)?,
            None if self.cold => writeln!(out, "files out of the page cache when they are opened\n")?,
            None => writeln!(out)?,
        }
        let headings = |others: &[&str]| -> Vec<String> {
            let at = targets.iter().map(|target| format!("at {target}"));
            at.chain(others.iter().map(|heading| (*heading).to_owned())).collect()
        };
        let others =
            ["p50 us", "p99 us", "build s", "index MB", "served MB", "evicted MB", "open ms", "first ms", "pass s"];
        write_line(out, NAME, "batch QPS", headings(&others))?;
        for run in &self.engines {
            write_line(out, NAME, &run.described.engine, self.figures(run, first))?;
        }
        writeln!(
            out,
            "QPS: the engine's batch call for all queries, one thread, at equal recall. p50, p99: one call per query, one thread, at \
             {first}.\nserved: resident after all searches, less the empty process; evicted: after mapped full-precision vectors were \
             dropped and one more pass. first, pass: the first call after opening, and the first pass of calls for all queries."
        )?;
        if self.engines.iter().any(|run| run.index.reused) {
            writeln!(out, "*: an index kept from an earlier run; its build time has no ratio.")?;
        }
        if self.peers().next().is_some() {
            writeln!(out)?;
            let others: Vec<&str> =
                ["single call", "all threads"].into_iter().chain(OVER.map(|(heading, ..)| heading)).collect();
            write_line(out, NAME, &format!("{OURS} over"), headings(&others))?;
            for peer in self.peers() {
                let at = |speed, target: f64| self.ratio(peer, speed, target);
                let speed = targets.iter().map(|&target| match at(Speed::Batch, target) {
                    Ok(ratio) => Show::Times.text(&json!(ratio)),
                    Err((name, _)) => if name == OURS { "ours: none" } else { "peer: none" }.to_owned(),
                });
                let others = [at(Speed::SingleP50, first).ok(), at(Speed::BatchAllThreads, first).ok()].into_iter();
                let others = others.chain(OVER.map(|(.., figure)| self.over(peer, figure)));
                let others = others.map(|ratio| Show::Times.text(&json!(ratio)));
                write_line(out, NAME, &peer.described.engine, speed.chain(others))?;
            }
            self.write_families(out)?;
            writeln!(
                out,
                "Above 1 is faster: batch QPS on one thread; at {first}, p50 of single calls, and batch QPS on all threads. Below 1 is \
                 less: build, index, memory."
            )?;
        }
        self.skipped.iter().try_for_each(|(engine, reason)| writeln!(out, "\n{engine} skipped: {reason}"))?;
        self.failures.iter().try_for_each(|(engine, error)| writeln!(out, "\n{engine} failed: {error}"))
    }

    /// Ours over the best of each family, which may be another one in each column.
    fn write_families(&self, out: &mut impl Write) -> io::Result<()> {
        let targets = &self.workload.targets;
        for family in &self.families {
            let at = |speed, target: f64| self.best(family, speed, target).map(|(_, ratio)| ratio);
            let speeds = targets.iter().map(|&target| at(Speed::Batch, target));
            let first = targets.first().copied().unwrap_or(0.0);
            let others = [at(Speed::SingleP50, first), at(Speed::BatchAllThreads, first)];
            let ratios = speeds.chain(others).map(|ratio| Show::Times.text(&json!(ratio)));
            write_line(out, NAME, &format!("best of {}", family.name), ratios.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// An engine's figures: queries per second at each target, and the rest.
    fn figures(&self, run: &EngineRun, first: f64) -> Vec<String> {
        // Where there is no figure, the reason in the space of one.
        let short =
            |text: String| text.replace("begins at", "from").replace("reaches only", "to").replace("no points", "-");
        let curve = self.curve(run, Speed::Batch);
        let at = |target: &f64| curve.qps_at(*target).map_or_else(short, |qps| format!("{qps:.0}"));
        let shown = |show: Show, figure: Option<f64>| show.text(&json!(figure));
        let micros = |speed| shown(Show::Decimals(0), self.curve(run, speed).qps_at(first).ok().map(|qps| 1e6 / qps));
        let others = [
            micros(Speed::SingleP50),
            micros(Speed::SingleP99),
            format!("{:.1}{}", run.index.built.build_s, if run.index.reused { "*" } else { "" }),
            shown(Show::Megabytes, Some(run.index.built.index_bytes as f64)),
            shown(Show::Decimals(1), Some(run.megabytes(run.memory.served))),
            shown(Show::Decimals(1), Some(run.megabytes(run.memory.evicted_pass))),
            shown(Show::Decimals(2), Some(run.open_ms)),
            shown(Show::Decimals(2), Some(run.first_pass.first_us / 1e3)),
            shown(Show::Decimals(2), Some(run.first_pass.seconds)),
        ];
        self.workload.targets.iter().map(at).chain(others).collect()
    }
}
