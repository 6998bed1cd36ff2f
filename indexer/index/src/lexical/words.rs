//! The words of a text: runs of letters and digits, with the marks and invisible characters that stand within them.
//!
//! What extends a character does not end a word (UAX 29, rule WB4): decomposed spellings (`nai` + U+0308 + `ve`), the vowel signs of
//! Indic scripts, soft hyphens, and the joiners of Persian. Words are then composed (NFC), and what only decorates a letter is left out:
//! accents that have no letter of their own, the points of Hebrew, the vowel marks of Arabic, and all that is invisible. In scripts without
//! spaces between words marks cut as they always did, and so they do in what would be longer than any word.

use std::str::CharIndices;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tantivy::tokenizer::{Token, TokenFilter, TokenStream, Tokenizer};
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

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
    /// So far.
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Words {
    /// Counts what is left out.
    pub(super) fn counted(left_out: LongWords) -> Self {
        Self { left_out, ..Self::default() }
    }

    /// As the first analyzer cut them: a mark ends a word.
    pub(super) fn bare() -> Self {
        Self { bare: true, ..Self::default() }
    }
}

impl Tokenizer for Words {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        self.token.reset();
        WordStream {
            text,
            chars: text.char_indices(),
            bare_until: if self.bare { usize::MAX } else { 0 },
            left_out: &self.left_out,
            token: &mut self.token,
        }
    }
}

/// The words of one text.
#[derive(Debug)]
pub(super) struct WordStream<'a> {
    text: &'a str,
    chars: CharIndices<'a>,
    /// Where marks end words: before this place.
    bare_until: usize,
    left_out: &'a LongWords,
    token: &'a mut Token,
}

impl WordStream<'_> {
    /// The end of the word that has begun.
    fn end(&mut self, bare: bool) -> usize {
        let is_over = |c: char| !c.is_alphanumeric() && (bare || !extends(c));
        self.chars.by_ref().find(|(_, c)| is_over(*c)).map_or(self.text.len(), |(at, _)| at)
    }
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        self.token.text.clear();
        self.token.position = self.token.position.wrapping_add(1);
        while let Some((begin, c)) = self.chars.next() {
            if !c.is_alphanumeric() {
                continue;
            }
            let rest = self.chars.clone();
            let mut end = self.end(begin < self.bare_until);
            if end - begin >= MAX_WORD_BYTES && begin >= self.bare_until {
                // Its parts between marks may be short enough.
                (self.bare_until, self.chars) = (end, rest);
                end = self.end(true);
            }
            if end - begin >= MAX_WORD_BYTES {
                self.left_out.0.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            (self.token.offset_from, self.token.offset_to) = (begin, end);
            self.token.text.push_str(&self.text[begin..end]);
            return true;
        }
        false
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// Whether a character belongs to the one before it.
fn extends(c: char) -> bool {
    !c.is_ascii() && (is_invisible(c) || is_combining_mark(c)) && !is_of_script_without_spaces(c)
}

/// Thai, Lao, Burmese, Khmer and Tai scripts have no spaces between words, so that marks, which end some syllables, are all that cuts a
/// sentence.
fn is_of_script_without_spaces(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{1950}'..='\u{19ff}'
        | '\u{1a20}'..='\u{1aaf}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aadf}')
}

/// Soft hyphen, joiners, variation selectors.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{200c}' | '\u{200d}' | '\u{2060}' | '\u{fe00}'..='\u{fe0f}')
}

/// What decorates a letter without changing which one it is.
fn is_decoration(c: char) -> bool {
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

/// Composes words, and leaves decorations out.
#[derive(Debug, Clone)]
pub(super) struct ComposeFilter;

impl TokenFilter for ComposeFilter {
    type Tokenizer<T: Tokenizer> = ComposeTokenizer<T>;

    fn transform<T: Tokenizer>(self, tokenizer: T) -> ComposeTokenizer<T> {
        ComposeTokenizer(tokenizer)
    }
}

#[derive(Debug, Clone)]
pub(super) struct ComposeTokenizer<T>(T);

impl<T: Tokenizer> Tokenizer for ComposeTokenizer<T> {
    type TokenStream<'a> = ComposeStream<T::TokenStream<'a>>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
        ComposeStream(self.0.token_stream(text))
    }
}

#[derive(Debug)]
pub(super) struct ComposeStream<S>(S);

impl<S: TokenStream> TokenStream for ComposeStream<S> {
    fn advance(&mut self) -> bool {
        if !self.0.advance() {
            return false;
        }
        let text = &mut self.0.token_mut().text;
        if !text.is_ascii() && !is_plain(text) {
            *text = composed(text);
        }
        true
    }

    fn token(&self) -> &Token {
        self.0.token()
    }

    fn token_mut(&mut self) -> &mut Token {
        self.0.token_mut()
    }
}

/// Whether a word is composed and has no decoration.
fn is_plain(word: &str) -> bool {
    is_nfc_quick(word.chars()) == IsNormalized::Yes && !word.chars().any(|c| is_decoration(c) || c == '\u{3c2}')
}

fn composed(word: &str) -> String {
    // Greek writes another sigma at the end of a word.
    let letter = |c: char| if c == '\u{3c2}' { '\u{3c3}' } else { c };
    word.nfc().filter(|c| !is_decoration(*c)).map(letter).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tantivy::tokenizer::{RemoveLongFilter, SimpleTokenizer, TextAnalyzer};

    use super::*;

    fn all(tokenizer: &mut TextAnalyzer, text: &str) -> Vec<Token> {
        let mut found = Vec::new();
        tokenizer.token_stream(text).process(&mut |token| found.push(token.clone()));
        found
    }

    fn words(text: &str) -> Vec<String> {
        let mut analyzer = TextAnalyzer::builder(Words::default()).filter(ComposeFilter).build();
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
            ("\u{5e9}\u{5dc}\u{5d5}\u{5dd}", "\u{5e9}\u{5c1}\u{5b8}\u{5dc}\u{5d5}\u{5b9}\u{5dd}"),
            ("\u{643}\u{62a}\u{628}", "\u{643}\u{64e}\u{62a}\u{64e}\u{628}\u{64e}"),
            (
                "\u{645}\u{6cc}\u{62e}\u{648}\u{627}\u{647}\u{645}",
                "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            ),
            ("\u{3c3}\u{3bf}\u{3c6}\u{3bf}\u{3c2}", "\u{3c3}\u{3bf}\u{3c6}\u{3bf}\u{3c3}"),
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
            all(&mut analyzer, text).into_iter().map(|token| token.text).collect::<Vec<_>>()
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
    }
}
