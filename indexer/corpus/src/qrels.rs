//! Relevance judgements: BEIR's `query-id<TAB>corpus-id<TAB>score` with its header, and TREC's `qid iter docno rel`.
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::{InputLines, check_key};

/// Query key to document key to grade. A grade of 1 or more is relevant; 0 and below is judged not relevant.
pub type Qrels = BTreeMap<String, BTreeMap<String, i32>>;

/// Longest line, times eight, that is read: judgements are short.
const MAX_BYTES: usize = 64 * 1024;

/// Reads judgements; plain, gzip or Zstandard, `-` is standard input. The format is detected for each line: three
/// columns between tabs are BEIR's, four columns between any whitespace are TREC's (and MS MARCO's).
///
/// A first line of known names is a header, which says where each column is (`query-id corpus-id score`, `query_id
/// doc_id relevance iteration`, ...). Grades are whole numbers, which pandas writes as `1.0`. A pair that is judged
/// twice with equal grades counts once; with different grades it is refused.
pub fn read(path: &Path) -> Result<Qrels, Error> {
    let mut lines = InputLines::open(path, MAX_BYTES)?;
    let mut qrels = Qrels::new();
    let mut header = None;
    let mut is_first = true;
    while let Some((_, text)) = lines.advance()? {
        let might_be_header = std::mem::take(&mut is_first);
        if might_be_header {
            header = match QrelsHeader::of(text) {
                Ok(header) => header,
                Err(problem) => return Err(lines.refuse(problem)),
            };
            if header.is_some() {
                continue;
            }
        }
        let parsed = match &header {
            Some(header) => header.parse(text),
            None => parse(text).map_err(|problem| {
                if might_be_header {
                    unknown_header(problem)
                } else {
                    problem
                }
            }),
        };
        parsed
            .and_then(|(query, key, grade)| insert(&mut qrels, query, key, grade))
            .map_err(|problem| lines.refuse(problem))?;
    }
    if qrels.is_empty() {
        return Err(Error::Empty {
            path: lines.path().to_owned(),
            expected: "judgements",
        });
    }
    Ok(qrels)
}

/// Documents that judgements call relevant.
pub fn relevant(qrels: &Qrels) -> BTreeSet<&str> {
    let judged = qrels.values().flatten();
    judged
        .filter(|(_, grade)| **grade > 0)
        .map(|(key, _)| key.as_str())
        .collect()
}

/// Whether a collection can answer judgements: `missing` are the documents among the [`relevant`] ones that it does not
/// hold. A note where that is some of them; an error where it is all, since every metric would be 0 whatever is found.
/// `is_held` tells of a key whether the collection has it, so that passages of these documents are recognised.
pub fn check_missing(
    relevant: &BTreeSet<&str>,
    missing: &[&str],
    is_held: impl Fn(&str) -> bool,
) -> Result<Option<String>, String> {
    let Some(first) = missing.first() else {
        if relevant.is_empty() {
            return Err("the judgements call no document relevant (with a grade of 1 or more)".to_owned());
        }
        return Ok(None);
    };
    let all = relevant.len();
    if missing.len() == all && is_held(&format!("{first}#0")) {
        return Err(format!(
            "the judgements are of documents such as `{first}`, and there are passages of them, such as `{first}#0`. Judge passages, or \
             take whole documents"
        ));
    }
    if missing.len() == all {
        return Err(format!(
            "none of the {all} documents that the judgements call relevant is there, such as `{first}`. Take documents and judgements \
             from one release of the set"
        ));
    }
    let missing = missing.len();
    Ok(Some(format!(
        "{missing} of the {all} documents that the judgements call relevant are not there, such as `{first}`: nothing can find them"
    )))
}

/// Names of the columns, in lower case and with `_` for `-`: of BEIR, `ir_datasets`, TREC and pandas.
const QUERY_COLUMNS: [&str; 9] = [
    "query_id",
    "queryid",
    "query",
    "qid",
    "q_id",
    "topic",
    "topic_id",
    "question_id",
    "question",
];
const KEY_COLUMNS: [&str; 13] = [
    "corpus_id",
    "corpusid",
    "doc_id",
    "docid",
    "docno",
    "doc",
    "document_id",
    "document",
    "did",
    "pid",
    "passage_id",
    "para_id",
    "answer_id",
];
const GRADE_COLUMNS: [&str; 9] = [
    "score",
    "relevance",
    "rel",
    "grade",
    "label",
    "judgment",
    "judgement",
    "qrel",
    "relevancy",
];

/// Where the columns are that a first line of names announces.
#[derive(Debug)]
struct QrelsHeader {
    query: usize,
    key: usize,
    grade: usize,
    columns: usize,
    tabbed: bool,
    /// Whether names and values are in double quotes.
    quoted: bool,
}

impl QrelsHeader {
    /// Nothing where a line has no column of one of the three kinds; refused where it has two of one.
    fn of(line: &str) -> Result<Option<Self>, CorpusProblem> {
        let tabbed = line.contains('\t');
        let quoted = line.trim_start().starts_with('"');
        let names: Vec<String> = split(line, tabbed)
            .map(|name| name.trim().trim_matches('"').to_ascii_lowercase().replace('-', "_"))
            .collect();
        let places = |known: &[&str]| -> Vec<usize> {
            (0..names.len())
                .filter(|at| names.get(*at).is_some_and(|name| known.contains(&name.as_str())))
                .collect()
        };
        let all = [places(&QUERY_COLUMNS), places(&KEY_COLUMNS), places(&GRADE_COLUMNS)];
        let columns = names.len();
        let [query, key, grade] = &all;
        if all.iter().any(Vec::is_empty) {
            // BEIR's, whatever its first two columns are called.
            let is_beirs =
                tabbed && columns == 3 && *grade == [2] && [query, key].iter().all(|places| places.len() < 2);
            let in_order = query.iter().all(|at| *at == 0) && key.iter().all(|at| *at == 1);
            return Ok((is_beirs && in_order).then_some(Self {
                query: 0,
                key: 1,
                grade: 2,
                columns,
                tabbed,
                quoted,
            }));
        }
        let ([query], [key], [grade]) = (query.as_slice(), key.as_slice(), grade.as_slice()) else {
            let twice = all
                .iter()
                .find(|places| places.len() > 1)
                .map(Vec::as_slice)
                .unwrap_or_default();
            let named: Vec<&str> = twice
                .iter()
                .filter_map(|at| names.get(*at).map(String::as_str))
                .collect();
            let message = format!(
                "the header has the columns `{}`, of which any could be meant. Leave query, document and grade alone",
                named.join("` and `")
            );
            return Err(CorpusProblem::Record { message });
        };
        Ok(Some(Self {
            query: *query,
            key: *key,
            grade: *grade,
            columns,
            tabbed,
            quoted,
        }))
    }

    fn parse<'a>(&self, line: &'a str) -> Result<Judgement<'a>, CorpusProblem> {
        let value = |column: &'a str| {
            if self.quoted {
                column.trim().trim_matches('"')
            } else {
                column
            }
        };
        let columns: Vec<&str> = split(line, self.tabbed).map(value).collect();
        let place = |at: usize| columns.get(at).copied();
        let found = (place(self.query), place(self.key), place(self.grade));
        let (Some(query), Some(key), Some(grade)) = found else {
            let expected = format!("{}, as the header has", self.columns);
            return Err(CorpusProblem::Columns {
                expected,
                got: columns.len(),
            });
        };
        if columns.len() != self.columns {
            let expected = format!("{}, as the header has", self.columns);
            return Err(CorpusProblem::Columns {
                expected,
                got: columns.len(),
            });
        }
        judgement(query, key, grade)
    }
}

/// A first line that is no judgement is a header, of names that are not known.
fn unknown_header(problem: CorpusProblem) -> CorpusProblem {
    let CorpusProblem::Number { got, .. } = &problem else {
        return problem;
    };
    if !got.contains(char::is_alphabetic) {
        return problem;
    }
    let names = |known: &[&str]| known.join("`, `");
    let message = format!(
        "neither a judgement nor a header that is known: a header names a column of queries (`{}`), one of documents (`{}`) and one of grades \
         (`{}`)",
        names(&QUERY_COLUMNS),
        names(&KEY_COLUMNS),
        names(&GRADE_COLUMNS)
    );
    CorpusProblem::Record { message }
}

/// Keys of query and document, and the grade.
type Judgement<'a> = (&'a str, &'a str, i32);

fn split(line: &str, tabbed: bool) -> Box<dyn Iterator<Item = &str> + '_> {
    if tabbed {
        Box::new(line.split('\t'))
    } else {
        Box::new(line.split_ascii_whitespace())
    }
}

fn parse(line: &str) -> Result<Judgement<'_>, CorpusProblem> {
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

fn judgement<'a>(query: &'a str, key: &'a str, grade: &str) -> Result<Judgement<'a>, CorpusProblem> {
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

fn insert(qrels: &mut Qrels, query: &str, key: &str, grade: i32) -> Result<(), CorpusProblem> {
    if !qrels.contains_key(query) {
        qrels.insert(query.to_owned(), BTreeMap::new());
    }
    let Some(judgements) = qrels.get_mut(query) else {
        return Ok(());
    };
    match judgements.entry(key.to_owned()) {
        Entry::Vacant(entry) => {
            entry.insert(grade);
            Ok(())
        }
        Entry::Occupied(entry) if *entry.get() == grade => Ok(()),
        Entry::Occupied(entry) => Err(CorpusProblem::JudgedTwice {
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
        read_text(content)
            .unwrap_err()
            .to_string()
            .split_once("test.tsv")
            .unwrap()
            .1
            .to_owned()
    }

    #[test]
    fn reads_beir_trec_and_ms_marco_forms_alike() {
        let expected = Qrels::from([
            (
                "q1".to_owned(),
                BTreeMap::from([("d1".to_owned(), 2), ("d2".to_owned(), -1)]),
            ),
            ("q2".to_owned(), BTreeMap::from([("d1".to_owned(), 0)])),
        ]);
        let beir = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\nq2\td1\t0\n";
        assert_eq!(read_text(beir).unwrap(), expected);
        assert_eq!(read_text("q1 0 d1 2\nq1  Q0 d2 -1\nq2 0 d1 0").unwrap(), expected);
        assert_eq!(
            read_text("q1\t0\td1\t2\nq1\t0\td2\t-1\nq2\t0\td1\t0\nq2\t0\td1\t0\n").unwrap(),
            expected
        );
    }

    #[test]
    fn headers_of_other_writers_say_where_the_columns_are() {
        let expected = Qrels::from([(
            "q1".to_owned(),
            BTreeMap::from([("d1".to_owned(), 2), ("d2".to_owned(), -1)]),
        )]);
        for content in [
            "query_id\tdoc_id\trelevance\nq1\td1\t2\nq1\td2\t-1\n",
            "query_id\tdoc_id\trelevance\titeration\nq1\td1\t2\t0\nq1\td2\t-1\tQ0\n",
            "qid iter docno rel\nq1 0 d1 2\nq1 0 d2 -1\n",
            "DocID\tQueryID\tLabel\nd1\tq1\t2.0\nd2\tq1\t-1.0\n",
            "\n\nquery-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t-1\n",
            "q1\td1\t2e0\nq1\td2\t-1.000\n",
            "topics\tparagraph\tscore\nq1\td1\t2\nq1\td2\t-1\n",
            "\"query_id\"\t\"doc_id\"\t\"relevance\"\n\"q1\"\t\"d1\"\t\"2\"\n\"q1\"\t\"d2\"\t-1\n",
        ] {
            assert_eq!(read_text(content).unwrap(), expected, "{content}");
        }
        for (header, told) in [
            ("query_id doc_id rank score relevance", "`score` and `relevance`"),
            ("query\tquery_id\tdoc_id\tscore", "`query` and `query_id`"),
            ("a\tb\tc", "a header names a column of queries (`query_id`"),
        ] {
            let message = refusal(&format!("{header}\nq1\td1\t2\n"));
            assert!(message.starts_with(":1: ") && message.contains(told), "{message}");
        }
        let message = refusal("query_id\tdoc_id\trelevance\nq1\td1\n");
        assert!(message.contains("expected 3, as the header has, got 2"), "{message}");
        for grade in ["0.5", "NaN", "inf", "1e10", ""] {
            let message = refusal(&format!("q1\td1\t1\nq1\td2\t{grade}\n"));
            assert!(
                message.contains("a whole number such as 1 or 1.0"),
                "{grade}: {message}"
            );
        }
    }

    #[test]
    fn refuses_by_line() {
        assert_eq!(
            refusal("q1 d1 1\n"),
            ":1: wrong number of columns: expected 3 between tabs (query-id, corpus-id, score) or 4 between whitespace \
             (qid, iter, docno, rel), got 3"
        );
        assert_eq!(
            refusal("q1\td1\t1\nq1\td2\tyes\n"),
            ":2: column `score` is not a whole number such as 1 or 1.0: yes"
        );
        assert_eq!(
            refusal("q1\td1\t1\nq1\td1\t2\n"),
            ":2: query `q1` and document `d1` were already judged 1, now 2. Remove one of the two"
        );
        assert_eq!(refusal("query-id\tcorpus-id\tscore\n"), "` holds no judgements");
    }
}
