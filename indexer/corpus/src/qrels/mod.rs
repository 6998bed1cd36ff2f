//! Relevance judgements: BEIR's `query-id<TAB>corpus-id<TAB>score` with its header, and TREC's `qid iter docno rel`.
//!
//! | file | contents |
//! |---|---|
//! | `header.rs` | a first line that names the columns |
//! | `line.rs` | a line of judgements |

mod header;
mod line;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::InputLines;
use header::{QrelsHeader, unknown_header};
use line::parse;

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
            header = match QrelsHeader::detect(text) {
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
mod tests;
