//! Snippets: the part of a text that says most about a question, with its terms highlighted.

use std::collections::BTreeMap;
use std::ops::Range;

use tantivy::snippet::{SnippetGenerator, collapse_overlapped_ranges};

use super::Weighed;
use super::schema::schema;

/// A part of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The part.
    pub text: String,
    /// Byte ranges in it of the words that the question has too, ascending and disjoint; none where the text has no
    /// such word.
    pub highlights: Vec<Range<usize>>,
}

/// Makes the snippets of one question.
pub struct Snippets {
    generator: SnippetGenerator,
    bytes: usize,
}

impl std::fmt::Debug for Snippets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snippets")
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Snippets {
    /// For a question's terms, each worth its inverse document frequency. A snippet has at most `bytes` bytes, or one
    /// word that is longer.
    pub fn new(question: &Weighed<'_>, bytes: usize) -> Self {
        let (_, fields) = schema();
        let terms: BTreeMap<String, f32> = question
            .inverse_frequencies()
            .map(|(term, idf)| (term.to_owned(), idf))
            .collect();
        // tantivy counts bytes, whatever the name of its parameter says.
        Self {
            generator: SnippetGenerator::new(terms, question.analyzer().build(), fields.text, bytes),
            bytes,
        }
    }

    /// The best part of a text; its beginning where it has none of the terms.
    pub fn extract(&self, text: &str) -> Snippet {
        let found = self.generator.snippet(text);
        if found.is_empty() {
            return Snippet {
                text: beginning(text, self.bytes).to_owned(),
                highlights: Vec::new(),
            };
        }
        Snippet {
            text: found.fragment().to_owned(),
            highlights: collapse_overlapped_ranges(found.highlighted()),
        }
    }
}

/// At most that many bytes of a text's beginning, up to the end of a word where there is one.
fn beginning(text: &str, bytes: usize) -> &str {
    let text = text.trim();
    if text.len() <= bytes {
        return text;
    }
    let cut = &text[..text.floor_char_boundary(bytes)];
    let follows_word = text[cut.len()..].starts_with(char::is_whitespace);
    match cut.rfind(char::is_whitespace) {
        Some(end) if !follows_word => cut[..end].trim_end(),
        _ => cut.trim_end(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::TextLanguage;
    use crate::lexical::{AnalyzedQuestion, CorpusStatistics, TextDocument, TextShard, TextWriter};
    use dyad_files::Never;

    /// Snippets of a corpus in which `common` is in every document, and `rare` in one.
    fn snippets(question: &str, bytes: usize, texts: &[&str]) -> Vec<Snippet> {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = TextWriter::create(dir.path(), TextLanguage::English).unwrap();
        for (number, text) in ["common rare", "common", "common words", "common sense"]
            .iter()
            .enumerate()
        {
            writer
                .add(TextDocument {
                    key: &number.to_string(),
                    title: "",
                    text,
                    metadata_json: "",
                })
                .unwrap();
        }
        writer.finish().unwrap();
        let shard = TextShard::open(dir.path()).unwrap();
        let question = AnalyzedQuestion::new(TextLanguage::English, question);
        let weighed = question
            .weigh(&CorpusStatistics::new([&shard]), &Never)
            .unwrap()
            .unwrap();
        let snippets = Snippets::new(&weighed, bytes);
        texts.iter().map(|text| snippets.extract(text)).collect()
    }

    fn highlighted(snippet: &Snippet) -> Vec<&str> {
        snippet
            .highlights
            .iter()
            .map(|range| &snippet.text[range.clone()])
            .collect()
    }

    #[test]
    fn the_part_with_the_rarest_terms_is_chosen_and_their_forms_are_highlighted() {
        let filler = "nothing of interest ".repeat(20);
        let text = format!("It is common. {filler} Rarely seen: a Rare, common find. {filler} common, common");
        let one = &snippets("a common rare find", 60, &[&text])[0];
        assert!(one.text.len() <= 60, "{one:?}");
        assert_eq!(highlighted(one), ["Rarely", "Rare", "common", "find"]);
    }

    #[test]
    fn a_text_without_the_terms_gives_its_beginning_up_to_a_word() {
        let of = |text| snippets("rare", 16, &[text]).remove(0);
        let plain = |text: &str| Snippet {
            text: text.into(),
            highlights: Vec::new(),
        };
        assert_eq!(of("short"), plain("short"));
        assert_eq!(of("  exactly sixteen more"), plain("exactly sixteen"));
        assert_eq!(of("seventeen letters in"), plain("seventeen"));
        assert_eq!(of("éééééééééééé"), plain("éééééééé"));
        assert_eq!(of(""), plain(""));
    }

    #[test]
    fn any_text_and_any_length_make_a_snippet_within_bounds() {
        let texts = [
            "Curaçao rare Naïve",
            "漢字 rare 漢字漢字漢字",
            "rare",
            "x\u{0}rare\u{301}y",
            "ﬁﬂ rares ŒŒ",
        ];
        for bytes in [1, 2, 3, 5, 8, 13, 100] {
            for (snippet, text) in snippets("rare naive curacao", bytes, &texts).iter().zip(texts) {
                assert!(text.contains(&snippet.text));
                assert!(
                    snippet.text.len() <= bytes || !snippet.text.contains(' '),
                    "{snippet:?}"
                );
                assert!(
                    snippet
                        .highlights
                        .iter()
                        .all(|range| snippet.text.get(range.clone()).is_some())
                );
                assert!(snippet.highlights.is_sorted_by(|a, b| a.end <= b.start));
            }
        }
    }
}
