//! Real texts: read, chosen evenly over a file, or joined and cut to passages of an exact number of the model's tokens;
//! and pairs of a question with each of its texts.

use std::path::Path;

use dyad_corpus::{CorpusReader, ReadOptions};
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::protocol::{EncodeShape, InputText, TextSource};
use crate::error::{BenchError, BenchResult};
use crate::harness::evenly;

/// Characters joined before passages are cut, at least: a few of the longest passages.
const JOINED: usize = 20_000;

/// Passages of a corpus in file order; empty ones are left out.
fn read(path: &Path) -> BenchResult<Vec<String>> {
    let fail = |error: dyad_corpus::Error| BenchError::file(path, error);
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
fn passages(source: &TextSource, counter: &TokenCounter, tokens: usize) -> BenchResult<Vec<String>> {
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

/// A model's `tokenizer.json`, without truncation and padding.
pub(super) struct TokenCounter {
    tokenizer: tokenizers::Tokenizer,
    /// What every engine puts before a document.
    prompt: String,
}

impl TokenCounter {
    /// Opens the tokenizer of a model directory; `prompt` stands before every text.
    pub(super) fn open(model: &Path, prompt: String) -> BenchResult<Self> {
        let path = model.join("tokenizer.json");
        let bytes = fs_err::read(&path)?;
        let fail = |error: tokenizers::Error| BenchError::file(&path, format!("expected a tokenizer, got: {error}"));
        let mut tokenizer = tokenizers::Tokenizer::from_bytes(bytes).map_err(fail)?;
        tokenizer.with_padding(None).with_truncation(None).map_err(fail)?;
        Ok(Self { tokenizer, prompt })
    }

    /// Pieces of `text` of exactly `tokens` tokens each, cut between words; at most `most` of them.
    fn cut(&self, text: &str, tokens: usize, most: usize) -> BenchResult<Vec<String>> {
        let encoding = self.tokenizer.encode(text, false).map_err(|error| refused(&*error))?;
        let (words, offsets) = (encoding.get_word_ids(), encoding.get_offsets());
        // A word begins where its number differs from the one before.
        let begins = |at: usize| at == 0 || words.get(at) != words.get(at - 1);
        let wanted = tokens.saturating_sub(self.count("")?);
        let mut pieces = Vec::new();
        let mut start = 0;
        while wanted > 0 && start + wanted <= words.len() && pieces.len() < most {
            let end = start + wanted;
            if begins(start) && begins(end) {
                let (from, to) = (offsets[start].0, offsets[end - 1].1);
                // What stands next to a cut may change how a word is split.
                if let Some(piece) = text.get(from..to)
                    && self.count(piece)? == tokens
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

    /// Reads the texts of a shape, or its pairs, question by question.
    pub(super) fn read(&self, shape: &EncodeShape) -> BenchResult<Vec<InputText>> {
        let questions = match &shape.questions {
            Some(source) => self.take(shape, "questions", source, 1)?,
            None => Vec::new(),
        };
        let mut texts = Vec::new();
        for source in &shape.texts {
            texts.extend(self.take(shape, "texts", source, questions.len().max(1))?);
        }
        // Long and short, and texts of one source, are spread, as they would come; always in the same order.
        texts.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(0));
        if questions.is_empty() {
            return Ok(texts.into_iter().map(InputText::One).collect());
        }
        let each = texts.len() / questions.len();
        let question = |at: usize| questions.get(at / each.max(1)).cloned().unwrap_or_default();
        Ok(texts
            .into_iter()
            .enumerate()
            .map(|(at, text)| InputText::Pair(question(at), text))
            .collect())
    }

    /// The texts of a source, `times` its count.
    fn take(&self, shape: &EncodeShape, key: &str, source: &TextSource, times: usize) -> BenchResult<Vec<String>> {
        let wanted = source.count * times;
        let found = match shape.tokens {
            None => evenly(read(&source.path)?, wanted),
            Some(tokens) => passages(source, self, tokens)?,
        };
        if found.len() < wanted {
            let field = format!("`shape.{}.{key}.count`", shape.name);
            let expected = format!("at most the {} that the file gives", found.len() / times);
            return Err(BenchError::malformed(&source.path, field, expected, source.count));
        }
        Ok(found)
    }

    /// Tokens of a text or of a pair, with the prompt and special tokens.
    pub(super) fn count_all(&self, text: &InputText) -> BenchResult<usize> {
        match text {
            InputText::One(text) => self.count(text),
            InputText::Pair(question, text) => {
                let encoding = self.tokenizer.encode_fast((question.as_str(), text.as_str()), true);
                Ok(encoding.map_err(|error| refused(&*error))?.get_ids().len())
            }
        }
    }

    /// Tokens of a text, with the prompt and special tokens.
    fn count(&self, text: &str) -> BenchResult<usize> {
        let encoding = self.tokenizer.encode_fast(format!("{}{text}", self.prompt), true);
        Ok(encoding.map_err(|error| refused(&*error))?.get_ids().len())
    }
}

fn refused(error: &(dyn std::error::Error + Send + Sync)) -> BenchError {
    BenchError::Io(std::io::Error::new(
        std::io::ErrorKind::InvalidData,
        format!("a text cannot be tokenized: {error}"),
    ))
}
