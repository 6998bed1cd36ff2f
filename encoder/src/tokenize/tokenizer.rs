//! Texts to tokens: prompts before them, special tokens around them, truncation.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokenizers::{EncodeInput, Model, OffsetType, PostProcessor, PreTokenizer, TruncationDirection, TruncationParams};

use super::cut::Cuts;
use super::files::{self, OpenedTokenizer, StaticTexts};
use super::{Prompt, PromptError};
use crate::config::{Prompts, TokenizerSource, Tower, sha256, sorted};
use crate::error::Error;

/// A text as the network reads it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Token ids, special tokens included.
    pub ids: Vec<u32>,
    /// Whether the text was truncated.
    pub truncated: bool,
    /// Of a pair whose tokens have types: where those of the second text begin, which are of type 1.
    pub second: Option<usize>,
    /// Tokens that get a vector of their own, several of a text; where there are none, the text has one vector.
    pub spans: Vec<Range<usize>>,
}

impl Tokens {
    /// Vectors that are made of the text.
    pub fn vectors(&self) -> usize {
        self.spans.len().max(1)
    }
}

/// The model's settings that a splitter depends on.
#[derive(Debug, Clone, Default)]
pub(crate) struct SplitterSettings {
    pub(crate) max_tokens: usize,
    pub(crate) lower_case: bool,
    /// Rows of the token table.
    pub(crate) vocab_size: usize,
    /// Whether the network tells the second text of a pair from the first by the types of their tokens.
    pub(crate) has_types: bool,
    /// What `config.json` and `sentence_bert_config.json` say of the tokenizer.
    pub(crate) source: TokenizerSource,
}

/// One transformer's tokenizer.
#[derive(Debug)]
pub(crate) struct Splitter {
    pub(super) inner: tokenizers::Tokenizer,
    /// Longest input.
    max_tokens: usize,
    /// Whether the beginning of a long text is cut off, and not the end.
    pub(super) truncates_left: bool,
    /// Whether the tokens of a pair have types.
    gives_types: bool,
    /// The places where a long text may be split; `None` where it is tokenized as a whole.
    pub(super) cuts: Option<Cuts>,
    /// Tokens that are put around every text.
    pub(super) special: usize,
    /// Of a static model.
    of_static: Option<StaticTexts>,
    path: PathBuf,
    digest: String,
}

impl Splitter {
    /// Opens the tokenizer in `folder`, as transformers does.
    ///
    /// The digest covers `tokenizer.json` with sorted keys, without the truncation and padding that the last user left
    /// in it, and with what the other files of the tokenizer make of it.
    pub(crate) fn open(folder: &Path, settings: &SplitterSettings) -> Result<Self, Error> {
        let opened = files::open(folder, &settings.source, settings.vocab_size)?;
        let OpenedTokenizer {
            mut inner,
            mut facts,
            path,
            truncates_left,
            gives_types,
            of_static,
        } = opened;
        let refuse = |reason: String| Error::Tokenizer {
            path: path.clone(),
            reason,
        };
        if let (true, false, Some(facts)) = (settings.has_types, gives_types, facts.as_object_mut()) {
            facts.insert("token_type_ids".to_owned(), false.into());
        }

        let max_tokens = settings.max_tokens;
        let special = inner
            .get_post_processor()
            .map_or(0, |processor| processor.added_tokens(false));
        if max_tokens <= special {
            let reason = format!("a longest input of {max_tokens} tokens leaves none for the text");
            return Err(refuse(reason));
        }
        let largest = inner.get_vocab(true).into_values().max().unwrap_or(0);
        if largest as usize >= settings.vocab_size {
            return Err(refuse(format!(
                "it has token id {largest}, the model's table has {} rows. Fetch both from one place",
                settings.vocab_size
            )));
        }
        let direction = if truncates_left {
            TruncationDirection::Left
        } else {
            TruncationDirection::Right
        };
        let truncation = TruncationParams {
            max_length: max_tokens,
            direction,
            ..TruncationParams::default()
        };
        inner
            .with_padding(None)
            .with_truncation(Some(truncation))
            .map_err(|error| refuse(error.to_string()))?;
        // To see which tokens are the last ones takes the whole text.
        let cuts = if truncates_left { None } else { Cuts::of(&inner) };
        if let (true, Some(facts)) = (
            settings.lower_case && files::lower_case_first(&mut inner),
            facts.as_object_mut(),
        ) {
            facts.insert("lower_case_first".to_owned(), true.into());
        }
        let digest = sha256(sorted(&facts).to_string().as_bytes());
        Ok(Self {
            inner,
            max_tokens,
            truncates_left,
            gives_types,
            cuts,
            special,
            of_static,
            path,
            digest,
        })
    }

    /// SHA-256 over what decides the tokens.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Of a long text only the necessary part is tokenized.
    pub(super) fn split(&self, text: &str) -> Result<Tokens, Error> {
        let (text, is_cut) = self.looked_at(text);
        let mut tokens = self.split_looked_at(text)?;
        tokens.truncated |= is_cut;
        Ok(tokens)
    }

    /// The characters that are looked at at all, and whether there are more: Model2Vec's limit.
    fn looked_at<'a>(&self, text: &'a str) -> (&'a str, bool) {
        let characters = self.of_static.and_then(|of_static| of_static.characters);
        let most = characters.map_or(usize::MAX, |median| median.saturating_mul(self.max_tokens));
        // A character has a byte at least.
        if text.len() <= most {
            return (text, false);
        }
        match text.char_indices().nth(most) {
            Some((end, _)) => (text.get(..end).unwrap_or(text), true),
            None => (text, false),
        }
    }

    fn split_looked_at(&self, text: &str) -> Result<Tokens, Error> {
        let beginnings = self.cuts.iter().flat_map(|cuts| cuts.beginnings(text, self.max_tokens));
        for beginning in beginnings {
            let tokens = self.split_whole(beginning)?;
            if tokens.truncated {
                return Ok(tokens);
            }
        }
        self.split_whole(text)
    }

    pub(super) fn split_whole(&self, text: &str) -> Result<Tokens, Error> {
        Ok(self.tokens_of(&self.encoded(text)?))
    }

    /// Ids of all of a text, without special tokens around it.
    pub(super) fn content(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(self.bare(text, OffsetType::None)?.get_ids().to_vec())
    }

    /// The bytes of each token of all of a text, without special tokens around it.
    pub(super) fn offsets(&self, text: &str) -> Result<Vec<(usize, usize)>, Error> {
        Ok(self.bare(text, OffsetType::Byte)?.get_offsets().to_vec())
    }

    /// All of a text, without special tokens around it.
    fn bare(&self, text: &str, offsets: OffsetType) -> Result<tokenizers::Encoding, Error> {
        let inner = &self.inner;
        self.guarded(|| {
            let mut parts = inner
                .get_added_vocabulary()
                .extract_and_normalize(inner.get_normalizer(), text);
            if let Some(step) = inner.get_pre_tokenizer() {
                step.pre_tokenize(&mut parts)?;
            }
            parts.tokenize(|part| inner.get_model().tokenize(part.get()))?;
            parts.into_encoding(None, 0, offsets)
        })
    }

    /// Longest input.
    pub(super) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    /// A text as the network reads it, with the bytes of each token.
    pub(super) fn encoded_with_offsets(&self, text: String) -> Result<tokenizers::Encoding, Error> {
        self.guarded(|| self.inner.encode(text, true))
    }

    pub(super) fn encoded<'a>(&self, input: impl Into<EncodeInput<'a>>) -> Result<tokenizers::Encoding, Error> {
        let input = input.into();
        self.guarded(|| self.inner.encode_fast(input, true))
    }

    /// The library trusts the tables in its files, and panics where they are damaged.
    fn guarded<T>(&self, work: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Error> {
        let damaged = |_| Error::Tokenize {
            reason: format!("tokenizer `{}`: it is damaged", self.path.display()),
        };
        let done = catch_unwind(AssertUnwindSafe(work)).map_err(damaged)?;
        done.map_err(|error| Error::Tokenize {
            reason: format!("tokenizer `{}`: {error}", self.path.display()),
        })
    }

    /// What is kept of a content that has room for `room` tokens.
    pub(super) fn kept<'a>(&self, content: &'a [u32], room: usize) -> &'a [u32] {
        let over = content.len().saturating_sub(room);
        let kept = if self.truncates_left {
            content.get(over..)
        } else {
            content.get(..content.len() - over)
        };
        kept.unwrap_or_default()
    }

    /// Ids as the network reads them: of a static model without the dropped ones, and never none.
    pub(super) fn ids_of(&self, ids: &[u32]) -> Vec<u32> {
        let Some(of_static) = self.of_static else {
            return ids.to_vec();
        };
        let mut kept: Vec<u32> = ids.iter().copied().filter(|id| !self.drops(*id)).collect();
        if kept.is_empty() {
            kept.push(of_static.no_token);
        }
        kept
    }

    /// Whether a token is dropped from a text.
    pub(super) fn drops(&self, id: u32) -> bool {
        self.of_static.is_some_and(|of_static| of_static.dropped == Some(id))
    }

    /// As the network reads it.
    pub(super) fn tokens_of(&self, encoding: &tokenizers::Encoding) -> Tokens {
        let second = || encoding.get_type_ids().iter().position(|&of_token| of_token > 0);
        Tokens {
            ids: self.ids_of(encoding.get_ids()),
            truncated: !encoding.get_overflowing().is_empty(),
            second: if self.gives_types { second() } else { None },
            spans: Vec::new(),
        }
    }

    /// A prompt, and how many tokens it takes.
    fn measure(&self, prompt: &str) -> Result<Prompt, PromptError> {
        if prompt.is_empty() {
            return Ok(Prompt::default());
        }
        let tokens = self.split(prompt).map_err(PromptError::Failed)?;
        let is_special = |id: &u32| {
            let added = self.inner.get_added_vocabulary();
            self.inner
                .id_to_token(*id)
                .is_some_and(|token| added.is_special_token(&token))
        };
        let trailing = usize::from(tokens.ids.last().is_some_and(is_special));
        let tokens = tokens.ids.len() - trailing;
        if tokens + self.special > self.max_tokens {
            let content = self.content(prompt).map_err(PromptError::Failed)?;
            return Err(PromptError::TooLong {
                tokens: content.len() + self.special,
                limit: self.max_tokens,
            });
        }
        Ok(Prompt {
            text: prompt.to_owned(),
            tokens,
        })
    }
}

/// Splits texts of both towers. Shared between threads.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    question: TokenizerSide,
    answer: TokenizerSide,
}

#[derive(Debug, Clone)]
struct TokenizerSide {
    splitter: Arc<Splitter>,
    prompt: Prompt,
}

impl Tokenizer {
    /// From the splitters of the question tower and the answer tower, which may be one.
    pub(crate) fn new(splitters: [Arc<Splitter>; 2], prompts: &Prompts) -> Result<Self, Error> {
        let side = |tower: Tower, splitter: Arc<Splitter>| -> Result<TokenizerSide, Error> {
            match splitter.measure(prompts.of(tower)) {
                Ok(prompt) => Ok(TokenizerSide { splitter, prompt }),
                Err(PromptError::TooLong { limit, .. }) => Err(Error::Tokenizer {
                    path: splitter.path.clone(),
                    reason: format!("the {tower} prompt fills the longest input of {limit} tokens"),
                }),
                Err(PromptError::Failed(error)) => Err(error),
            }
        };
        let [question, answer] = splitters;
        Ok(Self {
            question: side(Tower::Question, question)?,
            answer: side(Tower::Answer, answer)?,
        })
    }

    /// The same with another prompt of one tower.
    pub(crate) fn with_prompt(&self, tower: Tower, text: &str) -> Result<Self, PromptError> {
        let prompt = self.splitter(tower).measure(text)?;
        let mut changed = self.clone();
        let side = match tower {
            Tower::Question => &mut changed.question,
            Tower::Answer => &mut changed.answer,
        };
        side.prompt = prompt;
        Ok(changed)
    }

    /// Splits one text of a tower: prompt before it, special tokens around it, cut at the tower's longest input.
    pub fn encode(&self, tower: Tower, text: &str) -> Result<Tokens, Error> {
        let TokenizerSide { splitter, prompt } = self.side(tower);
        if prompt.text.is_empty() {
            splitter.split(text)
        } else {
            splitter.split(&format!("{}{text}", prompt.text))
        }
    }

    /// Splits a question and an answer as one input, for a cross encoder.
    pub fn encode_pair(&self, question: &str, answer: &str) -> Result<Tokens, Error> {
        let splitter = &self.answer.splitter;
        splitter
            .pair_encoding([question, answer])
            .map(|encoding| splitter.tokens_of(&encoding))
    }

    pub(crate) fn prompt(&self, tower: Tower) -> &Prompt {
        &self.side(tower).prompt
    }

    pub(super) fn splitter(&self, tower: Tower) -> &Splitter {
        &self.side(tower).splitter
    }

    fn side(&self, tower: Tower) -> &TokenizerSide {
        match tower {
            Tower::Question => &self.question,
            Tower::Answer => &self.answer,
        }
    }
}
