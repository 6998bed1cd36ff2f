//! The values of each question under each metric, kept as a file with a trial, so that a paired test needs no second search.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use dyad_encoder::train::METRICS;
use dyad_files::write_atomic;

use crate::harness::{Error, Result, field};

/// Question to one value per metric, in the order of [`METRICS`].
pub(super) type Values = BTreeMap<String, Vec<f64>>;

/// The first line of the file.
fn heading() -> String {
    let names = METRICS.iter().map(ToString::to_string);
    std::iter::once("question".to_owned()).chain(names).collect::<Vec<_>>().join(",")
}

/// Writes them; the file is whole or not there.
pub(super) fn write(path: &Path, values: &Values) -> Result<()> {
    let mut text = heading();
    text.push('\n');
    for (question, values) in values {
        text.push_str(&field(question));
        for value in values {
            // Writing into a text cannot fail.
            let _ = write!(text, ",{value}");
        }
        text.push('\n');
    }
    Ok(write_atomic(path, text.as_bytes())?)
}

/// Reads them back.
pub(super) fn read(path: &Path) -> Result<Values> {
    let text = fs_err::read_to_string(path)?;
    let fail = |line: usize, problem: &str| Error::kept(path, format!("line {line}: {problem}"));
    let mut lines = text.lines().enumerate();
    if lines.next().is_none_or(|(_, first)| first != heading()) {
        return Err(fail(1, &format!("expected `{}`", heading())));
    }
    let mut values = Values::new();
    for (number, line) in lines {
        // From the right: a key may hold commas.
        let mut fields: Vec<&str> = line.rsplitn(METRICS.len() + 1, ',').collect();
        fields.reverse();
        let (Some(key), true) = (fields.first(), fields.len() == METRICS.len() + 1) else {
            return Err(fail(number + 1, "expected a question and a value for each metric"));
        };
        let unquoted = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
        let key = unquoted.map_or_else(|| (*key).to_owned(), |key| key.replace("\"\"", "\""));
        let parsed: std::result::Result<Vec<f64>, _> = fields.iter().skip(1).map(|value| value.parse()).collect();
        let parsed = parsed.map_err(|_| fail(number + 1, "expected numbers after the question"))?;
        values.insert(key, parsed);
    }
    Ok(values)
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
        let path = dir.path().join("e.csv");
        let row = |value: f64| (0..METRICS.len()).map(|at| value / (at + 3) as f64).collect::<Vec<f64>>();
        let values = Values::from([("a,\"b\"".to_owned(), row(1.0)), ("c".to_owned(), row(0.0))]);
        write(&path, &values).unwrap();
        assert_eq!(read(&path).unwrap(), values);
        assert!((mean(&values, 0) - 1.0 / 6.0).abs() < 1e-12);
        let text = fs_err::read_to_string(&path).unwrap();
        for (broken, expected) in [
            (text.replace("question,", "q,"), "line 1: expected `question,"),
            (text.replace("c,0", "c,x"), "line 3: expected numbers"),
            (format!("{text}d,1\n"), "line 4: expected a question and a value for each metric"),
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
