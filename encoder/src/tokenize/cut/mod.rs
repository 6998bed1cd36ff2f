//! Finds places where a text can be split before tokenization without changing a token before them.
//!
//! A network reads some hundred tokens, a text may have a megabyte. It is enough to tokenize a part of it, if the
//! tokens of the part are those with which the whole text begins, and are more than the network reads. They are where
//! everything that the tokenizer does looks at no more than one side of the cut:
//!
//! | step | why it does not look across |
//! |---|---|
//! | added tokens | none of them has such a place inside |
//! | normalizer | works on characters, on a character and its combining marks, or on graphemes |
//! | pre-tokenizer | always separates the two characters around the cut |
//! | model | sees one pre-token at a time |
//!
//! Tokenizers with any other step are given the whole text.

use serde_json::Value;
use tokenizers::{AddedToken, Tokenizer};

/// Bytes of the first part for each token that is wanted; English has four or five.
const BYTES_PER_TOKEN: usize = 8;

/// SentencePiece's space.
const META: char = '\u{2581}';
const META_TEXT: &str = "\u{2581}";

/// How much longer each next part is.
const GROWTH: usize = 4;

/// The separator of the tokens of a text.
#[derive(Debug, Clone)]
pub(super) enum Cuts {
    /// BERT's pre-tokenizer: whitespace, ASCII punctuation but these characters, and Chinese characters if they stand
    /// alone.
    Bert { chinese: bool, punctuation: String },
    /// A space after a letter or digit.
    Spaces,
}

impl Cuts {
    /// `None` where a text must be tokenized whole. That texts are brought to lower case first, character by character,
    /// changes nothing.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let normalizer = serde_json::to_value(tokenizer.get_normalizer()).ok()?;
        let pre_tokenizer = serde_json::to_value(tokenizer.get_pre_tokenizer()).ok()?;
        let added: Vec<AddedToken> = tokenizer.get_added_tokens_decoder().into_values().collect();
        // What a normalizer makes of other tokens is not followed up.
        if added.iter().any(|token| token.normalized && !token.content.is_ascii()) {
            return None;
        }
        if kind(&pre_tokenizer) == "BertPreTokenizer" && matches!(kind(&normalizer), "BertNormalizer" | "") {
            let inside = |found: &dyn Fn(char) -> bool| added.iter().any(|token| token.content.chars().any(found));
            if inside(&char::is_whitespace) {
                return None;
            }
            // A token that has to be a word asks whether the next character is one's; whitespace never is.
            let words = added.iter().any(|token| token.single_word);
            let tail = |c: char| {
                added
                    .iter()
                    .any(|token| token.content.chars().skip(1).any(|other| other == c))
            };
            let punctuation = ('!'..='~').filter(|c| c.is_ascii_punctuation() && !tail(*c) && !words);
            let apart = normalizer.get("handle_chinese_chars") == Some(&Value::Bool(true));
            let chinese = apart && !words && !inside(&stands_alone);
            return Some(Self::Bert {
                chinese,
                punctuation: punctuation.collect(),
            });
        }
        let blank = |c: char| c.is_whitespace() || c == META;
        let across = |token: &AddedToken| {
            let next = token.content.chars().skip(1);
            token
                .content
                .chars()
                .zip(next)
                .any(|(before, after)| !blank(before) && blank(after))
        };
        (!added.iter().any(across)
            && normalizes_locally(&normalizer, has_metaspace(&pre_tokenizer))
            && splits_at_spaces(&pre_tokenizer))
        .then_some(Self::Spaces)
    }

    /// Whether the text may be split between these two.
    fn between(&self, before: char, after: char) -> bool {
        match self {
            Self::Bert { chinese, punctuation } => {
                matches!(after, ' ' | '\n' | '\t' | '\r')
                    || (*chinese && stands_alone(after))
                    || punctuation.contains(after)
            }
            Self::Spaces => after == ' ' && ends_a_word(before),
        }
    }

    /// The longest prefix within the byte limit that ends at a cut, unless it is shorter than half of that.
    fn beginning<'a>(&self, text: &'a str, bytes: usize) -> Option<&'a str> {
        let mut end = bytes.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut after = text.get(end..)?.chars().next()?;
        for (at, before) in text.get(..end)?.char_indices().rev() {
            let next = at + before.len_utf8();
            if next < bytes / 2 {
                return None;
            }
            if self.between(before, after) {
                return text.get(..next);
            }
            after = before;
        }
        None
    }

    /// Beginnings of a text to try before the whole, shortest first; none of a text that is short.
    pub(super) fn beginnings<'a>(&self, text: &'a str, tokens: usize) -> impl Iterator<Item = &'a str> {
        let first = tokens.saturating_mul(BYTES_PER_TOKEN);
        std::iter::successors(Some(first.max(1)), |bytes| bytes.checked_mul(GROWTH))
            .take_while(|bytes| *bytes <= text.len() / 2)
            .filter_map(|bytes| self.beginning(text, bytes))
    }

    /// The longest prefix within the byte limit.
    pub(super) fn at_most<'a>(&self, text: &'a str, bytes: usize) -> Option<&'a str> {
        if text.len() > bytes {
            self.beginning(text, bytes)
        } else {
            None
        }
    }
}

/// The `type` of a step; empty where there is none.
fn kind(step: &Value) -> &str {
    if step.is_null() {
        ""
    } else {
        step.get("type").and_then(Value::as_str).unwrap_or("unknown")
    }
}

/// Characters that BERT's normalizer puts spaces around; there are more.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}')
}

/// A letter or digit that stays one under every normal form and makes no grapheme with a space after it. Left out with
/// their neighbours: letters that are written before a cluster (`Grapheme_Cluster_Break=Prepend`), and those whose
/// compatibility form holds a space.
fn ends_a_word(c: char) -> bool {
    c.is_alphanumeric() && !matches!(c, '\u{37a}' | '\u{d4e}' | '\u{fb50}'..='\u{feff}' | '\u{11000}'..='\u{11fff}')
}

/// Steps that give the same beginning wherever a letter and a space are parted.
fn normalizes_locally(step: &Value, metaspace: bool) -> bool {
    match kind(step) {
        "" | "NFC" | "NFD" | "NFKC" | "NFKD" | "Lowercase" | "StripAccents" | "Strip" | "Nmt" | "Precompiled"
        | "Prepend" | "BertNormalizer" => true,
        // Only what cannot reach across the cut, nor makes or takes away a space there.
        "Replace" => {
            let pattern = step.get("pattern");
            let text = |name| pattern.and_then(|pattern| pattern.get(name)).and_then(Value::as_str);
            let content = step.get("content").and_then(Value::as_str).unwrap_or_default();
            let blank = |text: &str| text.is_empty() || text.chars().any(|c| c.is_whitespace() || c == META);
            match (text("String"), text("Regex")) {
                (Some(text), None) => !blank(text) && !blank(content),
                (None, Some(" {2,}" | " +" | "\\s{2,}" | "\\s+")) => {
                    content == " " || (metaspace && content == META_TEXT)
                }
                _ => false,
            }
        }
        "Sequence" => {
            steps(step, "normalizers").is_some_and(|steps| steps.iter().all(|step| normalizes_locally(step, metaspace)))
        }
        _ => false,
    }
}

/// Whether a letter and a space after it always end up in two pre-tokens, whatever comes later.
fn splits_at_spaces(step: &Value) -> bool {
    match kind(step) {
        "Whitespace" | "WhitespaceSplit" | "BertPreTokenizer" => true,
        "ByteLevel" => step.get("use_regex") == Some(&Value::Bool(true)),
        "Metaspace" => step.get("split") == Some(&Value::Bool(true)) && has_metaspace(step),
        // The first step splits, and those after it see one pre-token at a time.
        "Sequence" => steps(step, "pretokenizers").is_some_and(|steps| {
            let known = [
                "Whitespace",
                "WhitespaceSplit",
                "BertPreTokenizer",
                "Metaspace",
                "ByteLevel",
                "Punctuation",
                "Digits",
            ];
            steps.first().is_some_and(splits_at_spaces) && steps.iter().all(|step| known.contains(&kind(step)))
        }),
        _ => false,
    }
}

/// Whether the character that stands for a space splits as a space does.
fn has_metaspace(step: &Value) -> bool {
    let here = kind(step) == "Metaspace" && step.get("replacement").and_then(Value::as_str) == Some(META_TEXT);
    here || steps(step, "pretokenizers").is_some_and(|steps| steps.iter().any(has_metaspace))
}

fn steps<'a>(step: &'a Value, name: &str) -> Option<&'a Vec<Value>> {
    step.get(name)?.as_array()
}

#[cfg(test)]
mod tests;
