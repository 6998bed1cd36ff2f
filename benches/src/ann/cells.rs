//! Which filters `dyad-bench filter` searches under: every selectivity with every correlation and shape, a cell each.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// Rows are told apart by ten-thousandths of their number.
pub(super) const PARTS: usize = 10_000;
/// Most groups of queries.
pub(super) const MAX_GROUPS: usize = 64;
/// Percents of a workload that names none.
const SELECTIVITIES: [f64; 7] = [50.0, 20.0, 10.0, 4.0, 1.0, 0.1, 0.01];
/// Engines of a workload that names none.
const ENGINES: [&str; 8] = [
    "dyad",
    "dyad-index",
    "dyad-exact",
    "dyad-index-exact",
    "faiss",
    "qdrant-edge",
    "qdrant-edge-acorn",
    "zvec",
];

/// How the rows that pass lie to the questions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum FilterCorrelation {
    /// Anywhere.
    None,
    /// Those nearest to a question like them.
    Positive,
    /// Those farthest from it.
    Negative,
}

/// The condition that the rows that pass meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ConditionShape {
    /// A field has a value.
    Equals,
    /// Two fields have a value each; about the square root of the selectivity meets each of them alone.
    And,
    /// A number is below a bound.
    Range,
}

impl FilterCorrelation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Positive => "positive",
            Self::Negative => "negative",
        }
    }
}

impl ConditionShape {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Equals => "equals",
            Self::And => "and",
            Self::Range => "range",
        }
    }
}

/// One kind of filter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FilterCell {
    /// Percent of the rows that pass.
    pub selectivity: f64,
    /// Which ones.
    pub correlation: FilterCorrelation,
    /// The condition that they meet.
    pub shape: ConditionShape,
}

impl FilterCell {
    /// Its selectivity in parts of [`PARTS`].
    pub(super) fn parts(self) -> usize {
        parts(self.selectivity)
    }

    /// Rows of `rows` that pass: at least one.
    pub(super) fn passing(self, rows: usize) -> usize {
        (rows * self.parts()).div_ceil(PARTS)
    }
}

impl Display for FilterCell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} % {} {}",
            self.selectivity,
            self.correlation.name(),
            self.shape.name()
        )
    }
}

fn parts(percent: f64) -> usize {
    (percent / 100.0 * PARTS as f64).round() as usize
}

/// The part of a workload that is about filters. `benches/workloads/README.md` says what every key means.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FilterSettings {
    /// Groups of queries, each with filters of its own.
    pub groups: usize,
    /// Recall at which engines are compared.
    pub recall: f64,
    /// Percents of the rows that pass.
    pub selectivity: Vec<f64>,
    /// How the rows that pass lie to the questions.
    pub correlation: Vec<FilterCorrelation>,
    /// Conditions that the rows that pass meet.
    pub shape: Vec<ConditionShape>,
    /// Engines that are measured where the command names none.
    pub engines: Vec<String>,
}

impl Default for FilterSettings {
    fn default() -> Self {
        Self {
            groups: 8,
            recall: 0.95,
            selectivity: SELECTIVITIES.to_vec(),
            correlation: vec![
                FilterCorrelation::None,
                FilterCorrelation::Positive,
                FilterCorrelation::Negative,
            ],
            shape: vec![ConditionShape::Equals, ConditionShape::And, ConditionShape::Range],
            engines: ENGINES.map(str::to_owned).to_vec(),
        }
    }
}

impl FilterSettings {
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            groups,
            recall,
            selectivity,
            correlation,
            shape,
            ..
        } = self;
        if !(1..=MAX_GROUPS).contains(groups) {
            return Err(format!("`groups`: expected 1 to {MAX_GROUPS}, got {groups}"));
        }
        if !(*recall > 0.0 && *recall <= 1.0) {
            return Err(format!("`recall`: expected above 0 and at most 1, got {recall}"));
        }
        let whole = |percent: f64| (parts(percent) as f64 - percent / 100.0 * PARTS as f64).abs() < 1e-6;
        let wrong = |percent: &&f64| !(**percent > 0.0 && **percent <= 100.0 && whole(**percent));
        if let Some(percent) = selectivity.iter().find(wrong) {
            return Err(format!(
                "`selectivity`: expected percents from 0.01 to 100 in steps of 0.01, got {percent}"
            ));
        }
        let counts = [
            ("selectivity", selectivity.len()),
            ("correlation", correlation.len()),
            ("shape", shape.len()),
        ];
        match counts.into_iter().find(|(_, count)| *count == 0) {
            Some((key, _)) => Err(format!("`{key}`: expected at least one, got none")),
            None => Ok(()),
        }
    }

    /// All cells, the same selectivity and correlation next to each other.
    pub(super) fn cells(&self) -> Vec<FilterCell> {
        let Self {
            selectivity,
            correlation,
            shape,
            ..
        } = self;
        let mut cells = Vec::new();
        for &selectivity in selectivity {
            for &correlation in correlation {
                cells.extend(shape.iter().map(|&shape| FilterCell {
                    selectivity,
                    correlation,
                    shape,
                }));
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_the_rows_passes_and_at_least_one() {
        let passing = |selectivity, rows| {
            FilterCell {
                selectivity,
                correlation: FilterCorrelation::None,
                shape: ConditionShape::Equals,
            }
            .passing(rows)
        };
        let counts = SELECTIVITIES.map(|percent| passing(percent, 100_000));
        assert_eq!(counts, [50_000, 20_000, 10_000, 4_000, 1_000, 100, 10]);
        assert_eq!((passing(0.01, 3_000), passing(33.33, 7), passing(100.0, 7)), (1, 3, 7));
    }

    #[test]
    fn cells_are_all_combinations() {
        let cells = FilterSettings::default().cells();
        assert_eq!(
            (cells.len(), cells[0].to_string(), cells[62].to_string()),
            (63, "50 % none equals".into(), "0.01 % negative range".into())
        );
    }

    #[test]
    fn what_makes_no_cells_is_refused() {
        let refused = |change: fn(&mut FilterSettings), expected: &str| {
            let mut filters = FilterSettings::default();
            change(&mut filters);
            let said = filters.check().unwrap_err();
            assert!(said.starts_with(expected), "{said}");
        };
        FilterSettings::default().check().unwrap();
        refused(|filters| filters.groups = 0, "`groups`: expected 1 to 64, got 0");
        refused(|filters| filters.recall = 1.5, "`recall`: expected above 0");
        refused(
            |filters| filters.selectivity = vec![10.0, 0.015],
            "`selectivity`: expected percents",
        );
        refused(
            |filters| filters.selectivity = vec![0.0],
            "`selectivity`: expected percents",
        );
        refused(|filters| filters.shape.clear(), "`shape`: expected at least one");
    }
}
