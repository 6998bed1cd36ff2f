//! Question sets: BEIR's `queries.jsonl` and MS MARCO's `qid<TAB>text`, and logs of questions; plain, gzip or
//! Zstandard.
use std::path::Path;

use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::{
    Columns, DEFAULT_MAX_TEXT_BYTES, InputLines, JsonRecord, LineFormat, SeenKeys, check_key, endings_of_questions,
    format_of_questions,
};

/// Names of a question's key, in the order they are looked for.
const KEY_FIELDS: &[&str] = &["_id", "id", "query_id", "qid", "key"];
/// Names of a question's text, in the order they are looked for.
const TEXT_FIELDS: &[&str] = &["text", "query"];

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyedQuery {
    /// Unique in its set; never empty.
    pub key: String,
    /// Never empty.
    pub text: String,
}

/// Reads a question set in its own order; the format is detected from the file's name as for a corpus, and `-` is
/// standard input.
///
/// Duplicate keys, empty keys, empty texts and a set without questions are refused.
pub fn read(path: &Path) -> Result<Vec<KeyedQuery>, Error> {
    let format = format_of_questions(path).ok_or_else(|| Error::UnknownFormat {
        path: path.to_owned(),
        expected: format!(
            "questions, in a file whose name ends in {} (with .gz or .zst after it where compressed). \
             Write them in one of these formats, or rename the file",
            endings_of_questions()
        ),
    })?;
    let mut lines = InputLines::open(path, DEFAULT_MAX_TEXT_BYTES)?;
    let mut keys = SeenKeys::default();
    let mut queries = Vec::new();
    let mut columns = None;
    while let Some((line, text)) = lines.advance()? {
        let parsed = match (format, &columns) {
            (LineFormat::Jsonl, _) => jsonl(text),
            (LineFormat::Tsv, Some(columns)) => tsv(columns, text),
            (LineFormat::Tsv, None) => match Columns::from_header(text) {
                Some(header) => {
                    columns = Some(header);
                    continue;
                }
                None => tsv(columns.insert(Columns::plain()), text),
            },
        };
        let query = parsed
            .and_then(|query| check(&query).map(|()| query))
            .and_then(|query| keys.insert(&query.key, line).map(|()| query))
            .map_err(|problem| lines.refuse(problem))?;
        queries.push(query);
    }
    if queries.is_empty() {
        return Err(Error::Empty {
            path: lines.path().to_owned(),
            expected: "queries",
        });
    }
    Ok(queries)
}

/// The texts of questions without their keys, for samples of what was asked: of a question set, or of a log with a
/// question on each line. The same question may come again.
#[derive(Debug)]
pub struct QuestionTexts {
    lines: InputLines,
    /// The form of the lines; none where each line is a question.
    format: Option<LineFormat>,
    columns: Option<Columns>,
}

impl QuestionTexts {
    /// Opens a file, plain, gzip or Zstandard, or `-` for standard input: JSON lines with `text` or `query` by the name
    /// `.jsonl`, keys and texts by `.tsv`, and by any other name lines, of which blank ones are left out.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let lines = InputLines::open(path, DEFAULT_MAX_TEXT_BYTES)?;
        Ok(Self {
            lines,
            format: format_of_questions(path),
            columns: None,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.lines.path()
    }

    /// The next text; none at the end.
    pub fn advance(&mut self) -> Result<Option<String>, Error> {
        while let Some((_, line)) = self.lines.advance()? {
            let text = match (self.format, &self.columns) {
                (None, _) => Ok(line.trim().to_owned()),
                (Some(LineFormat::Jsonl), _) => JsonRecord::parse(line).and_then(|mut record| record.text(TEXT_FIELDS)),
                (Some(LineFormat::Tsv), Some(columns)) => tsv(columns, line).map(|query| query.text),
                (Some(LineFormat::Tsv), None) => match Columns::from_header(line) {
                    Some(header) => {
                        self.columns = Some(header);
                        continue;
                    }
                    None => tsv(self.columns.insert(Columns::plain()), line).map(|query| query.text),
                },
            };
            let text = text.map_err(|problem| self.lines.refuse(problem))?;
            if !text.trim().is_empty() {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }
}

fn jsonl(line: &str) -> Result<KeyedQuery, CorpusProblem> {
    let mut record = JsonRecord::parse(line)?;
    Ok(KeyedQuery {
        key: record.key(KEY_FIELDS)?,
        text: record.text(TEXT_FIELDS)?,
    })
}

fn tsv(columns: &Columns, line: &str) -> Result<KeyedQuery, CorpusProblem> {
    columns.document(line).map(|document| KeyedQuery {
        key: document.key,
        text: document.text,
    })
}

fn check(query: &KeyedQuery) -> Result<(), CorpusProblem> {
    check_key(&query.key)?;
    if query.text.trim().is_empty() {
        return Err(CorpusProblem::EmptyText { key: query.key.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_named(name: &str, content: &str) -> Result<Vec<KeyedQuery>, Error> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs_err::write(&path, content).unwrap();
        read(&path)
    }

    #[test]
    fn reads_beir_and_ms_marco_forms_in_order() {
        let expected = [
            KeyedQuery {
                key: "q2".into(),
                text: "two?".into(),
            },
            KeyedQuery {
                key: "1".into(),
                text: "one?".into(),
            },
        ];
        let jsonl = "{\"_id\":\"q2\",\"text\":\"two?\",\"metadata\":{}}\n\n{\"id\":1,\"query\":\"one?\"}\n";
        assert_eq!(read_named("queries.jsonl", jsonl).unwrap(), expected);
        assert_eq!(read_named("queries.dev.tsv", "q2\ttwo?\r\n1\tone?").unwrap(), expected);
        assert_eq!(
            read_named("queries.dev.tsv", "qid\tquery\nq2\ttwo?\n1\tone?\n").unwrap(),
            expected
        );
    }

    #[test]
    fn texts_of_sets_and_logs_may_come_again_and_need_no_keys() {
        let folder = tempfile::tempdir().unwrap();
        let texts = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs_err::write(&path, content).unwrap();
            let mut texts = QuestionTexts::open(&path).unwrap();
            let all = std::iter::from_fn(|| texts.advance().transpose());
            all.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())
        };
        let expected = Ok(vec!["one?".to_owned(), "two?".to_owned(), "one?".to_owned()]);
        assert_eq!(texts("asked.log", "one?\n\n two? \r\none?"), expected);
        let jsonl = "{\"query\":\"one?\",\"took_ms\":3}\n{\"_id\":1,\"text\":\"two?\"}\n{\"query\":\"one?\"}\n";
        assert_eq!(texts("asked.jsonl", jsonl), expected);
        assert_eq!(texts("asked.tsv", "qid\tquery\n1\tone?\n2\ttwo?\n1\tone?\n"), expected);
        assert!(
            texts("asked.jsonl", "{\"query\":\"one?\"}\n{}\n")
                .unwrap_err()
                .contains("asked.jsonl:2")
        );
        assert_eq!(texts("nothing.txt", "\n \n"), Ok(Vec::new()));
    }

    #[test]
    fn refuses_what_cannot_be_asked() {
        let text = |name, content| {
            let message = read_named(name, content).unwrap_err().to_string();
            message.split_once("queries").unwrap().1.to_owned()
        };
        assert_eq!(text("queries.jsonl", ""), ".jsonl` holds no queries");
        assert_eq!(
            text("queries.jsonl", "{\"_id\":\"a\",\"text\":\" \"}"),
            ".jsonl:1: the text of key `a` is empty. Remove the record or give it a text"
        );
        assert_eq!(
            text("queries.tsv", "a\tx\nb\ty\na\tz\n"),
            ".tsv:3: key `a` was already used on line 1. Keys must be unique; remove one of the two"
        );
    }
}
