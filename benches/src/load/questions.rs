//! The questions of a run, and the requests that they become.

use dyad_corpus::JudgedQuestions;
use dyad_corpus::qrels::Qrels;
use dyad_corpus::queries::{self, KeyedQuery};
use dyad_proto::{v1, validate};

use super::arrivals::AskedQuestion;
use super::workload::{QuestionFiles, RequestKind};
use crate::dataset::{Matrix, make_unit, read_vectors};
use crate::error::{BenchError, BenchResult};

/// Questions with all that is known of them.
#[derive(Debug)]
pub(super) struct LoadQuestions {
    pub(super) queries: Vec<KeyedQuery>,
    /// The vectors of the questions, one row for each.
    pub(super) vectors: Option<Matrix>,
    pub(super) qrels: Option<Qrels>,
    /// Whether they have texts; else they are called by their numbers.
    pub(super) has_texts: bool,
}

impl LoadQuestions {
    pub(super) fn read(files: &QuestionFiles) -> BenchResult<Self> {
        let mut vectors = files.vectors.as_deref().map(read_vectors).transpose()?;
        if let (Some(vectors), Some(path)) = (&mut vectors, &files.vectors) {
            make_unit(path, vectors, true)?;
        }
        let (mut queries, qrels) = match (&files.data, &files.queries) {
            (Some(data), _) => {
                let judged = JudgedQuestions::read(data, &files.split)?;
                (judged.questions, Some(judged.qrels))
            }
            (None, Some(path)) => (queries::read(path)?, None),
            (None, None) => (Vec::new(), None),
        };
        let has_texts = !queries.is_empty();
        if let (Some(vectors), Some(path)) = (&vectors, &files.vectors) {
            if !has_texts {
                queries = (0..vectors.len())
                    .map(|row| KeyedQuery {
                        key: row.to_string(),
                        text: String::new(),
                    })
                    .collect();
            }
            if vectors.len() != queries.len() {
                return Err(BenchError::malformed(
                    path,
                    "n",
                    format!("{}, one per question", queries.len()),
                    vectors.len(),
                ));
            }
            if queries.is_empty() {
                return Err(BenchError::malformed(path, "n", "at least one question", 0));
            }
        }
        let limit = files.limit.unwrap_or(usize::MAX);
        queries.truncate(limit);
        if let Some(vectors) = &mut vectors {
            vectors.truncate(limit);
        }
        Ok(Self {
            queries,
            vectors,
            qrels,
            has_texts,
        })
    }
}

/// How a question goes to an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuestionForm {
    Vector,
    Text,
}

/// Every request of a run.
#[derive(Debug)]
pub(super) struct LoadRequests {
    pub(super) kinds: Vec<RequestKind>,
    pub(super) questions: LoadQuestions,
    /// Fingerprint of the index's model.
    pub(super) fingerprint: String,
}

impl LoadRequests {
    pub(super) fn vector(&self, question: usize) -> &[f32] {
        self.questions
            .vectors
            .as_ref()
            .map_or(&[], |vectors| vectors.row(question))
    }

    pub(super) fn request(
        &self,
        AskedQuestion { kind, question }: AskedQuestion,
        form: QuestionForm,
    ) -> v1::SearchRequest {
        let mut request = self
            .kinds
            .get(kind)
            .map(|kind| kind.request.clone())
            .unwrap_or_default();
        let takes_vector = form == QuestionForm::Vector && request.mode() != v1::Mode::Bm25;
        if takes_vector {
            request.vector = self.vector(question).to_vec();
            request.fingerprint.clone_from(&self.fingerprint);
        }
        let is_dense = request.mode() == v1::Mode::Dense;
        if !(takes_vector && is_dense && request.snippet_bytes == 0) {
            request.query = self
                .questions
                .queries
                .get(question)
                .map(|query| query.text.clone())
                .unwrap_or_default();
        }
        request
    }

    /// Refuses requests that a server would refuse, alone or in calls of this many.
    pub(super) fn check(&self, engine: &str, form: QuestionForm, batch: Option<usize>) -> BenchResult<()> {
        let refused = |problem: String| Err(BenchError::Refused(format!("{engine}: {problem}")));
        if form == QuestionForm::Vector && self.questions.vectors.is_none() {
            return refused("the workload has no `questions.vectors`. Give them, or leave the engine out".to_owned());
        }
        if form == QuestionForm::Text && !self.questions.has_texts {
            return refused(
                "the workload has no texts. Give `questions.data` or `queries`, or leave the engine out".to_owned(),
            );
        }
        for (number, kind) in self.kinds.iter().enumerate() {
            for (question, query) in self.questions.queries.iter().enumerate() {
                let request = self.request(AskedQuestion { kind: number, question }, form);
                if let Err(violations) = validate::search_request(&request) {
                    return refused(format!("kind `{}`, question `{}`: {violations}", kind.name, query.key));
                }
            }
            let requests = vec![
                self.request(
                    AskedQuestion {
                        kind: number,
                        question: 0
                    },
                    form
                );
                batch.unwrap_or(1)
            ];
            if let Err(violations) = validate::search_batch_request(&v1::SearchBatchRequest { requests }) {
                return refused(format!("kind `{}`, `batch`: {violations}", kind.name));
            }
        }
        Ok(())
    }
}
