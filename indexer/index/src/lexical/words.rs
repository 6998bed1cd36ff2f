//! The words of a text: runs of letters and digits, with the marks and invisible characters that stand within them.
//!
//! What extends a character does not end a word (UAX 29, rule WB4): decomposed spellings (`nai` + U+0308 + `ve`), the
//! vowel signs of Indic scripts, soft hyphens, and the joiners of Persian. Words are then composed (NFC), and what only
//! decorates a letter is left out: accents that have no letter of their own, the points of Hebrew, the vowel marks of
//! Arabic, and all that is invisible. In scripts without spaces between words marks cut as they always did, and so they
//! do in what would be longer than any word.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use unicode_normalization::char::is_combining_mark;

/// Longest word in bytes, as in Lucene's standard analyzer.
pub const MAX_WORD_BYTES: usize = 255;

/// Cuts a text into words. Longer ones than [`MAX_WORD_BYTES`] are left out and counted.
#[derive(Debug, Clone, Default)]
pub(super) struct Words {
    /// Whether only letters and digits are in words, as in earlier releases.
    bare: bool,
    left_out: LongWords,
    token: Token,
}

/// Words that were left out because of their length.
#[derive(Debug, Clone, Default)]
pub(super) struct LongWords(Arc<AtomicU64>);

impl LongWords {
    /// One more.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// So far.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Words {
    /// Counts what is left out.
    pub(super) fn counted(left_out: LongWords) -> Self {
        Self {
            left_out,
            ..Self::default()
        }
    }

    /// As the first analyzer cut them: a mark ends a word.
    pub(super) fn bare() -> Self {
        Self {
            bare: true,
            ..Self::default()
        }
    }
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        let bare_until = if self.bare { usize::MAX } else { 0 };
        let words = WordCursor {
            text,
            at: 0,
            bare_until,
        };
        WordStream {
            text,
            words,
            left_out: &self.left_out,
            token: &mut self.token,
        }
    }
}

/// The words of one text.
#[derive(Debug)]
pub(super) struct WordStream<'a> {
    text: &'a str,
    words: WordCursor<'a>,
    left_out: &'a LongWords,
    token: &'a mut Token,
}

/// A place in a text between two words.
#[derive(Debug)]
pub(super) struct WordCursor<'a> {
    text: &'a str,
    /// The bytes of the text that have been read.
    at: usize,
    /// The place before which marks end words.
    bare_until: usize,
}

impl<'a> WordCursor<'a> {
    /// At the beginning of a text.
    pub(super) fn new(text: &'a str) -> Self {
        Self::from(text, 0)
    }

    /// At a place in a text.
    pub(super) fn from(text: &'a str, at: usize) -> Self {
        Self {
            text,
            at,
            bare_until: 0,
        }
    }

    /// The end of the text.
    pub(super) fn end(&self) -> usize {
        self.text.len()
    }

    /// The place of the next word; those that are too long are left out and counted.
    pub(super) fn next(&mut self, left_out: &LongWords) -> Option<Range<usize>> {
        while let Some(begin) = self.start() {
            let mut end = self.word_end(begin, begin < self.bare_until);
            if end - begin >= MAX_WORD_BYTES && begin >= self.bare_until {
                // Its parts between marks may be short enough.
                self.bare_until = end;
                end = self.word_end(begin, true);
            }
            self.at = end;
            if end - begin >= MAX_WORD_BYTES {
                left_out.add();
                continue;
            }
            return Some(begin..end);
        }
        None
    }

    /// The start of the next word.
    fn start(&self) -> Option<usize> {
        let mut at = self.at;
        loop {
            at += self.run_length(at, ByteKind::Gap);
            let c = self.text[at..].chars().next()?;
            if c.is_alphanumeric() {
                return Some(at);
            }
            at += c.len_utf8();
        }
    }

    /// How many bytes of a kind follow each other at a place.
    fn run_length(&self, at: usize, kind: ByteKind) -> usize {
        let is_of_kind = |byte: &&u8| BYTE_KINDS[usize::from(**byte)] == kind;
        self.text.as_bytes()[at..].iter().take_while(is_of_kind).count()
    }

    /// The end of the word that begins at `begin`.
    fn word_end(&self, begin: usize, bare: bool) -> usize {
        let belongs = |c: char| c.is_alphanumeric() || (!bare && extends(c));
        let mut at = begin;
        loop {
            at += self.run_length(at, ByteKind::Word);
            match self.text[at..].chars().next() {
                Some(c) if belongs(c) => at += c.len_utf8(),
                _ => return at,
            }
        }
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        self.token.text.clear();
        self.token.position = self.token.position.wrapping_add(1);
        let Some(word) = self.words.next(self.left_out) else {
            return false;
        };
        (self.token.offset_from, self.token.offset_to) = (word.start, word.end);
        self.token.text.push_str(&self.text[word]);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// The kinds of a byte of UTF-8. Most text is ASCII, of which a table tells faster than [`char::is_alphanumeric`] where
/// words end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteKind {
    /// An ASCII letter or digit.
    Word,
    /// Another ASCII character.
    Gap,
    /// Of a longer character.
    Other,
}

static BYTE_KINDS: [ByteKind; 256] = {
    let mut kinds = [ByteKind::Other; 256];
    let mut byte = 0;
    while byte < 128 {
        kinds[byte as usize] = if (byte as u8).is_ascii_alphanumeric() {
            ByteKind::Word
        } else {
            ByteKind::Gap
        };
        byte += 1;
    }
    kinds
};

/// Whether a character belongs to the one before it.
pub(super) fn extends(c: char) -> bool {
    !c.is_ascii() && (is_invisible(c) || is_combining_mark(c)) && !is_of_script_without_spaces(c)
}

/// Thai, Lao, Burmese, Khmer and Tai scripts have no spaces between words, so that marks, which end some syllables, are
/// all that cuts a sentence.
fn is_of_script_without_spaces(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{19ff}'
        | '\u{1a20}'..='\u{1aaf}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aadf}')
}

/// Soft hyphen, joiners, variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}'
    )
}

/// What decorates a letter without changing which one it is.
pub(super) fn is_decoration(c: char) -> bool {
    match c {
        // Accents of Latin, Greek and Cyrillic that no composed letter has.
        '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20f0}'
        // The points and accents of Hebrew.
        | '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}' | '\u{5c2}' | '\u{5c4}' | '\u{5c5}' | '\u{5c7}'
        // The vowel marks of Arabic.
        | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}' | '\u{6df}'..='\u{6e4}'
        | '\u{6e7}' | '\u{6e8}' | '\u{6ea}'..='\u{6ed}' => true,
        c => is_invisible(c),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tantivy::tokenizer::{LowerCaser, RemoveLongFilter, SimpleTokenizer, TextAnalyzer};

    use super::super::lower_compose::{LowerComposeFilter, composed};
    use super::*;

    fn all(tokenizer: &mut TextAnalyzer, text: &str) -> Vec<Token> {
        let mut found = Vec::new();
        tokenizer
            .token_stream(text)
            .process(&mut |token| found.push(token.clone()));
        found
    }

    fn words(text: &str) -> Vec<String> {
        let mut analyzer = TextAnalyzer::builder(Words::default())
            .filter(LowerComposeFilter::default())
            .build();
        all(&mut analyzer, text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn spellings_of_one_word_are_one_word() {
        for (one, other) in [
            ("na\u{ef}ve", "nai\u{308}ve"),
            ("S\u{e3}o", "Sa\u{303}o"),
            ("co\u{ad}operate", "cooperate"),
            ("\u{ac00}\u{b098}", "\u{1100}\u{1161}\u{1102}\u{1161}"),
            ("\u{304c}", "\u{304b}\u{3099}"),
            (
                "\u{5e9}\u{5dc}\u{5d5}\u{5dd}",
                "\u{5e9}\u{5c1}\u{5b8}\u{5dc}\u{5d5}\u{5b9}\u{5dd}",
            ),
            ("\u{643}\u{62a}\u{628}", "\u{643}\u{64e}\u{62a}\u{64e}\u{628}\u{64e}"),
            (
                "\u{645}\u{6cc}\u{62e}\u{648}\u{627}\u{647}\u{645}",
                "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            ),
            (
                "\u{3c3}\u{3bf}\u{3c6}\u{3bf}\u{3c2}",
                "\u{3c3}\u{3bf}\u{3c6}\u{3bf}\u{3c3}",
            ),
            ("\u{419}od", "\u{418}\u{306}od"),
            ("x\u{302}", "x"),
            ("1\u{fe0f}\u{20e3}", "1"),
        ] {
            assert_eq!(words(one), words(other), "{one} and {other}");
            assert_eq!(words(one).len(), 1, "{one}");
        }
        // The vowel signs and the virama of Devanagari are part of the word.
        assert_eq!(
            words("\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940} \u{915}"),
            ["\u{939}\u{93f}\u{928}\u{94d}\u{926}\u{940}", "\u{915}"]
        );
        assert_eq!(words("\u{301}a b\u{301}"), ["a", "\u{62}"], "a mark begins no word");
        // Thai is cut at its tone marks, as before.
        let bare = |text: &str| {
            let mut analyzer = TextAnalyzer::builder(Words::bare()).build();
            all(&mut analyzer, text)
                .into_iter()
                .map(|token| token.text)
                .collect::<Vec<_>>()
        };
        let thai = "\u{e17}\u{e35}\u{e48}\u{e19}\u{e35}\u{e48}".repeat(30);
        assert_eq!(words(&thai), bare(&thai));
        let long = "ne\u{301}".repeat(100);
        assert_eq!(words(&long), bare(&long), "longer than a word may be");
    }

    #[test]
    fn long_words_are_left_out_and_counted() {
        let left_out = LongWords::default();
        let mut analyzer = TextAnalyzer::builder(Words::counted(left_out.clone())).build();
        let text = format!("a {} {} b", "x".repeat(MAX_WORD_BYTES - 1), "y".repeat(MAX_WORD_BYTES));
        assert_eq!(all(&mut analyzer, &text).len(), 3);
        assert_eq!(left_out.count(), 1);
    }

    proptest! {
        /// Without marks and invisible characters they are tantivy's, places included.
        #[test]
        fn bare_words_are_those_of_tantivy(text in "[a-z0-9 .\\-\u{e9}\u{4e2d}\u{301}\u{ad}]{0,40}|x{250,260}") {
            let limit = RemoveLongFilter::limit(MAX_WORD_BYTES);
            let mut theirs = TextAnalyzer::builder(SimpleTokenizer::default()).filter(limit).build();
            let mut ours = TextAnalyzer::builder(Words::bare()).build();
            let shown = |tokens: Vec<Token>| -> Vec<(String, usize, usize)> {
                tokens.into_iter().map(|token| (token.text, token.offset_from, token.offset_to)).collect()
            };
            prop_assert_eq!(shown(all(&mut ours, &text)), shown(all(&mut theirs, &text)));
            let plain: String = text.chars().filter(|c| !extends(*c)).collect();
            let mut new = TextAnalyzer::builder(Words::default()).build();
            prop_assert_eq!(shown(all(&mut new, &plain)), shown(all(&mut theirs, &plain)));
        }

        /// Lower case is tantivy's; what is composed already stays.
        #[test]
        fn lower_case_is_that_of_tantivy(text in "[A-Za-z0-9 .\u{130}\u{391}-\u{3a1}\u{410}-\u{44f}\u{1e9e}\u{4e2d}]{0,40}") {
            let mut theirs = TextAnalyzer::builder(Words::default()).filter(LowerCaser).build();
            let theirs = all(&mut theirs, &text).into_iter().map(|token| composed(&token.text));
            prop_assert_eq!(words(&text), theirs.collect::<Vec<_>>());
        }
    }
}
