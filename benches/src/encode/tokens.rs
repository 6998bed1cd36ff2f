//! The model's own tokens: how many a text has, and where to cut one so that it has exactly so many.

use std::path::Path;

use crate::harness::{Error, Result};

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
        let fail = |error: tokenizers::Error| Error::Workload {
            path: path.clone(),
            problem: format!("expected a tokenizer, got: {error}"),
        };
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes).map_err(fail)?;
        tokenizer.with_padding(None).with_truncation(None).map_err(fail)?;
        let special = tokenizer.encode_fast("", true).map_err(fail)?.get_ids().len();
        Ok(Self { tokenizer, special, prompt })
    }

    /// Tokens of a text as a model reads it that takes at most `most`.
    pub(super) fn count(&self, text: &str, most: usize) -> Result<usize> {
        Ok(self.whole(text)?.min(most))
    }

    /// Pieces of `text` of exactly `tokens` tokens each, cut between words; at most `most` of them.
    pub(super) fn cut(&self, text: &str, tokens: usize, most: usize) -> Result<Vec<String>> {
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
                // What stands beside a cut may change how a word is split.
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
