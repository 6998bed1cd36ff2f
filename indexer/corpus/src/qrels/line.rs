//! A line of judgements: its columns, and what each of them holds.

use crate::problem::CorpusProblem;
use crate::read::check_key;

/// Keys of query and document, and the grade.
pub(super) type Judgement<'a> = (&'a str, &'a str, i32);

pub(super) fn split(line: &str, tabbed: bool) -> Box<dyn Iterator<Item = &str> + '_> {
    if tabbed {
        Box::new(line.split('\t'))
    } else {
        Box::new(line.split_ascii_whitespace())
    }
}

pub(super) fn parse(line: &str) -> Result<Judgement<'_>, CorpusProblem> {
    let tabbed: Vec<&str> = line.split('\t').collect();
    let (query, key, grade) = if let [query, key, grade] = tabbed.as_slice() {
        (*query, *key, *grade)
    } else {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let [query, _, key, grade] = columns.as_slice() else {
            let expected =
                "3 between tabs (query-id, corpus-id, score) or 4 between whitespace (qid, iter, docno, rel)";
            let got = if tabbed.len() > 1 { tabbed.len() } else { columns.len() };
            return Err(CorpusProblem::Columns {
                expected: expected.to_owned(),
                got,
            });
        };
        (*query, *key, *grade)
    };
    judgement(query, key, grade)
}

pub(super) fn judgement<'a>(query: &'a str, key: &'a str, grade: &str) -> Result<Judgement<'a>, CorpusProblem> {
    check_key(query)?;
    check_key(key)?;
    let refused = || CorpusProblem::Number {
        column: "score",
        expected: "a whole number such as 1 or 1.0",
        got: grade.to_owned(),
    };
    Ok((query, key, whole(grade.trim()).ok_or_else(refused)?))
}

/// A whole number, with or without decimals that are zero.
fn whole(grade: &str) -> Option<i32> {
    if let Ok(whole) = grade.parse() {
        return Some(whole);
    }
    let number: f64 = grade.parse().ok()?;
    let is_whole = number.fract() == 0.0 && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&number);
    is_whole.then_some(number as i32)
}
