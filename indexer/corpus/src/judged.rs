//! The judged questions of a BEIR folder.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::qrels::{self, Qrels};
use crate::queries::{self, KeyedQuery};
use crate::read::BeirFolder;

/// Questions and what answers them.
#[derive(Debug, Clone)]
pub struct JudgedQuestions {
    /// The folder they came from.
    pub data: PathBuf,
    /// Which judgements.
    pub split: String,
    /// Every judged question, in the order of its file; never empty.
    pub questions: Vec<KeyedQuery>,
    /// The judgements.
    pub qrels: Qrels,
}

impl JudgedQuestions {
    /// Reads one split. Questions without judgements are left out; judgements without a question are refused.
    pub fn read(data: &Path, split: &str) -> Result<Self, Error> {
        let folder = BeirFolder::open(data)?;
        let (qrels_path, queries_path) = (folder.qrels(split)?, folder.queries()?);
        let qrels = qrels::read(&qrels_path)?;
        let mut questions = queries::read(&queries_path)?;
        questions.retain(|question| qrels.contains_key(&question.key));
        let missing = qrels.len() - questions.len();
        if missing > 0 {
            let known: HashSet<&str> = questions.iter().map(|question| question.key.as_str()).collect();
            let query = qrels
                .keys()
                .find(|key| !known.contains(key.as_str()))
                .cloned()
                .unwrap_or_default();
            return Err(Error::MissingQuery {
                qrels: qrels_path,
                queries: queries_path,
                query,
                missing,
            });
        }
        Ok(Self {
            data: data.to_owned(),
            split: split.to_owned(),
            questions,
            qrels,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(queries: &str, qrels: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs_err::create_dir(dir.path().join("qrels")).unwrap();
        fs_err::write(dir.path().join("corpus.jsonl"), "{\"_id\": \"d\", \"text\": \"t\"}\n").unwrap();
        fs_err::write(dir.path().join("queries.jsonl"), queries).unwrap();
        fs_err::write(dir.path().join("qrels/dev.tsv"), qrels).unwrap();
        dir
    }

    const QUERIES: &str =
        "{\"_id\": \"b\", \"text\": \"B\"}\n{\"_id\": \"x\", \"text\": \"X\"}\n{\"_id\": \"a\", \"text\": \"A\"}\n";

    #[test]
    fn judged_questions_keep_the_order_of_their_file() {
        let dir = folder(QUERIES, "query-id\tcorpus-id\tscore\na\td\t1\nb\td\t2\n");
        let judged = JudgedQuestions::read(dir.path(), "dev").unwrap();
        assert_eq!(
            judged
                .questions
                .iter()
                .map(|query| query.key.as_str())
                .collect::<String>(),
            "ba"
        );
        assert_eq!((judged.qrels["b"]["d"], judged.split.as_str()), (2, "dev"));
    }

    #[test]
    fn judgements_without_a_question_are_refused() {
        let dir = folder(QUERIES, "query-id\tcorpus-id\tscore\na\td\t1\nq7\td\t1\nq9\td\t1\n");
        let error = JudgedQuestions::read(dir.path(), "dev").unwrap_err().to_string();
        assert!(
            error.contains("q7") && error.contains("queries.jsonl") && error.contains("dev.tsv"),
            "{error}"
        );
    }
}
