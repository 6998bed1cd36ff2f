//! Documents as passages of whole sentences.
use std::ops::Range;

use serde_json::Map;
use unicode_segmentation::UnicodeSegmentation as _;

use super::Split;
use super::sections::{Section, SectionPart, section_parts};
use crate::document::Document;
use crate::metadata::Metadata;
use crate::place::PassagePlace;
use crate::problem::CorpusProblem;

/// Fields of the metadata that say of which document a passage is, and which of its passages, from 0.
const DOCUMENT: &str = "document";
const PASSAGE: &str = "passage";
/// Of passages of a document with headings: those that it stands under.
const HEADING: &str = "heading";

/// A piece of a text: a sentence, or a part of one that is longer than a passage.
#[derive(Debug, Clone, Copy)]
struct TextPiece {
    begin: usize,
    end: usize,
    words: usize,
}

impl Split {
    /// The passages of a document, in its order: at least one. Each has the document's title and metadata, and its
    /// place in the document.
    pub fn passages(self, document: &Document) -> Result<Vec<Document>, CorpusProblem> {
        self.passages_of(document, &[])
    }

    /// The same of a document with sections: a heading begins a passage.
    pub(super) fn passages_of(self, document: &Document, sections: &[Section]) -> Result<Vec<Document>, CorpusProblem> {
        let metadata = document.metadata.as_ref();
        let reserved = [DOCUMENT, PASSAGE]
            .into_iter()
            .chain((!sections.is_empty()).then_some(HEADING));
        let is_there = |field: &&str| metadata.is_some_and(|metadata| metadata.has(field));
        if let Some(field) = reserved.into_iter().find(is_there) {
            return Err(CorpusProblem::Reserved { field });
        }
        let whole = PassagePlace::whole(document.text.as_str());
        let parts = section_parts(&document.text, sections);
        let texts = parts.iter().flat_map(|part| {
            self.cut_part(&document.text, part)
                .map(move |bytes| (bytes, &part.path))
        });
        texts
            .enumerate()
            .map(|(number, (bytes, heading))| {
                Ok(Document {
                    key: format!("{}#{number}", document.key),
                    title: document.title.clone(),
                    text: document.text.get(bytes.clone()).unwrap_or_default().to_owned(),
                    metadata: passage_metadata(document, number, heading)?,
                    place: whole.part(bytes),
                })
            })
            .collect()
    }

    /// The bytes of the passages of a part.
    fn cut_part(self, text: &str, part: &SectionPart) -> impl Iterator<Item = Range<usize>> + use<> {
        let begin = part.bytes.start;
        let passages = self.cut(text.get(part.bytes.clone()).unwrap_or_default(), part.heading_bytes);
        passages
            .into_iter()
            .map(move |bytes| begin + bytes.start..begin + bytes.end)
    }

    /// The bytes of passages of a text that begins with headings, or with none.
    fn cut(self, text: &str, heading_bytes: usize) -> Vec<Range<usize>> {
        let pieces = self.pieces(text, heading_bytes);
        let (mut found, mut first) = (Vec::new(), 0);
        while first < pieces.len() {
            let mut words = 0;
            let fits = |piece: &&TextPiece| {
                words += piece.words;
                words <= self.words
            };
            // No piece has more words than a passage may have.
            let last = first + pieces.iter().skip(first).take_while(fits).count().max(1);
            let (Some(begin), Some(end)) = (pieces.get(first), pieces.get(last - 1)) else {
                break;
            };
            found.push(trimmed(text, begin.begin..end.end));
            if last >= pieces.len() {
                break;
            }
            // No more than leaves room for what comes next.
            let room = self.words - pieces.get(last).map_or(0, |next| next.words);
            let mut repeated = 0;
            let back = pieces
                .get(first + 1..last)
                .unwrap_or_default()
                .iter()
                .rev()
                .take_while(|piece| {
                    repeated += piece.words;
                    repeated <= self.overlap.min(room)
                });
            first = last - back.count();
        }
        if found.is_empty() {
            found.push(trimmed(text, 0..text.len()));
        }
        found
    }

    /// Sentences by Unicode's rules (UAX 29), where a line may end within one and an empty line ends all; and parts of
    /// those that are too long. Headings are parts of the sentence that follows them, so that no passage ends with
    /// them.
    fn pieces(self, text: &str, heading_bytes: usize) -> Vec<TextPiece> {
        let joined = one_line(text);
        let mut pieces = Vec::new();
        let mut at = 0;
        for (begin, sentence) in joined.split_sentence_bound_indices() {
            let end = begin + sentence.len();
            let goes_on = text.get(end..).and_then(|rest| rest.chars().next());
            // A boundary within a word, as after the `?` of `?a`, is none.
            let is_bound = sentence.ends_with(char::is_whitespace)
                || goes_on.is_none_or(is_unspaced)
                || sentence.chars().next_back().is_some_and(is_full_stop);
            let is_heading = heading_bytes > 0
                && text
                    .get(..end)
                    .is_some_and(|before| before.trim_end().len() <= heading_bytes);
            if !is_bound || (is_heading && end < text.len()) {
                continue;
            }
            let sentence = text.get(at..end).unwrap_or_default();
            for part in words(sentence).chunks(self.words) {
                let begin = at + part.first().copied().unwrap_or_default();
                pieces.push(TextPiece {
                    begin,
                    end,
                    words: part.len(),
                });
            }
            at = end;
        }
        // A part ends where the next one begins.
        let begins: Vec<usize> = pieces.iter().skip(1).map(|piece| piece.begin).collect();
        for (piece, next) in pieces.iter_mut().zip(begins) {
            piece.end = piece.end.min(next);
        }
        pieces
    }
}

/// The metadata of a passage: those of its document, with the fields that say where it stands.
fn passage_metadata(document: &Document, number: usize, heading: &str) -> Result<Option<Metadata>, CorpusProblem> {
    let mut fields = Map::new();
    fields.insert(DOCUMENT.to_owned(), document.key.clone().into());
    fields.insert(PASSAGE.to_owned(), number.into());
    if !heading.is_empty() {
        fields.insert(HEADING.to_owned(), heading.into());
    }
    Metadata::with(document.metadata.as_ref(), &fields).map_err(|error| CorpusProblem::Json {
        message: error.to_string(),
    })
}

/// The bytes of a part of a text without white space around it.
fn trimmed(text: &str, bytes: Range<usize>) -> Range<usize> {
    let part = text.get(bytes.clone()).unwrap_or_default();
    let begin = bytes.start + (part.len() - part.trim_start().len());
    begin..begin + part.trim().len()
}

/// Single line breaks as spaces, byte for byte: they wrap lines, and empty lines between stay.
fn one_line(text: &str) -> String {
    let is_break = |letter: char| matches!(letter, '\n' | '\r');
    let mut joined = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_break) {
        let (before, after) = rest.split_at(at);
        let run = after.len() - after.trim_start_matches(is_break).len();
        let (breaks, after) = after.split_at(run);
        joined.push_str(before);
        if breaks.matches('\n').count() > 1 {
            joined.push_str(breaks);
        } else {
            joined.extend(std::iter::repeat_n(' ', run));
        }
        rest = after;
    }
    joined.push_str(rest);
    joined
}

/// Letters of scripts that put no space between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese.
fn is_unspaced(letter: char) -> bool {
    matches!(letter, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

/// The end of a sentence in these scripts.
fn is_full_stop(letter: char) -> bool {
    matches!(letter, '。' | '！' | '？' | '｡')
}

/// Where words begin: after white space, and in scripts without it where Unicode's rules have one (an ideograph, or
/// some letters).
fn words(text: &str) -> Vec<usize> {
    let start = text.as_ptr() as usize;
    let mut found = Vec::new();
    for word in text.split_whitespace() {
        let begin = word.as_ptr() as usize - start;
        let before = found.len();
        if word.chars().any(is_unspaced) {
            found.extend(word.unicode_word_indices().map(|(at, _)| begin + at));
        }
        if found.len() == before {
            found.push(begin);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, words: usize, overlap: usize) -> Vec<&str> {
        Split::new(words, overlap)
            .unwrap()
            .cut(text, 0)
            .into_iter()
            .map(|bytes| &text[bytes])
            .collect()
    }

    #[test]
    fn passages_are_whole_sentences_that_may_overlap() {
        let text = "One two three. Four five. Six seven eight nine. Ten.";
        assert_eq!(
            cut(text, 5, 0),
            ["One two three. Four five.", "Six seven eight nine. Ten."]
        );
        assert_eq!(
            cut(text, 6, 2),
            ["One two three. Four five.", "Four five. Six seven eight nine.", "Ten."]
        );
        assert_eq!(cut(text, 100, 50), [text]);
        assert_eq!(
            cut("one two three four five six", 4, 0),
            ["one two three four", "five six"]
        );
        assert_eq!(cut("  ", 4, 0), [""]);
        assert!(Split::new(0, 0).is_err() && Split::new(5, 5).is_err());
    }

    #[test]
    fn wrapped_lines_and_scripts_without_spaces_have_sentences_too() {
        let wrapped = "One two\nthree. Four\r\nfive six.\n\nA heading\n\nSeven.";
        assert_eq!(
            cut(wrapped, 3, 0),
            ["One two\nthree.", "Four\r\nfive six.", "A heading\n\nSeven."]
        );
        assert_eq!(
            cut("東京は日本の首都です。人口は多い。", 10, 0),
            ["東京は日本の首都です。", "人口は多い。"]
        );
        // Ideographs are words of their own, and so are runs of Katakana.
        assert!(
            cut("東京東京東京東京", 3, 0)
                .iter()
                .all(|passage| passage.chars().count() <= 3)
        );
    }

    #[test]
    fn a_passage_knows_its_document() {
        let metadata = Metadata::parse(r#"{"lang": "en", "price": 1.50}"#).unwrap();
        let document = Document {
            key: "d".into(),
            title: "T".into(),
            text: "One two. Three.".into(),
            metadata,
            place: None,
        };
        let passages = Split::new(2, 0).unwrap().passages(&document).unwrap();
        let shown: Vec<_> = passages
            .iter()
            .map(|passage| (passage.key.as_str(), passage.passage().into_owned()))
            .collect();
        assert_eq!(
            shown,
            [("d#0", "T One two.".to_owned()), ("d#1", "T Three.".to_owned())]
        );
        let metadata = passages[1].metadata.as_ref().unwrap();
        assert_eq!(
            metadata.as_json(),
            r#"{"lang":"en","price":1.50,"document":"d","passage":1}"#
        );
        let error = Split::new(2, 0)
            .unwrap()
            .passages(&passages[0])
            .unwrap_err()
            .to_string();
        assert!(error.contains("`document`"), "{error}");
    }

    fn number_of_word(word: &str) -> usize {
        let number = word.trim_matches(|letter: char| !letter.is_ascii_digit());
        number.parse().unwrap()
    }

    proptest! {
        /// Nothing is lost, nothing is too long, only the overlap is repeated, and every passage adds something.
        #[test]
        fn all_words_are_in_passages(
            ends in prop::collection::vec("[.!?]? |\n", 0..60),
            words in 1_usize..12,
            overlap in 0_usize..11,
        ) {
            let overlap = overlap.min(words - 1);
            let text: String = ends.iter().enumerate().map(|(number, end)| format!("W{number}{end}")).collect::<Vec<_>>().concat();
            let passages = cut(&text, words, overlap);
            let mut next = 0;
            for passage in passages.iter().filter(|passage| !passage.is_empty()) {
                let own: Vec<usize> = passage.split_whitespace().map(number_of_word).collect();
                let (first, last) = (own[0], own[own.len() - 1]);
                prop_assert!(own.len() <= words && own.windows(2).all(|two| two[1] == two[0] + 1), "{:?}", own);
                prop_assert!(first <= next && next - first <= overlap && last >= next, "{:?} after {}", own, next);
                next = last + 1;
            }
            prop_assert_eq!(next, ends.len());
        }
    }
}
