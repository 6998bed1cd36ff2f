//! Ranked results in TREC's format, `qid Q0 docno rank sim tag`, read and written.
use std::collections::BTreeMap;
use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;

use dyad_files::AtomicFile;

use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::{InputLines, check_key};

/// Query key to (document key, score), larger scores first when written.
pub type TrecRun = BTreeMap<String, Vec<(String, f32)>>;

/// Longest line, times eight, that is read: result lines are short.
const MAX_BYTES: usize = 64 * 1024;

/// Reads a run; plain, gzip or Zstandard, `-` is standard input. Hits keep the order of the file; their rank column is
/// ignored, as trec_eval ignores it. A document that comes twice for a query is refused.
pub fn read(path: &Path) -> Result<TrecRun, Error> {
    let mut lines = InputLines::open(path, MAX_BYTES)?;
    let mut run = TrecRun::new();
    let mut seen: BTreeMap<String, HashSet<String>> = BTreeMap::new();
    while let Some((_, text)) = lines.advance()? {
        parse(text)
            .and_then(|(query, key, score)| {
                if !seen.entry(query.to_owned()).or_default().insert(key.to_owned()) {
                    return Err(CorpusProblem::ReturnedTwice {
                        query: query.to_owned(),
                        key: key.to_owned(),
                    });
                }
                run.entry(query.to_owned()).or_default().push((key.to_owned(), score));
                Ok(())
            })
            .map_err(|problem| lines.refuse(problem))?;
    }
    if run.is_empty() {
        return Err(Error::Empty {
            path: lines.path().to_owned(),
            expected: "results",
        });
    }
    Ok(run)
}

fn parse(line: &str) -> Result<(&str, &str, f32), CorpusProblem> {
    let columns: Vec<&str> = line.split_ascii_whitespace().collect();
    let [query, _, key, _, score, _] = columns.as_slice() else {
        let expected = "6 between whitespace (qid, Q0, docno, rank, sim, tag)".to_owned();
        return Err(CorpusProblem::Columns {
            expected,
            got: columns.len(),
        });
    };
    check_key(key)?;
    match score.parse::<f32>() {
        Ok(number) if number.is_finite() => Ok((query, key, number)),
        _ => Err(CorpusProblem::Number {
            column: "sim",
            expected: "a finite number",
            got: (*score).to_owned(),
        }),
    }
}

/// Writes a run: queries in key order, hits as they are, ranks from 1, scores with the nine significant digits that an
/// f32 needs to come back unchanged, so that a reader sees exactly the ties that are there. Keys with whitespace and
/// scores that are not finite are refused before anything is written; the file appears whole, under its name, at the
/// end.
pub fn write(path: &Path, run: &TrecRun, tag: &str) -> Result<(), Error> {
    for (query, hits) in run {
        check_writable("query", query)?;
        for (key, score) in hits {
            check_writable("document", key)?;
            if !score.is_finite() {
                return Err(Error::RunScore {
                    query: query.clone(),
                    key: key.clone(),
                    score: *score,
                });
            }
        }
    }
    let mut file = AtomicFile::create(path)?;
    for (query, hits) in run {
        for (index, (key, score)) in hits.iter().enumerate() {
            writeln!(file, "{query} Q0 {key} {} {} {tag}", index + 1, nine_digits(*score))?;
        }
    }
    Ok(file.commit()?)
}

fn check_writable(what: &'static str, key: &str) -> Result<(), Error> {
    if key.is_empty() || key.contains(|letter: char| letter.is_ascii_whitespace() || letter == '\u{b}') {
        return Err(Error::RunKey {
            what,
            key: key.to_owned(),
        });
    }
    Ok(())
}

/// A score with nine significant digits, without an exponent where that stays short.
fn nine_digits(score: f32) -> String {
    let scientific = format!("{score:.8e}");
    let exponent: i32 = scientific
        .split_once('e')
        .and_then(|(_, exponent)| exponent.parse().ok())
        .unwrap_or(0);
    match usize::try_from(8 - exponent) {
        Ok(decimals) if decimals <= 14 => format!("{score:.decimals$}"),
        _ => scientific,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writes_what_trec_eval_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dense.run");
        let run = TrecRun::from([
            ("q2".to_owned(), vec![("d1".to_owned(), 1.0)]),
            (
                "q1".to_owned(),
                vec![("d9".to_owned(), 0.712_345_6), ("d3".to_owned(), -12.5)],
            ),
        ]);
        write(&path, &run, "dyad-dense").unwrap();
        assert_eq!(
            fs_err::read_to_string(&path).unwrap(),
            "q1 Q0 d9 1 0.712345600 dyad-dense\nq1 Q0 d3 2 -12.5000000 dyad-dense\nq2 Q0 d1 1 1.00000000 dyad-dense\n"
        );
        assert_eq!(read(&path).unwrap(), run);
    }

    proptest! {
        #[test]
        fn every_finite_score_comes_back_unchanged(bits in any::<u32>()) {
            let score = f32::from_bits(bits);
            prop_assume!(score.is_finite());
            prop_assert_eq!(nine_digits(score).parse::<f32>().unwrap().to_bits(), bits);
        }
    }

    #[test]
    fn refuses_keys_that_would_break_the_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dense.run");
        let run = TrecRun::from([("q1".to_owned(), vec![("two words".to_owned(), 1.0)])]);
        assert_eq!(
            write(&path, &run, "t").unwrap_err().to_string(),
            "document `two words` cannot be written to a TREC run: it is empty or contains whitespace. Use keys without whitespace"
        );
        let run = TrecRun::from([("q1".to_owned(), vec![("d1".to_owned(), f32::NAN)])]);
        assert_eq!(
            write(&path, &run, "t").unwrap_err().to_string(),
            "the score of document `d1` for query `q1` is not finite: NaN"
        );
        assert!(!path.exists(), "a refused run leaves no file");
    }

    #[test]
    fn refuses_broken_lines_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.run");
        let refusal = |content: &str| {
            fs_err::write(&path, content).unwrap();
            read(&path)
                .unwrap_err()
                .to_string()
                .split_once("x.run")
                .unwrap()
                .1
                .to_owned()
        };
        assert_eq!(
            refusal("q1 Q0 d1 1 0.5\n"),
            ":1: wrong number of columns: expected 6 between whitespace (qid, Q0, docno, rank, sim, tag), got 5"
        );
        assert_eq!(
            refusal("q1 Q0 d1 1 nan t\n"),
            ":1: column `sim` is not a finite number: nan"
        );
        assert_eq!(
            refusal("q1 Q0 d1 1 0.5 t\nq1 Q0 d1 2 0.4 t\n"),
            ":2: query `q1` already has document `d1`. A run holds each document once per query"
        );
        assert_eq!(refusal(""), "` holds no results");
    }
}
