//! Texts that the caller has tokenized, and how long a text is before it is cut.

use tokenizers::{Encoding, Token};

use super::tokenizer::{Tokenizer, Tokens};
use crate::config::Tower;
use crate::error::Error;

/// Bytes of a text whose tokens are counted when it is refused for its length.
const COUNTED: usize = 64 << 10;

/// Why token ids are refused; `place` is the id's place within its text.
#[derive(Debug)]
pub(crate) enum GivenError {
    /// No token has this id.
    Unknown { place: usize, id: u32, vocabulary: usize },
    /// A special token that is put around every text anyway.
    Special { place: usize, id: u32, token: String },
    /// The tokenizer failed.
    Failed(Error),
}

/// The special tokens around the tokens of a text.
#[derive(Debug)]
struct Around {
    before: Vec<u32>,
    prompt: Vec<u32>,
    after: Vec<u32>,
}

impl Tokenizer {
    /// Puts prompt and special tokens around the ids of a text, and cuts where [`Tokenizer::encode`] does.
    pub(crate) fn surround(&self, tower: Tower, ids: &[u32]) -> Result<Tokens, GivenError> {
        let inner = &self.splitter(tower).inner;
        let unknown = ids.iter().enumerate().find(|&(_, &id)| inner.id_to_token(id).is_none());
        if let Some((place, &id)) = unknown {
            return Err(GivenError::Unknown {
                place,
                id,
                vocabulary: inner.get_vocab_size(true),
            });
        }
        let around = self.around(tower).map_err(GivenError::Failed)?;
        let doubled = [(0, &around.before), (ids.len().saturating_sub(1), &around.after)]
            .into_iter()
            .find_map(|(place, special)| ids.get(place).filter(|id| special.contains(id)).map(|&id| (place, id)));
        if let Some((place, id)) = doubled {
            let token = inner.id_to_token(id).unwrap_or_default();
            return Err(GivenError::Special { place, id, token });
        }
        let longest = inner
            .get_truncation()
            .map_or(usize::MAX, |truncation| truncation.max_length);
        let content = [&around.prompt, ids].concat();
        let room = longest.saturating_sub(around.before.len() + around.after.len());
        let truncated = room < content.len();
        Ok(Tokens {
            ids: self
                .splitter(tower)
                .ids_of(&around.put(self.splitter(tower).kept(&content, room))),
            truncated,
            ..Tokens::default()
        })
    }

    /// Two texts that are tokenized already, each with its special tokens, as one input: what
    /// [`Tokenizer::encode_pair`] makes of texts that end where these were cut.
    pub fn pair_of(&self, question: &Tokens, answer: &Tokens) -> Result<Tokens, Error> {
        let around = self.around(Tower::Answer)?;
        let content = |tokens: &Tokens| {
            let end = tokens.ids.len().saturating_sub(around.after.len());
            let ids = tokens.ids.get(around.before.len()..end).unwrap_or_default();
            Encoding::from_tokens(ids.iter().map(|&id| Token::new(id, String::new(), (0, 0))).collect(), 0)
        };
        let inner = &self.splitter(Tower::Answer).inner;
        let pair = inner.post_process(content(question), Some(content(answer)), true);
        let pair = pair.map_err(|error| Error::Tokenize {
            reason: error.to_string(),
        })?;
        let mut pair = self.splitter(Tower::Answer).tokens_of(&pair);
        pair.truncated |= question.truncated || answer.truncated;
        Ok(pair)
    }

    /// As [`Tokenizer::encode`], cut at `longest` tokens where that is less than the tower's longest input.
    pub fn encode_within(&self, tower: Tower, text: &str, longest: usize) -> Result<Tokens, Error> {
        let mut tokens = self.encode(tower, text)?;
        if tokens.ids.len() > longest {
            let around = self.around(tower)?;
            if longest <= around.len() {
                let least = around.len() + 1;
                let reason =
                    format!("{longest} tokens of a {tower} leave none for the text: expected at least {least}");
                return Err(Error::Tokenize { reason });
            }
            let end = tokens.ids.len().saturating_sub(around.after.len());
            let content = tokens.ids.get(around.before.len()..end).unwrap_or_default();
            let room = longest.saturating_sub(around.before.len() + around.after.len());
            tokens.ids = around.put(self.splitter(tower).kept(content, room));
            tokens.truncated = true;
        }
        Ok(tokens)
    }

    /// Tokens of a text before it is cut, prompt and special tokens included; and whether it has more: of a long text
    /// only the first [`COUNTED`] bytes are tokenized, where it can be cut.
    pub(crate) fn whole_length(&self, tower: Tower, text: &str) -> Result<(usize, bool), Error> {
        let (splitter, text) = (self.splitter(tower), format!("{}{text}", self.prompt(tower).text));
        let beginning = splitter.cuts.as_ref().and_then(|cuts| cuts.at_most(&text, COUNTED));
        let content = splitter.content(beginning.unwrap_or(&text))?;
        Ok((splitter.special + content.len(), beginning.is_some()))
    }

    /// As [`Tokenizer::whole_length`], of a question and an answer together: the special tokens of the pair, and both
    /// texts without theirs.
    pub(crate) fn whole_length_of_pair(&self, question: &str, answer: &str) -> Result<(usize, bool), Error> {
        let splitter = self.splitter(Tower::Answer);
        let pair = splitter.pair_encoding([question, answer])?;
        let mut tokens = pair
            .get_special_tokens_mask()
            .iter()
            .filter(|&&special| special == 1)
            .count();
        let mut more = false;
        for text in [question, answer] {
            let (length, cut) = self.whole_length(Tower::Answer, text)?;
            tokens += length.saturating_sub(splitter.special);
            more |= cut;
        }
        Ok((tokens, more))
    }

    /// As [`Tokenizer::whole_length`], for a text of `count` ids.
    pub(crate) fn whole_length_of(&self, tower: Tower, count: usize) -> Result<usize, Error> {
        Ok(self.around(tower)?.len() + count)
    }

    fn around(&self, tower: Tower) -> Result<Around, Error> {
        let failed = |error: tokenizers::Error| Error::Tokenize {
            reason: error.to_string(),
        };
        let prompt = &self.prompt(tower).text;
        let prompt = if prompt.is_empty() {
            Vec::new()
        } else {
            self.splitter(tower).content(prompt)?
        };
        // Whatever the tokenizer puts around one token, it puts around every text.
        let alone = Encoding::from_tokens(vec![Token::new(0, String::new(), (0, 0))], 0);
        let dressed = self
            .splitter(tower)
            .inner
            .post_process(alone, None, true)
            .map_err(failed)?;
        let (ids, mask) = (dressed.get_ids(), dressed.get_special_tokens_mask());
        let Some(at) = mask.iter().position(|&special| special == 0) else {
            let reason = "the tokenizer's template has no place for a text".to_owned();
            return Err(Error::Tokenize { reason });
        };
        let (before, after) = (ids.get(..at).unwrap_or_default(), ids.get(at + 1..).unwrap_or_default());
        Ok(Around {
            before: before.to_vec(),
            prompt,
            after: after.to_vec(),
        })
    }
}

impl Around {
    /// A content, prompt included, with the special tokens around it.
    fn put(&self, content: &[u32]) -> Vec<u32> {
        [&self.before, content, &self.after].concat()
    }

    fn len(&self) -> usize {
        self.before.len() + self.prompt.len() + self.after.len()
    }
}
