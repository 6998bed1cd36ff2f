//! `points.csv` and `engines.csv`, one run as rows that later runs can be compared with; `summary.json`; and the
//! figures for people.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::measured::{AnnEngineRun, AnnMeasurement, EngineFamily, SpeedKind, SweepPoint};
use super::workload::AnnWorkload;
use crate::harness::{
    FigureFormat, FigureRow, Measurement, OURS, TextTable, by_name, extremes, join_figures, median, per_second,
    texts_by_name,
};

/// Ratios of ours over a peer's, where below 1 is less: headings, keys of the summary, and the figure that is compared.
type Over = (&'static str, &'static str, fn(&AnnEngineRun) -> Option<f64>);
const OVER: [Over; 4] = [
    // Times of two days have no ratio.
    ("build", "build_ratio", |run| {
        Some(run.index.built.build_s).filter(|_| !run.index.reused)
    }),
    ("index", "index_bytes_ratio", |run| {
        Some(run.index.built.index_bytes as f64)
    }),
    ("served", "rss_ratio_served", |run| {
        Some(run.megabytes(run.memory.served))
    }),
    ("evicted", "rss_ratio_evicted", |run| {
        Some(run.megabytes(run.memory.evicted_pass))
    }),
];

/// Place of the build's time among the figures after those at the recalls.
const BUILD: usize = 2;

/// Keys of the summary, and what is divided.
const RATIOS: [(&str, SpeedKind); 3] = [
    ("ratios", SpeedKind::Batch),
    ("ratios_all_threads", SpeedKind::BatchAllThreads),
    ("ratios_single_call", SpeedKind::SingleP50),
];

impl AnnMeasurement {
    /// `points.csv`: a row per engine and value of its sweep parameter.
    pub(super) fn points(&self) -> Vec<FigureRow> {
        self.engines.iter().flat_map(|run| self.points_of(run)).collect()
    }

    fn points_of(&self, run: &AnnEngineRun) -> Vec<FigureRow> {
        run.points.iter().map(|point| self.point_row(run, point)).collect()
    }

    fn point_row(&self, run: &AnnEngineRun, point: &SweepPoint) -> FigureRow {
        let (fastest, slowest) = extremes(&point.seconds);
        join_figures([json!({
            "date": self.stamp.date,
            "revision": self.stamp.revision,
            "workload": self.workload.name,
            "engine": run.described.engine,
            "version": run.described.version,
            "sweep": run.described.more.sweep,
            "value": point.value,
            "recall": point.recall,
            "qps": point.qps(self.queries, SpeedKind::Batch),
            "qps_lowest": per_second(self.queries, slowest),
            "qps_highest": per_second(self.queries, fastest),
            "qps_all_threads": point.qps(self.queries, SpeedKind::BatchAllThreads),
            "threads": self.workload.threads,
            "p50_us": median(&point.passes_p50_us),
            "p99_us": median(&point.passes_p99_us),
            "repeats": point.seconds.len(),
            "rounds": point.rounds,
            "seconds": point.seconds,
            "seconds_all_threads": point.seconds_all_threads,
            "passes_p50_us": point.passes_p50_us,
            "passes_p99_us": point.passes_p99_us,
        })])
    }

    /// `engines.csv`: a row per engine.
    pub(super) fn rows(&self) -> Vec<FigureRow> {
        self.engines.iter().map(|run| self.engine_row(run)).collect()
    }

    fn engine_row(&self, run: &AnnEngineRun) -> FigureRow {
        let AnnEngineRun {
            described,
            index,
            first_pass,
            memory,
            ..
        } = run;
        join_figures([json!({
            "date": self.stamp.date,
            "revision": self.stamp.revision,
            "workload": self.workload.name,
            "engine": described.engine,
            "version": described.version,
            "settings": described.settings,
            "m": self.workload.m,
            "ef_construction": self.workload.ef_construction,
            "threads": self.workload.threads,
            "machine": self.machine.cpu,
            "build_s": index.built.build_s,
            "index_bytes": index.built.index_bytes,
            "index_reused": index.reused,
            "open_ms": run.open_ms,
            "page_cache": if self.cold { "cold" } else { "warm" },
            "memory_limit_bytes": self.memory_limit,
            "first_pass_value": first_pass.value,
            "first_query_us": first_pass.first_us,
            "first_pass_s": first_pass.seconds,
            "first_pass_p50_us": first_pass.p50_us,
            "first_pass_p99_us": first_pass.p99_us,
            "baseline_bytes": memory.baseline.rss_bytes,
            "opened_bytes": memory.opened.rss_bytes,
            "served_bytes": memory.served.rss_bytes,
            "evicted_bytes": memory.evicted.rss_bytes,
            "evicted_pass_bytes": memory.evicted_pass.rss_bytes,
        })])
    }

    /// A figure at each of the recalls at which engines are compared, where there is one.
    fn at_targets(&self, figure: impl Fn(f64) -> Option<Value>) -> Value {
        let targets = self.workload.targets.iter();
        by_name(targets.filter_map(|target| Some((target.to_string(), figure(*target)?))))
    }

    /// A figure of each peer.
    fn per_peer(&self, figure: impl Fn(&AnnEngineRun) -> Value) -> Value {
        by_name(self.peers().map(|peer| (peer.described.engine.clone(), figure(peer))))
    }

    /// All figures of an engine.
    fn summarize_engine(&self, run: &AnnEngineRun) -> Value {
        let curve = self.curve(run, SpeedKind::Batch);
        let mut engine = json!(self.engine_row(run));
        engine["qps_at"] = self.at_targets(|target| Some(json!(curve.qps_at(target).ok())));
        engine["points"] = json!(self.points_of(run));
        engine
    }

    /// The best of a family at each recall, and ours over it.
    fn summarize_family(&self, family: &EngineFamily) -> Value {
        let best = |speed, target| self.best(family, speed, target);
        let mut figures = json!({ "members": family.members });
        figures["best"] = self.at_targets(|target| {
            Some(json!(
                best(SpeedKind::Batch, target).map(|(run, _)| &run.described.engine)
            ))
        });
        for (key, speed) in RATIOS {
            figures[key] = self.at_targets(|target| Some(json!(best(speed, target).map(|(_, ratio)| ratio))));
        }
        figures
    }

    /// The first recall at which engines are compared.
    fn first_target(&self) -> f64 {
        self.workload.targets.first().copied().unwrap_or(0.0)
    }

    /// Headings of a table whose first columns are at the recalls.
    fn headings(&self, others: &[&str]) -> Vec<String> {
        let at_targets = self.workload.targets.iter().map(|target| format!("at {target}"));
        at_targets
            .chain(others.iter().map(|&heading| heading.to_owned()))
            .collect()
    }

    /// A table of every engine.
    fn engine_table(&self) -> TextTable {
        let others = [
            "p50 us",
            "p99 us",
            "build s",
            "index MB",
            "served MB",
            "evicted MB",
            "open ms",
            "first ms",
            "pass s",
        ];
        let mut table = TextTable::new("batch QPS", self.headings(&others));
        for run in &self.engines {
            table.push(&run.described.engine, self.figures(run));
        }
        table
    }

    /// An engine's figures: queries per second at each target, and the rest.
    fn figures(&self, run: &AnnEngineRun) -> Vec<String> {
        let curve = self.curve(run, SpeedKind::Batch);
        let built = &run.index.built;
        let others = [
            (
                FigureFormat::Decimals(0),
                json!(self.microseconds(run, SpeedKind::SingleP50)),
            ),
            (
                FigureFormat::Decimals(0),
                json!(self.microseconds(run, SpeedKind::SingleP99)),
            ),
            (FigureFormat::Decimals(1), json!(built.build_s)),
            (FigureFormat::Megabytes, json!(built.index_bytes)),
            (FigureFormat::Decimals(1), json!(run.megabytes(run.memory.served))),
            (FigureFormat::Decimals(1), json!(run.megabytes(run.memory.evicted_pass))),
            (FigureFormat::Decimals(2), json!(run.open_ms)),
            (FigureFormat::Decimals(2), json!(run.first_pass.first_us / 1e3)),
            (FigureFormat::Decimals(2), json!(run.first_pass.seconds)),
        ];
        let mut texts: Vec<String> = self
            .workload
            .targets
            .iter()
            .map(|target| shown_speed(curve.qps_at(*target)))
            .collect();
        texts.extend(others.iter().map(|(show, figure)| show.text(figure)));
        if run.index.reused {
            texts[self.workload.targets.len() + BUILD] += "*";
        }
        texts
    }

    /// Microseconds of a query at the first target, where it is reached.
    fn microseconds(&self, run: &AnnEngineRun, speed: SpeedKind) -> Option<f64> {
        let qps = self.curve(run, speed).qps_at(self.first_target()).ok()?;
        Some(1e6 / qps)
    }

    /// A table of ours over each peer's, and over the best of each family, which may be another one in each column.
    fn ratio_table(&self) -> TextTable {
        let first = self.first_target();
        let others: Vec<&str> = ["single call", "all threads"]
            .into_iter()
            .chain(OVER.map(|(heading, ..)| heading))
            .collect();
        let mut table = TextTable::new(&format!("{OURS} over"), self.headings(&others));
        for peer in self.peers() {
            let speeds = self
                .workload
                .targets
                .iter()
                .map(|target| match self.ratio(peer, SpeedKind::Batch, *target) {
                    Ok(ratio) => json!(ratio),
                    Err((name, _)) if name == OURS => json!("ours: none"),
                    Err(_) => json!("peer: none"),
                });
            let others =
                [SpeedKind::SingleP50, SpeedKind::BatchAllThreads].map(|speed| self.ratio(peer, speed, first).ok());
            let others = others
                .into_iter()
                .chain(OVER.map(|(.., figure)| self.over(peer, figure)));
            let figures = speeds.chain(others.map(|ratio| json!(ratio)));
            table.push(
                &peer.described.engine,
                figures.map(|figure| FigureFormat::Times.text(&figure)),
            );
        }
        for family in &self.families {
            let speeds = self.workload.targets.iter().map(|target| (SpeedKind::Batch, *target));
            let figures = speeds.chain([(SpeedKind::SingleP50, first), (SpeedKind::BatchAllThreads, first)]);
            let ratios = figures.map(|(speed, recall)| self.best(family, speed, recall).map(|(_, ratio)| ratio));
            table.push(
                &format!("best of {}", family.name),
                ratios.map(|ratio| FigureFormat::Times.text(&json!(ratio))),
            );
        }
        table
    }
}

impl Measurement for AnnMeasurement {
    fn record_name(&self) -> String {
        self.stamp.record(&self.workload.name)
    }

    fn files(&self) -> Vec<(&'static str, Vec<FigureRow>)> {
        vec![("points.csv", self.points()), ("engines.csv", self.rows())]
    }

    /// The workload, the ratios, and all that is needed to know what they are ratios of.
    ///
    /// `ratios` holds, per peer and recall, our queries per second over the peer's: the engine's batch call on one
    /// thread. `ratios_all_threads` is the same on all threads, `ratios_single_call` the peer's median time of a single
    /// call over ours. A recall that one of the two does not reach is `null` there and explained in `unreached`.
    /// `build_ratio`, `rss_ratio_served` (after all searches), `rss_ratio_evicted` (after full-precision vectors were
    /// evicted and one more pass) and `index_bytes_ratio` are ours over the peer's: below 1 is less; `null` where one
    /// of the two ends below the first recall. `build_ratio` is `null` also where an index was kept from an earlier
    /// run.
    fn summary(&self) -> Value {
        let mut summary = json!(self);
        for (key, speed) in RATIOS {
            summary[key] =
                self.per_peer(|peer| self.at_targets(|target| Some(json!(self.ratio(peer, speed, target).ok()))));
        }
        summary["unreached"] = self.per_peer(|peer| {
            self.at_targets(|target| {
                let (whose, why) = self.ratio(peer, SpeedKind::Batch, target).err()?;
                Some(format!("{whose}: {why}").into())
            })
        });
        for (_, key, figure) in OVER {
            summary[key] = self.per_peer(|peer| json!(self.over(peer, figure)));
        }
        let engines = self.engines.iter();
        summary["engines"] = by_name(engines.map(|run| (run.described.engine.clone(), self.summarize_engine(run))));
        let families = self.families.iter();
        summary["families"] = by_name(families.map(|family| (family.name.clone(), self.summarize_family(family))));
        summary["failures"] = texts_by_name(&self.failures);
        summary["skipped"] = texts_by_name(&self.skipped);
        summary
    }

    /// Every engine, then ours over each peer's.
    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self {
            workload,
            rows,
            dim,
            queries,
            machine,
            ..
        } = self;
        let AnnWorkload {
            name,
            metric,
            k,
            m,
            ef_construction,
            repeats,
            ..
        } = workload;
        let first = self.first_target();
        writeln!(
            out,
            "{name}: {rows} vectors of {dim} values ({}), {queries} queries, recall@{k}, M {m}, efConstruction {ef_construction}, \
             medians of {repeats} interleaved passes\n{}, kernels {}",
            metric.name(),
            machine.cpu,
            machine.kernels
        )?;
        match self.memory_limit {
            Some(bytes) => writeln!(
                out,
                "at most {} MiB for each engine from opening on, files cold\n",
                bytes >> 20
            )?,
            None if self.cold => writeln!(out, "files out of the page cache when they are opened\n")?,
            None => writeln!(out)?,
        }
        self.engine_table().write(out)?;
        writeln!(
            out,
            "QPS: the engine's batch call for all queries, one thread, at equal recall. p50, p99: one call per query, one thread, at \
             {first}.\nserved: resident after all searches, less the empty process; evicted: after mapped full-precision vectors were \
             dropped and one more pass. first, pass: the first call after opening, and the first pass of calls for all queries."
        )?;
        if self.engines.iter().any(|run| run.index.reused) {
            writeln!(
                out,
                "*: an index kept from an earlier run; its build time has no ratio."
            )?;
        }
        if self.peers().next().is_some() {
            writeln!(out)?;
            self.ratio_table().write(out)?;
            writeln!(
                out,
                "Above 1 is faster: batch QPS on one thread; at {first}, p50 of single calls, and batch QPS on all threads. Below 1 is \
                 less: build, index, memory."
            )?;
        }
        self.skipped
            .iter()
            .try_for_each(|(engine, reason)| writeln!(out, "\n{engine} skipped: {reason}"))?;
        self.failures
            .iter()
            .try_for_each(|(engine, error)| writeln!(out, "\n{engine} failed: {error}"))
    }

    fn failed(&self) -> Vec<String> {
        self.failures.iter().map(|(name, _)| name.clone()).collect()
    }
}

/// Queries per second, or why there are none in the space of a figure.
fn shown_speed(speed: Result<f64, String>) -> String {
    match speed {
        Ok(qps) => format!("{qps:.0}"),
        Err(why) => why
            .replace("begins at", "from")
            .replace("reaches only", "to")
            .replace("no points", "-"),
    }
}
