//! A question as terms, by the analyzer of each shard.

use tantivy::Term;

use super::analyzer::{Analyzer, terms_by};
use super::schema::schema;
use crate::language::TextLanguage;

/// The terms that an analyzer makes of a question, in order: a repeated word counts as often as it occurs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QuestionTerms {
    pub(super) words: Vec<String>,
    pub(super) terms: Vec<Term>,
}

/// A question as terms.
#[derive(Debug)]
pub struct AnalyzedQuestion {
    language: TextLanguage,
    current: QuestionTerms,
    /// The terms by the analyzer of earlier releases, where these are others.
    first: Option<QuestionTerms>,
}

impl QuestionTerms {
    fn new(text: &str, analyzer: Analyzer) -> Self {
        let (_, fields) = schema();
        let words = terms_by(analyzer, text);
        let terms = words
            .iter()
            .map(|word| Term::from_field_text(fields.body, word))
            .collect();
        Self { words, terms }
    }
}

impl AnalyzedQuestion {
    /// Analyzes a question, which is asked of an index of that language.
    pub fn new(language: TextLanguage, text: &str) -> Self {
        let current = QuestionTerms::new(text, Analyzer::Of(language));
        // Both make the same of ASCII.
        let has_first = language.is_english() && !text.is_ascii();
        let first = has_first.then(|| QuestionTerms::new(text, Analyzer::First));
        let first = first.filter(|first| *first != current);
        Self {
            language,
            current,
            first,
        }
    }

    /// Terms after analysis, in order.
    pub fn terms(&self) -> &[String] {
        &self.current.words
    }

    /// The language by which it is analysed.
    pub(super) fn language(&self) -> TextLanguage {
        self.language
    }

    pub(super) fn current(&self) -> &QuestionTerms {
        &self.current
    }

    /// The terms, and after them those for shards of earlier releases, where they are others.
    pub(super) fn terms_of_both(&self) -> impl Iterator<Item = &Term> {
        let of_first = self.first.iter().flat_map(|first| &first.terms);
        self.current.terms.iter().chain(of_first)
    }

    /// Those for shards of earlier releases, where they are others.
    pub(super) fn first(&self) -> Option<&QuestionTerms> {
        self.first.as_ref()
    }
}
