//! Terms in lower case and composed form.

use tantivy::tokenizer::{Token, TokenFilter, TokenStream, Tokenizer};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use super::words::is_decoration;

/// Lowers words as tantivy's `LowerCaser` does, composes them, and leaves decorations out.
#[derive(Debug, Clone, Default)]
pub(super) struct LowerComposeFilter {
    /// Whether I is the capital letter of ı, as in Turkish.
    pub(super) dotless: bool,
}

impl TokenFilter for LowerComposeFilter {
    type Tokenizer<T: Tokenizer> = LowerComposeTokenizer<T>;

    fn transform<T: Tokenizer>(self, tokenizer: T) -> LowerComposeTokenizer<T> {
        LowerComposeTokenizer {
            tokenizer,
            dotless: self.dotless,
            buffer: String::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct LowerComposeTokenizer<T> {
    tokenizer: T,
    dotless: bool,
    buffer: String,
}

impl<T: Tokenizer> Tokenizer for LowerComposeTokenizer<T> {
    type TokenStream<'a> = LowerComposeStream<'a, T::TokenStream<'a>>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> Self::TokenStream<'a> {
        let tail = self.tokenizer.token_stream(text);
        LowerComposeStream {
            tail,
            dotless: self.dotless,
            buffer: &mut self.buffer,
        }
    }
}

#[derive(Debug)]
pub(super) struct LowerComposeStream<'a, S> {
    tail: S,
    dotless: bool,
    buffer: &'a mut String,
}

impl<S: TokenStream> TokenStream for LowerComposeStream<'_, S> {
    fn advance(&mut self) -> bool {
        if !self.tail.advance() {
            return false;
        }
        let text = &mut self.tail.token_mut().text;
        if self.dotless && text.contains('I') {
            *text = text.replace('I', "ı");
        }
        if text.is_ascii() {
            text.make_ascii_lowercase();
            return true;
        }
        self.buffer.clear();
        self.buffer.extend(text.chars().flat_map(char::to_lowercase));
        if is_plain(self.buffer) {
            std::mem::swap(text, self.buffer);
        } else {
            *text = composed(self.buffer);
        }
        true
    }

    fn token(&self) -> &Token {
        self.tail.token()
    }

    fn token_mut(&mut self) -> &mut Token {
        self.tail.token_mut()
    }
}

/// Whether a word is composed and has no decoration.
fn is_plain(word: &str) -> bool {
    is_nfc_quick(word.chars()) == IsNormalized::Yes && !word.chars().any(|c| is_decoration(c) || c == '\u{3c2}')
}

pub(super) fn composed(word: &str) -> String {
    // Greek writes another sigma at the end of a word.
    let letter = |c: char| if c == '\u{3c2}' { '\u{3c3}' } else { c };
    word.nfc().filter(|c| !is_decoration(*c)).map(letter).collect()
}
