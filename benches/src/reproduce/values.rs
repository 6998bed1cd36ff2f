//! The values of each question under each metric, kept as a file with a trial, so that a paired test needs no second search.

use std::collections::BTreeMap;
use std::path::Path;

use dyad_encoder::train::METRICS;
use dyad_files::write_atomic;

use crate::harness::{Error, Result};

/// Question to one value per metric, in the order of [`METRICS`].
pub(super) type Values = BTreeMap<String, Vec<f64>>;

/// Writes them as JSON; the file is complete or absent.
pub(super) fn write(path: &Path, values: &Values) -> Result<()> {
    Ok(write_atomic(path, &serde_json::to_vec(values).map_err(std::io::Error::from)?)?)
}

/// Reads them back.
pub(super) fn read(path: &Path) -> Result<Values> {
    let values: Values = serde_json::from_slice(&fs_err::read(path)?).map_err(|error| Error::kept(path, error))?;
    match values.iter().find(|(_, values)| values.len() != METRICS.len()) {
        Some((question, _)) => Err(Error::kept(path, format!("`{question}`: expected a value for each metric"))),
        None => Ok(values),
    }
}

/// The mean of a metric, by its place in [`METRICS`]; 0 of nothing.
pub(super) fn mean(values: &Values, metric: usize) -> f64 {
    let sum: f64 = values.values().filter_map(|values| values.get(metric)).sum();
    sum / values.len().max(1) as f64
}

/// The mean of each question's values over several seeds; questions that one of them lacks are left out.
pub(super) fn over_seeds(seeds: &[&Values]) -> Values {
    let Some((first, rest)) = seeds.split_first() else { return Values::new() };
    let of = |(question, values): (&String, &Vec<f64>)| {
        let others: Vec<&Vec<f64>> = rest.iter().map(|other| other.get(question)).collect::<Option<_>>()?;
        let mean = |(at, value): (usize, &f64)| {
            let more: f64 = others.iter().filter_map(|values| values.get(at)).sum();
            (value + more) / seeds.len() as f64
        };
        Some((question.clone(), values.iter().enumerate().map(mean).collect()))
    };
    first.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_and_damage_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e.json");
        let row = |value: f64| (0..METRICS.len()).map(|at| value / (at + 3) as f64).collect::<Vec<f64>>();
        let values = Values::from([("a,\"b\"".to_owned(), row(1.0)), ("c".to_owned(), row(0.0))]);
        write(&path, &values).unwrap();
        assert_eq!(read(&path).unwrap(), values);
        assert!((mean(&values, 0) - 1.0 / 6.0).abs() < 1e-12);
        let text = fs_err::read_to_string(&path).unwrap();
        for (broken, expected) in [
            (text.replace(":[", ":[\"x\","), "expected f64"),
            (text[..text.len() - 1].to_owned(), "EOF"),
            (text.replace(":[", ":[0.5,"), "expected a value for each metric"),
        ] {
            fs_err::write(&path, broken).unwrap();
            let message = read(&path).unwrap_err().to_string();
            assert!(message.contains(expected), "{expected}: {message}");
        }
    }

    #[test]
    fn seeds_are_averaged_question_by_question() {
        let one = Values::from([("a".to_owned(), vec![1.0]), ("b".to_owned(), vec![0.0])]);
        let two = Values::from([("a".to_owned(), vec![0.5])]);
        assert_eq!(over_seeds(&[&one, &two]), Values::from([("a".to_owned(), vec![0.75])]));
        assert_eq!(over_seeds(&[&one]), one);
        assert!(over_seeds(&[]).is_empty());
    }
}
