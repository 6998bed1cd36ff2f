//! A first line of judgements that names their columns.

use super::line::{Judgement, judgement, split};
use crate::problem::CorpusProblem;

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
pub(super) struct QrelsHeader {
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
    pub(super) fn detect(line: &str) -> Result<Option<Self>, CorpusProblem> {
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

    pub(super) fn parse<'a>(&self, line: &'a str) -> Result<Judgement<'a>, CorpusProblem> {
        let mut columns: Vec<&str> = split(line, self.tabbed).collect();
        if self.quoted {
            for column in &mut columns {
                *column = column.trim().trim_matches('"');
            }
        }
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
pub(super) fn unknown_header(problem: CorpusProblem) -> CorpusProblem {
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
