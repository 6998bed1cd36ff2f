//! Real texts: read, chosen evenly over a file, or joined and cut to passages of exactly so many of the model's tokens.

use std::path::Path;

use dyad_corpus::{CorpusReader, ReadOptions};

use super::workload::{Shape, TextSource};
use crate::harness::{Error, Result, evenly};

/// Characters joined before passages are cut, at least: a few of the longest passages.
const JOINED: usize = 20_000;

/// The texts of one shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Texts {
    pub(super) texts: Vec<String>,
    /// Tokens of each, as a model reads them that takes at most what the shape was prepared for.
    pub(super) lengths: Vec<u64>,
}

impl Texts {
    /// Reads the texts of a shape for a model that takes at most `most` tokens.
    pub(super) fn read(shape: &Shape, counter: &Counter, most: usize) -> Result<Self> {
        let mut texts = Vec::new();
        for source in &shape.texts {
            let found = match shape.tokens {
                None => evenly(read(&source.path)?, source.count),
                Some(tokens) => passages(source, counter, tokens)?,
            };
            if found.len() < source.count {
                let (name, given, got) = (&shape.name, found.len(), source.count);
                let problem =
                    format!("`shape.{name}.texts.count`: expected at most the {given} that the file gives, got {got}");
                return Err(Error::file(&source.path, problem));
            }
            texts.extend(found);
        }
        // Long and short, and texts of one source, are spread, as they would come.
        let texts = scattered(texts);
        let lengths = texts.iter().map(|text| counter.count(text, most)).collect::<Result<_>>()?;
        Ok(Self { texts, lengths })
    }
}

/// Passages of a corpus in file order; empty ones are left out.
fn read(path: &Path) -> Result<Vec<String>> {
    let fail = |error: dyad_corpus::Error| Error::file(path, error);
    let mut texts = Vec::new();
    for document in CorpusReader::open(path, &ReadOptions::default()).map_err(fail)? {
        let document = document.map_err(fail)?.value;
        let text = document.passage();
        if !text.trim().is_empty() {
            texts.push(text.into_owned());
        }
    }
    Ok(texts)
}

/// Documents of a corpus, joined until there is enough to cut, then cut.
fn passages(source: &TextSource, counter: &Counter, tokens: usize) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut joined = String::new();
    let texts = read(&source.path)?;
    let last = texts.len().saturating_sub(1);
    for (at, text) in texts.into_iter().enumerate() {
        if !joined.is_empty() {
            joined.push(' ');
        }
        joined.push_str(&text);
        if joined.len() < JOINED && at < last {
            continue;
        }
        found.extend(counter.cut(&joined, tokens, source.count - found.len())?);
        joined.clear();
        if found.len() >= source.count {
            break;
        }
    }
    Ok(found)
}

/// The same texts in another order, always the same one: every step of a full cycle whose length has no factor with theirs.
fn scattered(texts: Vec<String>) -> Vec<String> {
    let count = texts.len();
    let golden = (count as f64 * 0.618) as usize;
    let step = (golden.max(1)..=count.max(1)).find(|&step| greatest_common_divisor(step, count) == 1).unwrap_or(1);
    let mut texts: Vec<Option<String>> = texts.into_iter().map(Some).collect();
    (0..count).filter_map(|at| texts.get_mut(at * step % count).and_then(Option::take)).collect()
}

fn greatest_common_divisor(mut left: usize, mut right: usize) -> usize {
    while right > 0 {
        (left, right) = (right, left % right);
    }
    left
}

/// A model's `tokenizer.json`, without truncation and padding.
pub(super) struct Counter {
    tokenizer: tokenizers::Tokenizer,
    special: usize,
    /// What every engine puts before a document.
    prompt: String,
}

impl std::fmt::Debug for Counter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counter").field("special", &self.special).field("prompt", &self.prompt).finish_non_exhaustive()
    }
}

impl Counter {
    /// Opens the tokenizer of a model directory; `prompt` stands before every text.
    pub(super) fn open(model: &Path, prompt: String) -> Result<Self> {
        let path = model.join("tokenizer.json");
        let bytes = fs_err::read(&path)?;
        let fail = |error: tokenizers::Error| Error::file(&path, format!("expected a tokenizer, got: {error}"));
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes).map_err(fail)?;
        tokenizer.with_padding(None).with_truncation(None).map_err(fail)?;
        let special = tokenizer.encode_fast("", true).map_err(fail)?.get_ids().len();
        Ok(Self { tokenizer, special, prompt })
    }

    /// Tokens of a text as a model reads it that takes at most `most`.
    fn count(&self, text: &str, most: usize) -> Result<u64> {
        Ok(self.whole(text)?.min(most) as u64)
    }

    /// Pieces of `text` of exactly `tokens` tokens each, cut between words; at most `most` of them.
    fn cut(&self, text: &str, tokens: usize, most: usize) -> Result<Vec<String>> {
        let encoding = self.tokenizer.encode(text, false).map_err(|error| refused(&*error))?;
        let (words, offsets) = (encoding.get_word_ids(), encoding.get_offsets());
        // A word begins where its number differs from the one before.
        let begins = |at: usize| at == 0 || at >= words.len() || words.get(at) != words.get(at - 1);
        let wanted = tokens.saturating_sub(self.special + self.prompt_tokens()?);
        let mut pieces = Vec::new();
        let mut start = 0;
        while wanted > 0 && start + wanted <= words.len() && pieces.len() < most {
            let end = start + wanted;
            if begins(start) && begins(end) {
                let (from, to) = (
                    offsets.get(start).map_or(0, |offset| offset.0),
                    offsets.get(end - 1).map_or(0, |offset| offset.1),
                );
                // What stands next to a cut may change how a word is split.
                if let Some(piece) = text.get(from..to)
                    && self.whole(piece)? == tokens
                {
                    pieces.push(piece.to_owned());
                    start = end;
                    continue;
                }
            }
            start += 1;
        }
        Ok(pieces)
    }

    fn whole(&self, text: &str) -> Result<usize> {
        let encoding = if self.prompt.is_empty() {
            self.tokenizer.encode_fast(text, true)
        } else {
            self.tokenizer.encode_fast(format!("{}{text}", self.prompt), true)
        };
        Ok(encoding.map_err(|error| refused(&*error))?.get_ids().len())
    }

    fn prompt_tokens(&self) -> Result<usize> {
        Ok(self.whole("")?.saturating_sub(self.special))
    }
}

fn refused(error: &(dyn std::error::Error + Send + Sync)) -> Error {
    Error::Io(std::io::Error::new(std::io::ErrorKind::InvalidData, format!("a text cannot be tokenized: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(count: usize) -> Vec<String> {
        (0..count).map(|at| at.to_string()).collect()
    }

    #[test]
    fn scattering_keeps_every_text() {
        for count in [0, 1, 2, 3, 4, 6, 7, 100, 2000] {
            let mut scattered = scattered(words(count));
            if count > 6 {
                assert_ne!(scattered, words(count));
            }
            scattered.sort_by_key(|word| word.parse::<usize>().unwrap());
            assert_eq!(scattered, words(count));
        }
    }
}
