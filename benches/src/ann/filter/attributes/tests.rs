//! Selectivities are exact, correlations have the sign that their names say, and the fields say what passes.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;
use crate::ann::cells::FilterSettings;
use crate::dataset::make_unit;

const ROWS: usize = 3_000;
const QUERIES: usize = 60;

/// Unit vectors around a few directions, and queries of the same kind.
fn vectors() -> (Matrix, Matrix) {
    let hash = |at: u64, seed| (xxh3_64_with_seed(&at.to_le_bytes(), seed) >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
    let made = |rows: usize, seed: u64| {
        let value = |at: usize| {
            let (row, column) = ((at / 16) as u64, (at % 16) as u64);
            hash(16 * (row % 12) + column, 1) + 0.7 * hash(at as u64, seed)
        };
        let mut matrix = Matrix::new(16, (0..rows * 16).map(value).collect());
        make_unit(Path::new("made"), &mut matrix, true).unwrap();
        matrix
    };
    (made(ROWS, 2), made(QUERIES, 3))
}

fn derive(seed: u64) -> (RowAttributes, Matrix, Matrix) {
    let (base, queries) = vectors();
    let attributes = RowAttributes::derive(
        &base,
        &queries,
        VectorMetric::Ip,
        FilterSettings::default().cells(),
        5,
        seed,
    )
    .unwrap();
    (attributes, base, queries)
}

#[test]
fn every_query_is_in_the_group_of_its_nearest_anchor() {
    let (attributes, _, queries) = derive(7);
    let mut all: Vec<usize> = attributes.groups.concat();
    all.sort_unstable();
    assert_eq!((attributes.groups.len(), all), (5, (0..QUERIES).collect()));
    let anchors = by_hash(7, ANCHORS, QUERIES);
    let score =
        |query: usize, group: usize| VectorMetric::Ip.score(queries.row(query), queries.row(anchors[group] as usize));
    for (group, members) in attributes.groups.iter().enumerate() {
        assert!(members.contains(&(anchors[group] as usize)));
        for query in members {
            assert!(
                (0..5).all(|other| score(*query, group) >= score(*query, other)),
                "{query}"
            );
        }
    }
}

#[test]
fn selectivities_are_exact_and_those_of_an_order_are_nested() {
    let (attributes, ..) = derive(7);
    for cell in FilterSettings::default().cells() {
        for group in 0..5 {
            let rows = attributes.filter(cell, group).rows;
            assert!(
                rows.is_sorted_by(|left, right| left < right) && rows.last().is_none_or(|row| (*row as usize) < ROWS)
            );
            assert_eq!(
                rows.len(),
                (ROWS as f64 * cell.selectivity / 100.0).ceil() as usize,
                "{cell}"
            );
            if cell.shape != ConditionShape::And {
                let half: BTreeSet<u32> = attributes
                    .filter(
                        FilterCell {
                            selectivity: 50.0,
                            ..cell
                        },
                        group,
                    )
                    .rows
                    .into_iter()
                    .collect();
                assert!(
                    cell.selectivity > 50.0 || rows.iter().all(|row| half.contains(row)),
                    "{cell}"
                );
            }
        }
    }
}

#[test]
fn each_condition_of_and_alone_has_about_the_square_root() {
    let (attributes, ..) = derive(7);
    for cell in FilterSettings::default()
        .cells()
        .into_iter()
        .filter(|cell| cell.shape == ConditionShape::And)
    {
        let [first, second, both] = attributes.pair(cell, 2);
        let root = ROWS as f64 * (cell.selectivity / 100.0).sqrt();
        assert!(
            (second.len() as f64 - root).abs() <= 0.5,
            "{cell}: {}, not {root}",
            second.len()
        );
        // The number of rows that it takes to find a given number of a random set has a relative deviation of one over
        // its root.
        let off = (first.len() as f64 / root - 1.0).abs();
        assert!(
            both.len() < 10 || off < 4.0 / (both.len() as f64).sqrt(),
            "{cell}: {}, not {root}",
            first.len()
        );
        let first: BTreeSet<u32> = first.into_iter().collect();
        let met: BTreeSet<u32> = second.into_iter().filter(|row| first.contains(row)).collect();
        assert_eq!(met, both.into_iter().collect(), "{cell}");
    }
}

#[test]
fn correlations_have_their_signs() {
    let (attributes, base, queries) = derive(7);
    for shape in [ConditionShape::Equals, ConditionShape::And, ConditionShape::Range] {
        let mean = |correlation| {
            let cell = FilterCell {
                selectivity: 10.0,
                correlation,
                shape,
            };
            let (mut sum, mut count) = (0.0, 0);
            for (group, members) in attributes.groups.iter().enumerate() {
                for row in attributes.filter(cell, group).rows {
                    sum += members
                        .iter()
                        .map(|query| VectorMetric::Ip.score(queries.row(*query), base.row(row as usize)))
                        .sum::<f64>();
                    count += members.len();
                }
            }
            sum / count as f64
        };
        let [none, positive, negative] = [
            FilterCorrelation::None,
            FilterCorrelation::Positive,
            FilterCorrelation::Negative,
        ]
        .map(mean);
        assert!(
            positive > none + 0.1 && none > negative + 0.1,
            "{shape:?}: {positive}, {none}, {negative}"
        );
    }
}

/// The lines are read as an engine reads them, and every condition evaluated: what passes is what the filter says.
#[test]
fn what_the_fields_say_passes() {
    let (attributes, ..) = derive(7);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("attributes.jsonl");
    let hash = attributes.write(&path).unwrap();
    let text = fs_err::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[17]["_id"]), (ROWS, &json!("17")));
    let meets = |row: &Value, condition: &FilterCondition| match condition {
        FilterCondition::Equals { field, value } => row[field]
            .as_array()
            .is_some_and(|values| values.contains(&json!(value))),
        FilterCondition::Below { field, bound } => row[field].as_u64().unwrap() < u64::from(*bound),
    };
    for cell in FilterSettings::default().cells() {
        for group in [0, 4] {
            let GroupFilter { rows, all } = attributes.filter(cell, group);
            let passes = |row: &usize| all.iter().all(|condition| meets(&lines[*row]["metadata"], condition));
            let passing: Vec<u32> = (0..ROWS).filter(passes).map(|row| row as u32).collect();
            assert_eq!(passing, rows, "{cell}");
        }
    }
    // Everything hangs on the seed, and on nothing else.
    let write = |seed| derive(seed).0.write(&dir.path().join("again")).unwrap();
    assert_eq!((write(7) == hash, write(8) == hash), (true, false));
}

#[test]
fn only_what_the_cells_need_is_written() {
    let (base, queries) = vectors();
    let cell = FilterCell {
        selectivity: 4.0,
        correlation: FilterCorrelation::Negative,
        shape: ConditionShape::Range,
    };
    let attributes = RowAttributes::derive(&base, &queries, VectorMetric::Ip, vec![cell], 2, 0).unwrap();
    assert_eq!((attributes.places().len(), attributes.texts().len()), (2, 0));
    let error = RowAttributes::derive(&base, &queries, VectorMetric::Ip, vec![cell], QUERIES + 1, 0)
        .err()
        .unwrap();
    assert_eq!(
        error.to_string(),
        "`groups`: expected at most as many as queries, 60, got 61"
    );
}
