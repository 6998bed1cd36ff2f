//! What the rows are given for filters to read, derived from the vectors and a seed; and which rows pass.
//!
//! Queries are in groups around anchors, which are queries too; each joins its nearest anchor. Every group orders the rows in three
//! ways: nearest to the anchor first, farthest first, and at random. A filter of a group passes the first rows of an order, so that
//! its selectivity is exact, and those of one selectivity contain those of a smaller one.
//!
//! | field | value of a row |
//! |---|---|
//! | `CORRELATION_GROUP` | its place in that order, in ten-thousandths of the rows, rounded down: for `range` |
//! | `equals_CORRELATION_PARTS` | the groups, as texts, whose filter of that selectivity it passes |
//! | `first_CORRELATION_PARTS`, `second_...` | the groups of whose `and` it meets that condition |
//!
//! The first condition of `and` holds for a share of the order as large as the square root of the selectivity, the second for an equal
//! share of those rows and of all others, chosen at random.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, json};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::ann::cells::{Cell, Correlation, MAX_GROUPS, PARTS, Shape};
use crate::ann::protocol::Condition;
use crate::dataset::{Matrix, Metric};
use crate::error::{Error, Result};

/// Streams of hashes under a seed.
const ANCHORS: u64 = 0;
const ROWS: u64 = 1;
const SECOND: u64 = 2;

/// The orders of all groups.
pub(super) struct Attributes {
    rows: usize,
    seed: u64,
    cells: Vec<Cell>,
    /// Numbers of the queries of each group.
    pub(super) groups: Vec<Vec<usize>>,
    /// Rows by correlation and group, those that pass first.
    orders: BTreeMap<(Correlation, usize), Vec<u32>>,
}

/// The filter of a cell for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Filter {
    /// Rows that pass, ascending.
    pub(super) rows: Vec<u32>,
    /// The conditions that they meet.
    pub(super) all: Vec<Condition>,
}

impl Attributes {
    /// Derives them for these cells. There must be at least as many queries as groups.
    pub(super) fn derive(
        (base, queries, metric): (&Matrix, &Matrix, Metric),
        cells: Vec<Cell>,
        groups: usize,
        seed: u64,
    ) -> Result<Self> {
        if groups > queries.len() {
            let problem = format!("expected at most as many as queries, {}, got {groups}", queries.len());
            return Err(Error::Refused(format!("`groups`: {problem}")));
        }
        let mut anchors = by_hash(seed, ANCHORS, 0, (0..queries.len() as u32).collect());
        anchors.truncate(groups);
        let mut members = vec![Vec::new(); groups];
        for (number, query) in queries.rows().enumerate() {
            let score = |group: &usize| metric.score(query, queries.row(anchors[*group] as usize));
            // Of equally near ones the first.
            let nearest = (0..groups).rev().max_by(|left, right| score(left).total_cmp(&score(right)));
            members[nearest.unwrap_or(0)].push(number);
        }
        let mut orders = BTreeMap::new();
        for (group, anchor) in anchors.iter().enumerate() {
            let anchor = queries.row(*anchor as usize);
            let scores: Vec<f64> = base.rows().map(|row| metric.score(anchor, row)).collect();
            let mut nearest: Vec<u32> = (0..base.len() as u32).collect();
            nearest.sort_by(|left, right| scores[*right as usize].total_cmp(&scores[*left as usize]));
            orders.insert((Correlation::Negative, group), nearest.iter().rev().copied().collect());
            orders.insert((Correlation::None, group), by_hash(seed, ROWS, group, nearest.clone()));
            orders.insert((Correlation::Positive, group), nearest);
        }
        // Of two anchors with the same vector one may be left without queries.
        let kept: Vec<usize> = (0..groups).filter(|group| !members[*group].is_empty()).collect();
        let orders = orders.into_iter().filter_map(|((correlation, group), order)| {
            Some(((correlation, kept.iter().position(|kept| *kept == group)?), order))
        });
        let orders = orders.collect();
        members.retain(|members| !members.is_empty());
        Ok(Self { rows: base.len(), seed, cells, groups: members, orders })
    }

    fn order(&self, cell: Cell, group: usize) -> &[u32] {
        self.orders.get(&(cell.correlation, group)).map_or(&[], Vec::as_slice)
    }

    /// The rows that meet the two conditions of `and`: each of them, and both.
    fn pair(&self, cell: Cell, group: usize) -> [Vec<u32>; 3] {
        let both = cell.passing(self.rows);
        let share = (cell.parts() as f64 / PARTS as f64).sqrt();
        let first = ((self.rows as f64 * share).round() as usize).clamp(both, self.rows);
        let (inside, outside) = self.order(cell, group).split_at(first);
        let stream = SECOND + 1 + cell.parts() as u64 * 3 + cell.correlation as u64;
        let mut second = by_hash(self.seed, stream, group, inside.to_vec());
        second.truncate(both);
        let passing = second.clone();
        let mut others = by_hash(self.seed, stream, group, outside.to_vec());
        others.truncate((outside.len() as f64 * both as f64 / first as f64).round() as usize);
        second.append(&mut others);
        [inside.to_vec(), second, passing]
    }

    /// The filter of a cell for the queries of a group.
    pub(super) fn filter(&self, cell: Cell, group: usize) -> Filter {
        let equals = |name: &str| Condition::Equals { field: texts(name, cell), value: mark(group) };
        let first = || self.order(cell, group)[..cell.passing(self.rows)].to_vec();
        let (mut rows, all) = match cell.shape {
            Shape::Equals => (first(), vec![equals("equals")]),
            Shape::And => {
                let [.., both] = self.pair(cell, group);
                (both, vec![equals("first"), equals("second")])
            }
            Shape::Range => {
                let (field, bound) = (place(cell.correlation, group), cell.parts() as u32);
                (first(), vec![Condition::Below { field, bound }])
            }
        };
        rows.sort_unstable();
        Filter { rows, all }
    }

    /// Writes a line per row, as the protocol has it; returns a hash of all of them.
    pub(super) fn write(&self, path: &Path) -> Result<String> {
        let (texts, places) = (self.texts(), self.places());
        let mut out = std::io::BufWriter::new(fs_err::File::create(path)?);
        let mut hash = Xxh3::new();
        for row in 0..self.rows {
            let mut metadata = Map::new();
            for (field, groups) in &texts {
                let groups: Vec<String> =
                    (0..MAX_GROUPS).filter(|group| groups[row] >> group & 1 == 1).map(mark).collect();
                if !groups.is_empty() {
                    metadata.insert(field.clone(), groups.into());
                }
            }
            metadata.extend(places.iter().map(|(field, places)| (field.clone(), places[row].into())));
            let line = json!({ "_id": row.to_string(), "text": format!("row {row}"), "metadata": metadata });
            let line = format!("{line}\n");
            hash.update(line.as_bytes());
            out.write_all(line.as_bytes())?;
        }
        out.flush()?;
        Ok(format!("{:032x}", hash.digest128()))
    }

    /// Fields whose texts are groups: of every row the groups, a bit each.
    fn texts(&self) -> BTreeMap<String, Vec<u64>> {
        let mut fields = BTreeMap::new();
        let mut add = |name: &str, cell: Cell, group: usize, rows: &[u32]| {
            let field = fields.entry(texts(name, cell)).or_insert_with(|| vec![0u64; self.rows]);
            rows.iter().for_each(|row| field[*row as usize] |= 1 << group);
        };
        for &cell in &self.cells {
            for group in 0..self.groups.len() {
                match cell.shape {
                    Shape::Equals => add("equals", cell, group, &self.filter(cell, group).rows),
                    Shape::And => {
                        let [first, second, _] = self.pair(cell, group);
                        add("first", cell, group, &first);
                        add("second", cell, group, &second);
                    }
                    Shape::Range => {}
                }
            }
        }
        fields
    }

    /// Fields with places in an order, by row.
    fn places(&self) -> BTreeMap<String, Vec<u32>> {
        let mut fields = BTreeMap::new();
        for (&(correlation, group), order) in &self.orders {
            if !self.cells.iter().any(|cell| cell.shape == Shape::Range && cell.correlation == correlation) {
                continue;
            }
            let mut places = vec![0; self.rows];
            for (at, row) in order.iter().enumerate() {
                places[*row as usize] = (at * PARTS / self.rows) as u32;
            }
            fields.insert(place(correlation, group), places);
        }
        fields
    }
}

/// The field whose texts are groups.
fn texts(name: &str, cell: Cell) -> String {
    format!("{name}_{}_{}", cell.correlation.name(), cell.parts())
}

/// The text of a group.
fn mark(group: usize) -> String {
    format!("group-{group}")
}

/// The field with a row's place in an order.
fn place(correlation: Correlation, group: usize) -> String {
    format!("{}_{group}", correlation.name())
}

/// Puts numbers in a random order, which depends on seed, stream and group alone.
fn by_hash(seed: u64, stream: u64, group: usize, mut numbers: Vec<u32>) -> Vec<u32> {
    let seed = xxh3_64_with_seed(&[stream.to_le_bytes(), (group as u64).to_le_bytes()].concat(), seed);
    numbers.sort_by_cached_key(|number| (xxh3_64_with_seed(&number.to_le_bytes(), seed), *number));
    numbers
}

#[cfg(test)]
mod tests;
