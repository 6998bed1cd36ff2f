//! A training example: a question, its positive and its negative passages.
use std::borrow::Cow;

use crate::document::{Document, joined};
use crate::metadata::Metadata;
use crate::place::PassageSpan;
use crate::problem::CorpusProblem;

/// A passage of an example.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Passage {
    /// The document's key, where the source has one.
    pub key: Option<String>,
    /// May be empty.
    pub title: String,
    /// May be empty when there is a title.
    pub text: String,
    /// A teacher's score of this passage for the question, where the source has one. Larger is better; only differences
    /// between the passages of one question mean something.
    pub score: Option<f32>,
    /// Where the passage stands in its document, where the source says so.
    pub span: Option<PassageSpan>,
}

impl Passage {
    /// A passage that is only a text.
    pub fn from_text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A document of a corpus, with its place where its metadata say so.
    pub fn of_document(document: Document) -> Self {
        let span = document.metadata.as_ref().and_then(Metadata::span);
        let Document { key, title, text, .. } = document;
        Self {
            key: Some(key),
            title,
            text,
            score: None,
            span,
        }
    }

    /// What the answer tower reads with or without titles: a passage that is only a title keeps it.
    pub fn read_with(&self, titles: bool) -> Cow<'_, str> {
        if titles || self.text.trim().is_empty() {
            self.passage()
        } else {
            Cow::Borrowed(self.text.trim())
        }
    }

    /// What the answer tower reads: title, one space, text, trimmed.
    pub fn passage(&self) -> Cow<'_, str> {
        joined(&self.title, &self.text)
    }
}

/// One question and its passages. From a reader: the question is not blank, there is a positive, no passage is blank.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrainingExample {
    /// The question's key, where the source has one.
    pub key: Option<String>,
    /// The question.
    pub question: String,
    /// Passages that answer it.
    pub positives: Vec<Passage>,
    /// Passages that do not, hardest first where the source has an order.
    pub negatives: Vec<Passage>,
}

impl TrainingExample {
    /// Refuses an example that cannot be learned from.
    pub(super) fn check(&self) -> Result<(), CorpusProblem> {
        if self.question.trim().is_empty() {
            return Err(CorpusProblem::EmptyQuestion);
        }
        if self.positives.is_empty() {
            return Err(CorpusProblem::NoPositives);
        }
        for (which, passages) in [("positive", &self.positives), ("negative", &self.negatives)] {
            if let Some(at) = passages.iter().position(|passage| passage.passage().is_empty()) {
                return Err(CorpusProblem::EmptyPassage { which, number: at + 1 });
            }
        }
        Ok(())
    }
}
