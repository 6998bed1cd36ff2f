//! `cells.csv`, one run as rows that later runs can be compared with; `summary.json`; and the figures for people.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::measured::{CellRun, FilterRun, Goal, Point, ratio};
use crate::ann::cells::Filters;
use crate::ann::workload::Workload;
use crate::harness::{OURS, Row, Show, extremes, per_second, row};

/// Characters of a cell's name, and of a figure.
const NAME: usize = 26;
const FIGURE: usize = 18;

type Of<'a> = (&'a FilterRun, &'a CellRun, &'a Point);
type Column = (&'static str, fn(&Of<'_>) -> Value);

const COLUMNS: &[Column] = &[
    ("date", |(run, ..)| json!(run.stamp.date)),
    ("revision", |(run, ..)| json!(run.stamp.revision)),
    ("workload", |(run, ..)| json!(run.workload.name)),
    ("selectivity", |(_, cell, _)| json!(cell.cell.selectivity)),
    ("correlation", |(_, cell, _)| json!(cell.cell.correlation)),
    ("shape", |(_, cell, _)| json!(cell.cell.shape)),
    ("passing", |(_, cell, _)| json!(cell.passing)),
    ("lift", |(_, cell, _)| json!(cell.lift)),
    ("engine", |(.., point)| json!(point.engine)),
    ("version", |(run, _, point)| json!(run.described(&point.engine).map(|described| &described.version))),
    ("sweep", |(run, _, point)| json!(run.described(&point.engine).map(|described| &described.more.sweep))),
    ("value", |(.., point)| json!(point.value)),
    ("recall", |(.., point)| json!(point.recall)),
    ("reached", |(.., point)| json!(point.reached)),
    ("short", |(.., point)| json!(point.short)),
    ("qps", |(run, _, point)| json!(point.qps(run.queries))),
    ("qps_lowest", |(run, _, point)| json!(per_second(run.queries, extremes(&point.seconds).1))),
    ("qps_highest", |(run, _, point)| json!(per_second(run.queries, extremes(&point.seconds).0))),
    ("unfiltered_value", |(.., point)| json!(point.unfiltered_value)),
    ("unfiltered_qps", |(run, _, point)| json!(point.unfiltered_qps(run.queries))),
    ("over_unfiltered", |(.., point)| json!(point.over_unfiltered())),
    ("over_exact", |(_, cell, point)| json!(cell.exact(&point.engine).and_then(|exact| ratio(point, exact)))),
    ("over_qdrant_edge", |(run, cell, point)| {
        json!(run.rival(&point.engine, cell).and_then(|rival| ratio(point, rival)))
    }),
    ("repeats", |(.., point)| json!(point.seconds.len())),
    ("machine", |(run, ..)| json!(run.machine.cpu)),
    ("seconds", |(.., point)| json!(point.seconds)),
    ("unfiltered_seconds", |(.., point)| json!(point.unfiltered_seconds)),
];

/// Ratios of the table: headings and columns.
const RATIOS: [(&str, &str); 3] =
    [("over unfiltered", "over_unfiltered"), ("over exact", "over_exact"), ("over qdrant-edge", "over_qdrant_edge")];

impl FilterRun {
    /// `cells.csv`: a row per cell and engine.
    pub fn rows(&self) -> Vec<Row> {
        self.cells
            .iter()
            .flat_map(|cell| cell.points.iter().map(move |point| row(COLUMNS, &(self, cell, point))))
            .collect()
    }

    /// `summary.json`: the workload; `goals` of our engines; `ratios`, which are the smallest, middle and largest of our speeds over those
    /// of the engines that they are compared with, in the cells where both reach the recall; `cells`, with all figures by engine; and failures.
    pub fn summary(&self) -> Value {
        let own = |value: &dyn Fn(&str) -> Value| -> Value {
            self.own().map(|name| (name.to_owned(), value(name))).collect::<Map<_, _>>().into()
        };
        let mut summary = json!(self);
        summary["goals"] = own(&|name| json!(self.goals(name)));
        summary["ratios"] = own(&|name| {
            let over = |other: &str| {
                let (cells, [least, median, most]) = self.over(name, other)?;
                Some((other.to_owned(), json!({ "cells": cells, "least": least, "median": median, "most": most })))
            };
            self.others(name).filter_map(over).collect::<Map<_, _>>().into()
        });
        let cell = |cell: &CellRun| {
            let engines: Map<_, _> = cell
                .points
                .iter()
                .map(|point| (point.engine.clone(), row(COLUMNS, &(self, cell, point)).into()))
                .collect();
            (cell.cell.to_string(), engines.into())
        };
        summary["cells"] = self.cells.iter().map(cell).collect::<Map<String, Value>>().into();
        summary["engines"] = json!(self.engines);
        summary["failures"] =
            self.failures.iter().map(|(name, error)| (name.clone(), json!(error))).collect::<Map<_, _>>().into();
        summary
    }

    /// Engines that one of ours is compared with: our others, and the peers to which filters come as they come to it.
    fn others<'a>(&'a self, ours: &'a str) -> impl Iterator<Item = &'a str> {
        let names = self.engines.iter().map(|described| described.engine.as_str());
        names.filter(move |other| *other != ours && (other.starts_with(OURS) || self.compares(ours, other)))
    }

    /// Prints every cell, ratios of our engines, and the goals.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { workload, rows, dim, queries, machine, .. } = self;
        let Workload { name, metric, k, m, ef_construction, repeats, filter, .. } = workload;
        let &Filters { groups, recall, .. } = filter;
        writeln!(
            out,
            "{name}: {rows} vectors of {dim} values ({}), {queries} queries in {groups} groups, recall@{k}, M {m}, efConstruction \
             {ef_construction}, medians of {repeats} interleaved passes\n{}, kernels {}\n",
            metric.name(),
            machine.cpu,
            machine.kernels
        )?;
        let engines: Vec<&str> = self.engines.iter().map(|described| described.engine.as_str()).collect();
        line(out, "QPS and recall", engines.iter().map(|&engine| engine.to_owned()))?;
        for cell in &self.cells {
            let figure = |engine: &&str| match cell.point(engine) {
                Some(point) => {
                    let marks = [(!point.reached, "*"), (point.short > 0, "!")];
                    let marks: String = marks.iter().filter(|(marked, _)| *marked).map(|(_, mark)| *mark).collect();
                    format!("{:.0} {:.3}{marks:<2}", point.qps(self.queries), point.recall)
                }
                None => "-".to_owned(),
            };
            line(out, &cell.cell.to_string(), engines.iter().map(figure))?;
        }
        writeln!(
            out,
            "At the smallest value of the sweep parameter whose recall is at least {recall}; *: none is, and this is the best recall. !: \
             in some search of the cell a query had fewer hits than it should."
        )?;
        for ours in self.own() {
            writeln!(out)?;
            line(out, &format!("{ours}, times"), RATIOS.map(|(heading, _)| heading.to_owned()))?;
            for cell in &self.cells {
                let Some(point) = cell.point(ours) else { continue };
                let figures = row(COLUMNS, &(self, cell, point));
                let figure = |(_, column)| Show::Times.text(figures.get(column).unwrap_or(&Value::Null));
                line(out, &cell.cell.to_string(), RATIOS.map(figure))?;
            }
        }
        for ours in self.own() {
            writeln!(out, "\ngoals of {ours}: cells that meet them, and the worst")?;
            for Goal { goal, cells, met, worst } in self.goals(ours) {
                let worst = worst.map_or_else(String::new, |(cell, figure)| format!("   {figure:.3} at {cell}"));
                writeln!(out, "{goal:<60} {met:>3} of {cells}{worst}")?;
            }
            for other in self.others(ours).filter(|other| !other.starts_with(OURS)) {
                if let Some((cells, [least, median, most])) = self.over(ours, other) {
                    let range = format!("{least:.2} to {most:.2}, median {median:.2}");
                    writeln!(out, "QPS over {other} in the {cells} cells where both reach {recall}: {range}")?;
                }
            }
        }
        self.failures.iter().try_for_each(|(engine, error)| writeln!(out, "\n{engine} failed: {error}"))
    }
}

fn line(out: &mut impl Write, name: &str, figures: impl IntoIterator<Item = String>) -> io::Result<()> {
    let figures: Vec<String> = figures.into_iter().map(|figure| format!("{figure:>FIGURE$}")).collect();
    writeln!(out, "{}", format!("{name:<NAME$}{}", figures.concat()).trim_end())
}
