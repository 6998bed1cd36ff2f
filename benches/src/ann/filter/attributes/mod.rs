//! What the rows are given for filters to read, derived from the vectors and a seed; and which rows pass.
//!
//! Queries are in groups around anchors, which are queries too; each joins its nearest anchor. Every group orders the
//! rows in two ways: nearest to the anchor first, and farthest first. A third order, at random, is that of all groups.
//! A filter passes the first rows of an order, so that its selectivity is exact.
//!
//! | field | value of a row |
//! |---|---|
//! | `none_0`, `positive_GROUP`, `negative_GROUP` | its place in that order, in ten-thousandths of the rows, rounded down: for `range` |
//! | `equals_CORRELATION_PARTS` | texts, one for each group whose filter of that selectivity it passes |
//! | `first_CORRELATION_PARTS` | the same of the first condition of `and` |
//! | `second_PARTS` | a text, where it meets the second one |
//!
//! The second condition of `and` holds for rows at random, as many as the square root of the selectivity says; the
//! first one for as many of the first rows of an order as it takes to have the wanted number meet both: about as many
//! again.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use serde_json::{Map, json};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

use crate::ann::cells::{ConditionShape, FilterCell, FilterCorrelation, MAX_GROUPS, PARTS};
use crate::ann::protocol::FilterCondition;
use crate::dataset::{Matrix, VectorMetric};
use crate::error::{BenchError, BenchResult};

/// Streams of hashes under a seed.
const ANCHORS: u64 = 0;
const ROWS: u64 = 1;
const SECOND: u64 = 2;

/// The orders of all groups.
pub(super) struct RowAttributes {
    rows: usize,
    cells: Vec<FilterCell>,
    /// Numbers of the queries of each group.
    pub(super) groups: Vec<Vec<usize>>,
    /// Rows by correlation and group, those that pass first; without correlation only those of group 0.
    orders: BTreeMap<(FilterCorrelation, usize), Vec<u32>>,
    /// All rows; the first of them meet the second condition of `and`.
    second: Vec<u32>,
}

/// The filter of a cell for one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupFilter {
    /// Rows that pass, ascending.
    pub(super) rows: Vec<u32>,
    /// The conditions that they meet.
    pub(super) all: Vec<FilterCondition>,
}

impl RowAttributes {
    /// Derives them for these cells. There must be at least as many queries as groups.
    pub(super) fn derive(
        base: &Matrix,
        queries: &Matrix,
        metric: VectorMetric,
        cells: Vec<FilterCell>,
        groups: usize,
        seed: u64,
    ) -> BenchResult<Self> {
        if groups > queries.len() {
            let problem = format!("expected at most as many as queries, {}, got {groups}", queries.len());
            return Err(BenchError::Refused(format!("`groups`: {problem}")));
        }
        let mut anchors = by_hash(seed, ANCHORS, queries.len());
        anchors.truncate(groups);
        let mut members = vec![Vec::new(); groups];
        for (number, query) in queries.rows().enumerate() {
            let score = |group: &usize| metric.score(query, queries.row(anchors[*group] as usize));
            // Of equally near ones the first.
            let nearest = (0..groups)
                .rev()
                .max_by(|left, right| score(left).total_cmp(&score(right)));
            members[nearest.unwrap_or(0)].push(number);
        }
        // Of two anchors with the same vector one is left without queries.
        let groups = anchors.iter().zip(members).filter(|(_, members)| !members.is_empty());
        let (anchors, groups): (Vec<u32>, Vec<Vec<usize>>) = groups.unzip();
        let mut orders = BTreeMap::from([((FilterCorrelation::None, 0), by_hash(seed, ROWS, base.len()))]);
        for (group, anchor) in anchors.into_iter().enumerate() {
            let anchor = queries.row(anchor as usize);
            let scores: Vec<f64> = base.rows().map(|row| metric.score(anchor, row)).collect();
            let mut nearest: Vec<u32> = (0..base.len() as u32).collect();
            nearest.sort_by(|left, right| scores[*right as usize].total_cmp(&scores[*left as usize]));
            orders.insert(
                (FilterCorrelation::Negative, group),
                nearest.iter().rev().copied().collect(),
            );
            orders.insert((FilterCorrelation::Positive, group), nearest);
        }
        let second = by_hash(seed, SECOND, base.len());
        Ok(Self {
            rows: base.len(),
            cells,
            groups,
            orders,
            second,
        })
    }

    fn order(&self, cell: FilterCell, group: usize) -> &[u32] {
        self.orders
            .get(&(cell.correlation, set(cell.correlation, group)))
            .map_or(&[], Vec::as_slice)
    }

    /// The rows that meet the two conditions of `and`: each of them, and both.
    fn pair(&self, cell: FilterCell, group: usize) -> [Vec<u32>; 3] {
        let wanted = cell.passing(self.rows);
        let share = (cell.parts() as f64 / PARTS as f64).sqrt();
        let second = &self.second[..((self.rows as f64 * share).round() as usize).clamp(wanted, self.rows)];
        let mut meets = vec![false; self.rows];
        for row in second {
            meets[*row as usize] = true;
        }
        let (mut first, mut both) = (Vec::new(), Vec::new());
        for row in self.order(cell, group) {
            if both.len() == wanted {
                break;
            }
            first.push(*row);
            both.extend(Some(*row).filter(|row| meets[*row as usize]));
        }
        [first, second.to_vec(), both]
    }

    /// The filter of a cell for the queries of a group.
    pub(super) fn filter(&self, cell: FilterCell, group: usize) -> GroupFilter {
        let equals = |name: &str| FilterCondition::Equals {
            field: texts(name, cell),
            value: text(set(cell.correlation, group)),
        };
        let first = || self.order(cell, group)[..cell.passing(self.rows)].to_vec();
        let (mut rows, all) = match cell.shape {
            ConditionShape::Equals => (first(), vec![equals("equals")]),
            ConditionShape::And => {
                let [.., both] = self.pair(cell, group);
                (
                    both,
                    vec![
                        equals("first"),
                        FilterCondition::Equals {
                            field: second(cell),
                            value: text(0),
                        },
                    ],
                )
            }
            ConditionShape::Range => {
                let (field, bound) = (
                    place(cell.correlation, set(cell.correlation, group)),
                    cell.parts() as u32,
                );
                (first(), vec![FilterCondition::Below { field, bound }])
            }
        };
        rows.sort_unstable();
        GroupFilter { rows, all }
    }

    /// Writes a line per row, as the protocol has it; returns a hash of all of them.
    pub(super) fn write(&self, path: &Path) -> BenchResult<String> {
        let (texts, places) = (self.texts(), self.places());
        let mut out = std::io::BufWriter::new(fs_err::File::create(path)?);
        let mut hash = Xxh3::new();
        for row in 0..self.rows {
            let mut metadata = Map::new();
            for (field, groups) in &texts {
                let groups: Vec<String> = (0..MAX_GROUPS)
                    .filter(|group| groups[row] >> group & 1 == 1)
                    .map(text)
                    .collect();
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

    /// Fields of texts: of every row its texts, by number a bit each.
    fn texts(&self) -> BTreeMap<String, Vec<u64>> {
        let mut fields = BTreeMap::new();
        let mut add = |field: String, set: usize, rows: &[u32]| {
            let field = fields.entry(field).or_insert_with(|| vec![0u64; self.rows]);
            for row in rows {
                field[*row as usize] |= 1 << set;
            }
        };
        for &cell in &self.cells {
            for group in 0..self.groups.len() {
                let set = set(cell.correlation, group);
                match cell.shape {
                    ConditionShape::Equals => add(texts("equals", cell), set, &self.filter(cell, group).rows),
                    ConditionShape::And => {
                        let [first, both, _] = self.pair(cell, group);
                        add(texts("first", cell), set, &first);
                        add(second(cell), 0, &both);
                    }
                    ConditionShape::Range => {}
                }
            }
        }
        fields
    }

    /// Fields with places in an order, by row.
    fn places(&self) -> BTreeMap<String, Vec<u32>> {
        let mut fields = BTreeMap::new();
        for (&(correlation, group), order) in &self.orders {
            if !self
                .cells
                .iter()
                .any(|cell| cell.shape == ConditionShape::Range && cell.correlation == correlation)
            {
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

/// The order of a group: without correlation all have the same.
fn set(correlation: FilterCorrelation, group: usize) -> usize {
    if correlation == FilterCorrelation::None {
        0
    } else {
        group
    }
}

/// The field with a text per group.
fn texts(name: &str, cell: FilterCell) -> String {
    format!("{name}_{}_{}", cell.correlation.name(), cell.parts())
}

/// The field of the second condition of `and`.
fn second(cell: FilterCell) -> String {
    format!("second_{}", cell.parts())
}

fn text(set: usize) -> String {
    format!("set-{set}")
}

/// The field with a row's place in an order.
fn place(correlation: FilterCorrelation, group: usize) -> String {
    format!("{}_{group}", correlation.name())
}

/// The numbers below a count in a random order, which depends on seed and stream alone.
fn by_hash(seed: u64, stream: u64, count: usize) -> Vec<u32> {
    let seed = xxh3_64_with_seed(&stream.to_le_bytes(), seed);
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    numbers.sort_by_cached_key(|number| (xxh3_64_with_seed(&number.to_le_bytes(), seed), *number));
    numbers
}

#[cfg(test)]
mod tests;
