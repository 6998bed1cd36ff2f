//! Counts of skipped records, by reason.

use crate::error::Error;
use crate::problem::CorpusProblem;

/// Counts of skipped records, by reason.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Not a record of the format.
    pub broken: u64,
    /// The question is blank.
    pub empty_questions: u64,
    /// Records in which nothing answers the question.
    pub without_positives: u64,
    /// A passage is blank.
    pub empty_passages: u64,
    /// A passage is named that the corpus lacks.
    pub unknown_documents: u64,
    /// SQuAD 2: questions that have no answer by design. Never an error.
    pub unanswerable: u64,
    /// SQuAD: every answer crosses the end of a sentence. Never an error.
    pub crossing: u64,
    /// The first error among them.
    pub first: Option<String>,
}

impl Skipped {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.broken
            + self.empty_questions
            + self.without_positives
            + self.empty_passages
            + self.unknown_documents
            + self.unanswerable
            + self.crossing
    }

    /// Counts an error; false where reading cannot continue after it.
    pub(super) fn count(&mut self, error: &Error) -> bool {
        let problem = match error {
            Error::Line { problem, .. } => problem,
            Error::Question { problem, .. } => problem,
            _ => return false,
        };
        let problem = match problem {
            CorpusProblem::InQuestion { problem, .. } => problem,
            problem => problem,
        };
        let counter = match problem {
            CorpusProblem::LineTooLong { .. } | CorpusProblem::NotAnArray { .. } => return false,
            CorpusProblem::EmptyQuestion => &mut self.empty_questions,
            CorpusProblem::NoPositives => &mut self.without_positives,
            CorpusProblem::EmptyPassage { .. } => &mut self.empty_passages,
            CorpusProblem::UnknownDocument { .. } => &mut self.unknown_documents,
            _ => &mut self.broken,
        };
        *counter += 1;
        self.first.get_or_insert_with(|| error.to_string());
        true
    }
}
