//! The judged questions of a BEIR folder.

use std::path::{Path, PathBuf};

use dyad_corpus::BeirFolder;
use dyad_corpus::qrels::{self, Qrels};
use dyad_corpus::queries::{self, Query};

use super::error::Error;

/// Questions and what answers them.
#[derive(Debug, Clone)]
pub struct Judged {
    pub(crate) data: PathBuf,
    pub(crate) split: String,
    /// Every judged question, in the order of its file; never empty.
    pub questions: Vec<Query>,
    /// The judgements.
    pub qrels: Qrels,
}

impl Judged {
    /// Reads one split. Questions without judgements are left out; judgements without a question are refused.
    pub fn read(data: &Path, split: &str) -> Result<Self, Error> {
        let folder = BeirFolder::open(data)?;
        let (qrels_path, queries_path) = (folder.qrels(split)?, folder.queries()?);
        let qrels = qrels::read(&qrels_path)?;
        let mut questions = queries::read(&queries_path)?;
        questions.retain(|question| qrels.contains_key(&question.key));
        let missing = qrels.len() - questions.len();
        if missing > 0 {
            let known: std::collections::HashSet<&str> =
                questions.iter().map(|question| question.key.as_str()).collect();
            let query = qrels.keys().find(|key| !known.contains(key.as_str())).cloned().unwrap_or_default();
            return Err(Error::MissingQuery { qrels: qrels_path, queries: queries_path, query, missing });
        }
        Ok(Self { data: data.to_owned(), split: split.to_owned(), questions, qrels })
    }
}
