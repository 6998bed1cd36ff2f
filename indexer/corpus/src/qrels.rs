//! Relevance judgements: BEIR's `query-id<TAB>corpus-id<TAB>score` with its header, and TREC's `qid iter docno rel`.
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use crate::error::Error;
use crate::problem::Problem;
use crate::read::{Lines, check_key};

/// Query key to document key to grade. A grade of 1 or more is relevant; 0 and below is judged not relevant.
pub type Qrels = BTreeMap<String, BTreeMap<String, i32>>;

/// Longest line, times eight, that is read: judgements are short.
const MAX_BYTES: usize = 64 * 1024;

/// Reads judgements; plain, gzip or Zstandard, `-` is standard input. The format is detected for each line: three columns between
/// tabs are BEIR's, four columns between any whitespace are TREC's (and MS MARCO's).
///
/// A header is recognised on the first line, by a third column named `score`. A pair that is judged twice with equal grades
/// counts once; with different grades it is refused.
pub fn read(path: &Path) -> Result<Qrels, Error> {
    let mut lines = Lines::open(path, MAX_BYTES)?;
    let mut qrels = Qrels::new();
    while let Some((line, text)) = lines.advance()? {
        if line == 1 && is_header(text) {
            continue;
        }
        parse(text)
            .and_then(|(query, key, grade)| insert(&mut qrels, query, key, grade))
            .map_err(|problem| lines.refuse(problem))?;
    }
    if qrels.is_empty() {
        return Err(Error::Empty { path: lines.path().to_owned(), expected: "judgements" });
    }
    Ok(qrels)
}

fn is_header(line: &str) -> bool {
    matches!(line.split('\t').collect::<Vec<_>>().as_slice(), [_, _, "score"])
}

fn parse(line: &str) -> Result<(&str, &str, i32), Problem> {
    let tabbed: Vec<&str> = line.split('\t').collect();
    let (query, key, grade) = if let [query, key, grade] = tabbed.as_slice() {
        (*query, *key, *grade)
    } else {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let [query, _, key, grade] = columns.as_slice() else {
            let expected =
                "3 between tabs (query-id, corpus-id, score) or 4 between whitespace (qid, iter, docno, rel)";
            let got = if tabbed.len() > 1 { tabbed.len() } else { columns.len() };
            return Err(Problem::Columns { expected: expected.to_owned(), got });
        };
        (*query, *key, *grade)
    };
    check_key(query)?;
    check_key(key)?;
    let grade = grade.trim().parse().map_err(|_| Problem::Number {
        column: "score",
        expected: "an integer",
        got: grade.to_owned(),
    })?;
    Ok((query, key, grade))
}

fn insert(qrels: &mut Qrels, query: &str, key: &str, grade: i32) -> Result<(), Problem> {
    if !qrels.contains_key(query) {
        qrels.insert(query.to_owned(), BTreeMap::new());
    }
    let Some(judgements) = qrels.get_mut(query) else { return Ok(()) };
    match judgements.entry(key.to_owned()) {
        Entry::Vacant(entry) => {
            entry.insert(grade);
            Ok(())
        }
        Entry::Occupied(entry) if *entry.get() == grade => Ok(()),
        Entry::Occupied(entry) => Err(Problem::JudgedTwice {
            query: query.to_owned(),
            key: key.to_owned(),
            first: *entry.get(),
            second: grade,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(content: &str) -> Result<Qrels, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.tsv");
        fs_err::write(&path, content).unwrap();
        read(&path)
    }

    fn refusal(content: &str) -> String {
        read_text(content).unwrap_err().to_string().split_once("test.tsv").unwrap().1.to_owned()
    }

    #[test]
    fn reads_beir_trec_and_ms_marco_forms_alike() {
        let expected = Qrels::from([
            ("q1".to_owned(), BTreeMap::from([("d1".to_owned(), 2), ("d2".to_owned(), -1)])),
            ("q2".to_owned(), BTreeMap::from([("d1".to_owned(), 0)])),
        ]);
        let beir = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\nq2\td1\t0\n";
        assert_eq!(read_text(beir).unwrap(), expected);
        assert_eq!(read_text("q1 0 d1 2\nq1  Q0 d2 -1\nq2 0 d1 0").unwrap(), expected);
        assert_eq!(read_text("q1\t0\td1\t2\nq1\t0\td2\t-1\nq2\t0\td1\t0\nq2\t0\td1\t0\n").unwrap(), expected);
    }

    #[test]
    fn refuses_by_line() {
        assert_eq!(
            refusal("q1 d1 1\n"),
            ":1: wrong number of columns: expected 3 between tabs (query-id, corpus-id, score) or 4 between whitespace \
             (qid, iter, docno, rel), got 3"
        );
        assert_eq!(refusal("q1\td1\t1\nq1\td2\tyes\n"), ":2: column `score` is not an integer: yes");
        assert_eq!(
            refusal("q1\td1\t1\nq1\td1\t2\n"),
            ":2: query `q1` and document `d1` were already judged 1, now 2. Remove one of the two"
        );
        assert_eq!(refusal("query-id\tcorpus-id\tscore\n"), "` holds no judgements");
    }
}
