//! Documents as the model reads them for late chunking: windows as long as its longest input, and the tokens of each
//! passage in them.
//!
//! Late chunking pools the token vectors of a passage in its document, so that they know what stands around it (Günther
//! et al. 2024, arXiv:2409.04701). A document that is longer than the model reads has several windows, three quarters
//! of a window apart. A passage is read in the last one that begins a quarter of a window before it, in the next one
//! where that does not hold all of it, or else in a window of its own: whichever other passages are read with it.

use std::collections::HashMap;
use std::ops::Range;

use super::tokenizer::{Splitter, Tokenizer, Tokens};
use crate::config::Tower;
use crate::error::Error;

/// Most tokens that a window has to spare, and its share of the longest input, inverse: cut out of its document, a text
/// may have some more.
const SPARE: (usize, usize) = (16, 16);
/// Of a window's length, the part that stands before its first new passage: the inverse.
const BEFORE: usize = 4;
/// Bytes of a word that is longer than words are.
const LONG_WORD: usize = 64;

/// A part of a document that the model reads at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentWindow {
    /// Its tokens; a span for each of the passages. Truncated where a passage has more than a window holds.
    pub tokens: Tokens,
    /// Numbers of the passages, in the order of the spans.
    pub passages: Vec<usize>,
    /// The bytes of the window in the document.
    pub bytes: Range<usize>,
}

impl Tokenizer {
    /// The windows of a document, each passage in one of them. `passages` are its bytes.
    pub fn windows(
        &self,
        tower: Tower,
        document: &str,
        passages: &[Range<usize>],
    ) -> Result<Vec<DocumentWindow>, Error> {
        let (splitter, prompt) = (self.splitter(tower), self.prompt(tower));
        let offsets = splitter.offsets(document)?;
        let (most, share) = SPARE;
        let spare = (splitter.max_tokens() / share).min(most);
        let taken = splitter.special + prompt.tokens + spare;
        let room = splitter.max_tokens().saturating_sub(taken).max(1);
        let mut order: Vec<usize> = (0..passages.len()).collect();
        order.sort_by_key(|number| passages.get(*number).map(|bytes| (bytes.start, bytes.end)));
        let bytes_of = |number: &usize| passages.get(*number).cloned().unwrap_or_default();
        let mut held: Vec<HeldPassages> = Vec::new();
        let mut numbers: HashMap<Range<usize>, usize> = HashMap::new();
        for number in order {
            let bytes = window(document, &offsets, bytes_of(&number), room);
            let window = *numbers.entry(bytes.clone()).or_insert(held.len());
            match held.get_mut(window) {
                Some(HeldPassages { passages, .. }) => passages.push(number),
                None => held.push(HeldPassages {
                    bytes,
                    passages: vec![number],
                }),
            }
        }
        let mut windows = Vec::with_capacity(held.len());
        for HeldPassages { bytes, passages } in held {
            let spans: Vec<Range<usize>> = passages.iter().map(bytes_of).collect();
            let tokens = splitter.spans(document, &prompt.text, &bytes, &spans)?;
            windows.push(DocumentWindow {
                tokens,
                passages,
                bytes,
            });
        }
        Ok(windows)
    }
}

/// A window and its passages.
struct HeldPassages {
    bytes: Range<usize>,
    /// The numbers of the passages in the window.
    passages: Vec<usize>,
}

/// The bytes of the window of `room` tokens in which the passage with these bytes is read.
fn window(document: &str, offsets: &[(usize, usize)], passage: Range<usize>, room: usize) -> Range<usize> {
    if offsets.len() <= room {
        return 0..document.len();
    }
    let first = offsets.partition_point(|(_, end)| *end <= passage.start);
    let end = offsets.partition_point(|(begin, _)| *begin < passage.end);
    // No window ends before the document does where it could hold more of it.
    let last = offsets.len() - room;
    let (before, apart) = (room / BEFORE, room - room / BEFORE);
    let number = first.saturating_sub(before) / apart;
    let begins = [number, number + 1].map(|number| (number * apart).min(last));
    let holds_all = |begin: &usize| *begin <= first && end <= *begin + room;
    let own = || {
        first
            .saturating_sub(before)
            .max(end.saturating_sub(room).min(first))
            .min(last)
    };
    let begin = begins.into_iter().find(holds_all).unwrap_or_else(own);
    let end = offsets.get(begin + room - 1).map_or(document.len(), |(_, end)| *end);
    let begin = offsets.get(begin).map_or(0, |(begin, _)| *begin);
    word_begin(document, document.floor_char_boundary(begin), passage.start)..document.ceil_char_boundary(end)
}

/// Where the next word begins after a place that is within one, which would otherwise be cut into other tokens: not
/// after `most`. The place itself where a word of usual length has no end, as in scripts without spaces.
fn word_begin(document: &str, at: usize, most: usize) -> usize {
    let at = at.min(most);
    let (before, after) = document.split_at(at);
    if before.is_empty() || before.ends_with(char::is_whitespace) {
        return at;
    }
    let near = document.floor_char_boundary(at + LONG_WORD) - at;
    after
        .get(..near)
        .and_then(|near| near.find(char::is_whitespace))
        .map_or(at, |end| most.min(at + end))
}

impl Splitter {
    /// Tokens of a window of a document after a prompt, and which of them each passage has.
    fn spans(
        &self,
        document: &str,
        prompt: &str,
        window: &Range<usize>,
        passages: &[Range<usize>],
    ) -> Result<Tokens, Error> {
        let text = document.get(window.clone()).unwrap_or_default();
        let encoding = self.encoded_with_offsets(format!("{prompt}{text}"))?;
        let mut tokens = self.tokens_of(&encoding);
        let places = self.places_of_text(&encoding);
        let end_of_text = places.iter().map(|place| place.bytes.end).max().unwrap_or(0);
        // From bytes of the document to those of what was tokenized.
        let shifted = |byte: usize| byte.saturating_sub(window.start) + prompt.len();
        for bytes in passages {
            // Nothing but white space: the whole window says what it is about.
            let whole = 0..tokens.ids.len();
            let span = span_of(&places, shifted(bytes.start)..shifted(bytes.end)).unwrap_or(whole);
            tokens.spans.push(span);
            let passage = document.get(bytes.clone()).unwrap_or_default();
            tokens.truncated |= shifted(bytes.start + passage.trim_end().len()) > end_of_text;
        }
        Ok(tokens)
    }

    /// The tokens that are no special ones, nor dropped.
    fn places_of_text(&self, encoding: &tokenizers::Encoding) -> Vec<TokenPlace> {
        let is_special = encoding.get_special_tokens_mask();
        let mut places = Vec::with_capacity(is_special.len());
        let kept = encoding.get_ids().iter().zip(encoding.get_offsets()).zip(is_special);
        let kept = kept.filter(|((id, _), _)| !self.drops(**id));
        for (token, ((_, (begin, end)), special)) in kept.enumerate() {
            if *special != 1 {
                places.push(TokenPlace {
                    token,
                    bytes: *begin..*end,
                });
            }
        }
        places
    }
}

/// A token of a text, and its bytes in it.
struct TokenPlace {
    token: usize,
    bytes: Range<usize>,
}

/// The tokens from the first to the last that has some of these bytes. Tokens of no bytes, such as a space whose place
/// was trimmed, belong to what they stand in.
fn span_of(places: &[TokenPlace], passage: Range<usize>) -> Option<Range<usize>> {
    let overlaps = |place: &&TokenPlace| {
        let TokenPlace { bytes, .. } = place;
        !bytes.is_empty() && bytes.start < passage.end && passage.start < bytes.end
    };
    let first = places.iter().find(overlaps)?;
    let last = places.iter().rfind(overlaps)?;
    Some(first.token..last.token + 1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn windows_begin_before_their_passages_and_end_with_the_document() {
        // A hundred words of four bytes, each a token.
        let document = "abc ".repeat(100);
        let offsets: Vec<(usize, usize)> = (0..100).map(|at| (4 * at, 4 * at + 3)).collect();
        let window = |offsets: &[(usize, usize)], start: usize, end: usize, room: usize| {
            super::window(&document, offsets, start..end, room)
        };
        assert_eq!(window(&offsets, 40, 60, 100), 0..400);
        assert_eq!(window(&offsets, 0, 20, 20), 0..79);
        // Windows of forty tokens begin at tokens 0, 30 and 60; ten tokens of each stand before its passages.
        assert_eq!(window(&offsets, 156, 160, 40), 0..159);
        assert_eq!(window(&offsets, 160, 180, 40), 120..279);
        assert_eq!(window(&offsets, 276, 280, 40), 120..279);
        assert_eq!(window(&offsets, 280, 300, 40), 240..399);
        assert_eq!(window(&offsets, 396, 399, 40), 240..399);
        // The second one does not hold all of tokens 68 to 72, and the third one does.
        assert_eq!(window(&offsets, 272, 292, 40), 240..399);
        // No window of those holds all of tokens 25 to 60: one of its own does, with four tokens before.
        assert_eq!(window(&offsets, 100, 243, 40), 84..243);
        // A passage of fifty tokens has a window of its beginning.
        assert_eq!(window(&offsets, 80, 279, 40), 80..239);
        // Tokens of two bytes, of which the first is the end of a word: the window begins after that.
        let offsets: Vec<(usize, usize)> = (0..200).map(|at| (2 * at, 2 * at + 2)).collect();
        assert_eq!(window(&offsets, 100, 106, 44), 67..154);
        // Without spaces a window begins with any token.
        let unspaced = "\u{4eac}".repeat(100);
        let offsets: Vec<(usize, usize)> = (0..100).map(|at| (3 * at, 3 * at + 3)).collect();
        assert_eq!(super::window(&unspaced, &offsets, 150..156, 40), 90..210);
    }
}
