//! Words of texts in which Chinese, Japanese or Korean may stand: two characters of these each, as Lucene's
//! `CJKAnalyzer` cuts them, and runs of letters and digits of all others.
//!
//! Such texts have no spaces between words, or endings that no list of words knows. Overlapping pairs of characters
//! find what a dictionary would, at the price of some pairs across words (Lucene, `CJKBigramFilter`). A character that
//! stands alone is a word. Full-width letters and half-width kana become their usual forms (`CJKWidthFilter`).

use std::ops::Range;

use tantivy::tokenizer::{Token, TokenStream, Tokenizer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_script::{Script, UnicodeScript as _};

use super::words::{LongWords, MAX_WORD_BYTES, WordCursor, extends};

/// The first byte in UTF-8 of the first such character, U+1100.
const FIRST_BYTE: u8 = 0xe1;

/// Cuts a text into such words.
#[derive(Debug, Clone, Default)]
pub(super) struct CjkWords {
    left_out: LongWords,
    token: Token,
}

impl CjkWords {
    /// Counts words that are left out because of their length.
    pub(super) fn counted(left_out: LongWords) -> Self {
        Self {
            left_out,
            token: Token::default(),
        }
    }
}

impl Tokenizer for CjkWords {
    type TokenStream<'a> = CjkWordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> CjkWordStream<'a> {
        self.token.reset();
        let until = next_cjk(text, 0);
        CjkWordStream {
            text,
            words: WordCursor::new(&text[..until]),
            run: None,
            left_out: &self.left_out,
            token: &mut self.token,
        }
    }
}

/// The words of one text.
#[derive(Debug)]
pub(super) struct CjkWordStream<'a> {
    text: &'a str,
    /// The words up to the next run of characters without spaces.
    words: WordCursor<'a>,
    run: Option<CjkRun<'a>>,
    left_out: &'a LongWords,
    token: &'a mut Token,
}

impl CjkWordStream<'_> {
    fn next_word(&mut self) -> Option<Range<usize>> {
        loop {
            if let Some(run) = &mut self.run {
                if let Some(pair) = run.next() {
                    if pair.len() >= MAX_WORD_BYTES {
                        self.left_out.add();
                        continue;
                    }
                    return Some(pair);
                }
                let from = run.at;
                self.run = None;
                self.words = WordCursor::from(&self.text[..next_cjk(self.text, from)], from);
            }
            if let Some(word) = self.words.next(self.left_out) {
                return Some(word);
            }
            let end = self.words.end();
            if end == self.text.len() {
                return None;
            }
            self.run = Some(CjkRun {
                text: self.text,
                at: end,
                previous: None,
                is_paired: false,
            });
        }
    }
}

impl TokenStream for CjkWordStream<'_> {
    fn advance(&mut self) -> bool {
        self.token.text.clear();
        self.token.position = self.token.position.wrapping_add(1);
        let Some(word) = self.next_word() else { return false };
        (self.token.offset_from, self.token.offset_to) = (word.start, word.end);
        let word = &self.text[word];
        if word.chars().any(is_of_other_width) {
            self.token.text.extend(word.nfkc().filter(|c| !is_variant(*c)));
        } else {
            self.token.text.extend(word.chars().filter(|c| !is_variant(*c)));
        }
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}

/// A run of characters without spaces, as overlapping pairs.
#[derive(Debug)]
struct CjkRun<'a> {
    text: &'a str,
    /// The bytes of the text that have been read.
    at: usize,
    /// The character before.
    previous: Option<Range<usize>>,
    /// Whether that is part of a pair.
    is_paired: bool,
}

impl CjkRun<'_> {
    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            let Some(length) = cjk_length(&self.text[self.at..]) else {
                return self.previous.take().filter(|_| !self.is_paired);
            };
            let own = self.at..self.at + length;
            self.at = own.end;
            if let Some(previous) = self.previous.replace(own.clone()) {
                self.is_paired = true;
                return Some(previous.start..own.end);
            }
        }
    }
}

/// The place of the next such character, or the end.
fn next_cjk(text: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(skipped) = text.as_bytes()[at..].iter().position(|byte| *byte >= FIRST_BYTE) {
        at += skipped;
        match text[at..].chars().next() {
            Some(c) if !is_cjk(c) => at += c.len_utf8(),
            _ => return at,
        }
    }
    text.len()
}

/// Bytes of the character that a text begins with, and of what extends it; none where it is no such character.
fn cjk_length(text: &str) -> Option<usize> {
    let mut chars = text.char_indices();
    chars.next().filter(|(_, c)| is_cjk(*c))?;
    let next = chars.find(|(_, c)| !(extends(*c) || is_later_jamo(*c) || matches!(c, '\u{ff9e}' | '\u{ff9f}')));
    Some(next.map_or(text.len(), |(at, _)| at))
}

/// Whether a character is of a script that is cut into pairs.
pub(super) fn is_cjk(c: char) -> bool {
    match c {
        '\0'..'\u{1100}' => false,
        // Marks of length and repetition that hiragana and katakana share.
        '\u{30fc}' | '\u{ff70}' | '\u{3031}'..='\u{3035}' => true,
        c => {
            let is_script = matches!(
                c.script(),
                Script::Han | Script::Hiragana | Script::Katakana | Script::Hangul | Script::Bopomofo
            );
            is_script && c.is_alphanumeric()
        }
    }
}

/// The second and third part of a Hangul syllable that is not composed.
fn is_later_jamo(c: char) -> bool {
    matches!(c, '\u{1160}'..='\u{11ff}')
}

/// Full-width letters and digits, half-width kana.
fn is_of_other_width(c: char) -> bool {
    matches!(c, '\u{ff01}'..='\u{ffef}')
}

/// Which form of a character is shown.
fn is_variant(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tantivy::tokenizer::TextAnalyzer;

    use super::super::words::Words;
    use super::*;

    fn cut(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        let mut analyzer = TextAnalyzer::builder(CjkWords::default()).build();
        analyzer
            .token_stream(text)
            .process(&mut |token| words.push(token.text.clone()));
        words
    }

    #[test]
    fn pairs_of_characters_and_whole_words() {
        // As Lucene's CJKAnalyzer cuts them (TestCJKAnalyzer).
        assert_eq!(cut("一二三四五"), ["一二", "二三", "三四", "四五"]);
        assert_eq!(cut("一 二三"), ["一", "二三"]);
        assert_eq!(cut("abcあいうabc"), ["abc", "あい", "いう", "abc"]);
        assert_eq!(cut("アルファベット"), ["アル", "ルフ", "ファ", "ァベ", "ベッ", "ット"]);
        assert_eq!(cut("データ"), ["デー", "ータ"]);
        assert_eq!(cut("한국어 문서, 책"), ["한국", "국어", "문서", "책"]);
        assert_eq!(cut("首都。北京"), ["首都", "北京"]);
        assert_eq!(cut("日々"), ["日々"]);
        assert_eq!(cut(""), Vec::<String>::new());
        assert_eq!(cut("、。"), Vec::<String>::new());
    }

    #[test]
    fn spellings_of_other_widths_and_parts_are_the_usual_ones() {
        assert_eq!(cut("ＡＢＣ１２３"), ["ABC123"]);
        assert_eq!(cut("ｶﾞｷﾞ"), ["ガギ"]);
        // A voiced kana of two characters and a syllable of three are one each.
        let count = |text: &str| cut(text).len();
        assert_eq!((count("か\u{3099}き\u{3099}"), count("がぎ")), (1, 1));
        assert_eq!(
            (count("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"), count("한국")),
            (1, 1)
        );
        assert_eq!(cut("葛\u{e0100}城"), ["葛城"]);
    }

    #[test]
    fn a_sentence_is_cut_however_long_it_is() {
        let long = "京".repeat(400);
        assert_eq!(cut(&long).len(), 399);
        assert_eq!(
            cut(&format!("{} b", "a".repeat(300))),
            ["b"],
            "a word of letters is left out"
        );
        let marked = format!("京{}都 b", "\u{3099}".repeat(100));
        assert_eq!(cut(&marked), ["b"], "and so is a character with too many marks");
    }

    proptest! {
        /// Other texts are cut as ever; places are those in the text.
        #[test]
        fn other_texts_have_the_words_that_they_had(text in "[a-zäß0-9 .\\-\u{e9}\u{301}\u{ad}\u{e17}\u{e35}\u{2014}\u{2019}]{0,40}") {
            let mut plain = Vec::new();
            let mut analyzer = TextAnalyzer::builder(Words::default()).build();
            analyzer.token_stream(&text).process(&mut |token| plain.push((token.text.clone(), token.offset_from)));
            let mut own = Vec::new();
            let mut analyzer = TextAnalyzer::builder(CjkWords::default()).build();
            analyzer.token_stream(&text).process(&mut |token| own.push((token.text.clone(), token.offset_from)));
            prop_assert_eq!(own, plain);
        }

        /// No text panics, and places lie within it.
        #[test]
        fn any_text_is_cut_within_its_bounds(text in "\\PC{0,30}|[一二あｶﾞー\u{1112}\u{1161}\u{3099}a ]{0,20}") {
            let mut analyzer = TextAnalyzer::builder(CjkWords::default()).build();
            let mut end = 0;
            analyzer.token_stream(&text).process(&mut |token| {
                assert!(text.get(token.offset_from..token.offset_to).is_some());
                assert!(token.offset_to >= end);
                end = token.offset_to;
            });
        }
    }
}
