//! A document of a corpus, and the passage of it that is embedded and indexed.
use std::borrow::Cow;

use crate::context::PassageContext;
use crate::metadata::Metadata;
use crate::place::PassagePlace;

/// One document of a corpus.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Document {
    /// Unique in its corpus; never empty.
    pub key: String,
    /// May be empty.
    pub title: String,
    /// May be empty when there is a title.
    pub text: String,
    /// The corpus's own fields, unchanged; `None` where there were none.
    pub metadata: Option<Metadata>,
    /// Where it stands in another document, of which it is a passage; `None` where it is none, or where the corpus does
    /// not say.
    pub place: Option<PassagePlace>,
}

impl Document {
    /// The text that is embedded and searched: title, one space, text, trimmed (BEIR's rule for bi-encoders).
    pub fn passage(&self) -> Cow<'_, str> {
        joined(&self.title, &self.text)
    }

    /// The text that is embedded by itself in this context: without its title where the context has none, unless there
    /// is no other text.
    pub fn passage_in(&self, context: PassageContext) -> Cow<'_, str> {
        if context.has_title() || self.text.trim().is_empty() {
            self.passage()
        } else {
            Cow::Borrowed(self.text.trim())
        }
    }
}

/// Title, one space, text, trimmed.
pub(crate) fn joined<'a>(title: &'a str, text: &'a str) -> Cow<'a, str> {
    match (title.trim(), text.trim()) {
        ("", text) => Cow::Borrowed(text),
        (title, "") => Cow::Borrowed(title),
        _ => Cow::Owned(format!("{title} {text}").trim().to_owned()),
    }
}

/// A value and the line (from 1) on which it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// The value that was read.
    pub value: T,
    /// Counted from 1, blank lines and header included.
    pub line: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(title: &str, text: &str) -> Document {
        Document {
            key: "k".into(),
            title: title.into(),
            text: text.into(),
            ..Document::default()
        }
    }

    #[test]
    fn a_passage_is_title_space_text_trimmed() {
        assert_eq!(document("Rust", "a language").passage(), "Rust a language");
        assert_eq!(document("", " a language\n").passage(), "a language");
        assert_eq!(document(" Rust ", "  ").passage(), "Rust");
        assert_eq!(document(" ", "\t").passage(), "");
    }

    #[test]
    fn a_passage_keeps_inner_whitespace_as_beir_does() {
        // Python: ("Rust " + " " + " a language").strip()
        assert_eq!(document("Rust ", " a language").passage(), "Rust   a language");
    }
}
