//! `cells.csv`, one run as rows that later runs can be compared with; `summary.json`; and the figures for people.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::measured::{CellPoint, CellRun, FilterGoal, FilterRun, ratio};
use crate::ann::cells::FilterSettings;
use crate::ann::workload::AnnWorkload;
use crate::harness::{
    FigureFormat, FigureRow, Measurement, OURS, ShownColumn, TextTable, by_name, extremes, join_figures, per_second,
    texts_by_name,
};

/// Ratios of our engines.
const RATIOS: [ShownColumn<'static>; 3] = [
    ShownColumn::new("over_unfiltered", "over unfiltered", FigureFormat::Times),
    ShownColumn::new("over_exact", "over exact", FigureFormat::Times),
    ShownColumn::new("over_qdrant_edge", "over qdrant-edge", FigureFormat::Times),
];

impl FilterRun {
    fn row(&self, run: &CellRun, point: &CellPoint) -> FigureRow {
        let described = self.described(&point.engine);
        let (fastest, slowest) = extremes(&point.seconds);
        join_figures([json!({
            "date": self.stamp.date,
            "revision": self.stamp.revision,
            "workload": self.workload.name,
            "selectivity": run.cell.selectivity,
            "correlation": run.cell.correlation,
            "shape": run.cell.shape,
            "passing": run.passing,
            "lift": run.lift,
            "engine": point.engine,
            "version": described.map(|described| &described.version),
            "sweep": described.map(|described| &described.more.sweep),
            "value": point.value,
            "recall": point.recall,
            "reached": point.reached,
            "short": point.short,
            "qps": point.qps(self.queries),
            "qps_lowest": per_second(self.queries, slowest),
            "qps_highest": per_second(self.queries, fastest),
            "unfiltered_value": point.unfiltered_value,
            "unfiltered_qps": point.unfiltered_qps(self.queries),
            "over_unfiltered": point.over_unfiltered(),
            "over_exact": run.exact(&point.engine).and_then(|exact| ratio(point, exact)),
            "over_qdrant_edge": self.rival(&point.engine, run).and_then(|rival| ratio(point, rival)),
            "repeats": point.seconds.len(),
            "machine": self.machine.cpu,
            "seconds": point.seconds,
            "unfiltered_seconds": point.unfiltered_seconds,
        })])
    }

    /// A figure of each of our engines.
    fn per_own(&self, figure: impl Fn(&str) -> Value) -> Value {
        by_name(self.own().map(|name| (name.to_owned(), figure(name))))
    }

    /// Speeds of one of our engines over another's, over all cells.
    fn summarize_ratios(&self, ours: &str, other: &str) -> Option<Value> {
        let (cells, [least, median, most]) = self.over(ours, other)?;
        Some(json!({ "cells": cells, "least": least, "median": median, "most": most }))
    }

    /// Engines that one of ours is compared with: our others, and the peers to which filters come as they come to it.
    fn others<'a>(&'a self, ours: &'a str) -> impl Iterator<Item = &'a str> {
        let names = self.engines.iter().map(|described| described.engine.as_str());
        names.filter(move |other| *other != ours && (other.starts_with(OURS) || self.compares(ours, other)))
    }

    /// Speed and recall of every engine in every cell.
    fn cell_table(&self) -> TextTable {
        let engines = || self.engines.iter().map(|described| described.engine.as_str());
        let mut table = TextTable::new("QPS and recall", engines());
        for cell in &self.cells {
            table.push(
                &cell.cell.to_string(),
                engines().map(|engine| self.cell_text(cell.point(engine))),
            );
        }
        table
    }

    fn cell_text(&self, point: Option<&CellPoint>) -> String {
        let Some(point) = point else { return "-".to_owned() };
        let marks = [
            if point.reached { "" } else { "*" },
            if point.short > 0 { "!" } else { "" },
        ]
        .concat();
        format!("{:.0} {:.3}{marks:<2}", point.qps(self.queries), point.recall)
    }

    /// Ratios of one of our engines in every cell.
    fn ratio_table(&self, ours: &str) -> TextTable {
        let mut table = TextTable::of_columns(&format!("{ours}, times"), &RATIOS);
        for cell in &self.cells {
            if let Some(point) = cell.point(ours) {
                table.push_row(&cell.cell.to_string(), &RATIOS, &self.row(cell, point));
            }
        }
        table
    }
}

impl Measurement for FilterRun {
    fn record_name(&self) -> String {
        self.stamp.record(&self.workload.name)
    }

    /// `cells.csv`: a row per cell and engine.
    fn files(&self) -> Vec<(&'static str, Vec<FigureRow>)> {
        let mut rows = Vec::new();
        for cell in &self.cells {
            rows.extend(cell.points.iter().map(|point| self.row(cell, point)));
        }
        vec![("cells.csv", rows)]
    }

    /// The workload; `goals` of our engines; `ratios`, which are the smallest, middle and largest of our speeds over
    /// those of the engines that they are compared with, in the cells where both reach the recall; `cells`, with all
    /// figures by engine; and failures.
    fn summary(&self) -> Value {
        let mut summary = json!(self);
        summary["goals"] = self.per_own(|name| json!(self.goals(name)));
        summary["ratios"] = self.per_own(|name| {
            by_name(
                self.others(name)
                    .filter_map(|other| Some((other.to_owned(), self.summarize_ratios(name, other)?))),
            )
        });
        summary["cells"] = by_name(self.cells.iter().map(|cell| {
            let engines = cell
                .points
                .iter()
                .map(|point| (point.engine.clone(), self.row(cell, point).into()));
            (cell.cell.to_string(), by_name(engines))
        }));
        summary["engines"] = json!(self.engines);
        summary["failures"] = texts_by_name(&self.failures);
        summary
    }

    /// Every cell, ratios of our engines, and the goals.
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
            filter,
            ..
        } = workload;
        let &FilterSettings { groups, recall, .. } = filter;
        writeln!(
            out,
            "{name}: {rows} vectors of {dim} values ({}), {queries} queries in {groups} groups, recall@{k}, M {m}, efConstruction \
             {ef_construction}, medians of {repeats} interleaved passes\n{}, kernels {}\n",
            metric.name(),
            machine.cpu,
            machine.kernels
        )?;
        self.cell_table().write(out)?;
        writeln!(
            out,
            "At the smallest value of the sweep parameter whose recall is at least {recall}; *: none is, and this is the best recall. !: \
             in some search of the cell a query had fewer hits than it should."
        )?;
        for ours in self.own() {
            writeln!(out)?;
            self.ratio_table(ours).write(out)?;
        }
        for ours in self.own() {
            writeln!(out, "\ngoals of {ours}: cells that meet them, and the worst")?;
            for FilterGoal {
                goal,
                cells,
                met,
                worst,
            } in self.goals(ours)
            {
                let worst = worst.map_or_else(String::new, |(cell, figure)| format!("   {figure:.3} at {cell}"));
                writeln!(out, "{goal:<60} {met:>3} of {cells}{worst}")?;
            }
            for other in self.others(ours).filter(|other| !other.starts_with(OURS)) {
                if let Some((cells, [least, median, most])) = self.over(ours, other) {
                    let range = format!("{least:.2} to {most:.2}, median {median:.2}");
                    writeln!(
                        out,
                        "QPS over {other} in the {cells} cells where both reach {recall}: {range}"
                    )?;
                }
            }
        }
        self.failures
            .iter()
            .try_for_each(|(engine, error)| writeln!(out, "\n{engine} failed: {error}"))
    }

    fn failed(&self) -> Vec<String> {
        self.failures.iter().map(|(name, _)| name.clone()).collect()
    }
}
