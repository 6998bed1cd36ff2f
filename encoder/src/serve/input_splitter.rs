//! From a request's input to tokens, until its deadline.

use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;

use super::error::{EncodeError, late};
use super::passages::{LateRows, ReadDocument};
use super::request::{EncodeOptions, Input, Truncation};
use crate::config::Tower;
use crate::tokenize::{ContextTokens, DocumentWindow, GivenError, PassagesOfDocument, Tokenizer, Tokens};

/// A request's tokens, and those of the documents in which its texts stand, where they stand in some.
pub(super) struct TokenizedInput {
    pub(super) texts: Vec<Tokens>,
    pub(super) contexts: Vec<Tokens>,
    pub(super) late: Option<LateRows>,
}

impl TokenizedInput {
    pub(super) fn tokens(&self) -> usize {
        self.texts.iter().chain(&self.contexts).map(|text| text.ids.len()).sum()
    }
}

/// Makes tokens of a request, until its deadline.
pub(super) struct InputSplitter<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) tower: Tower,
    pub(super) options: &'a EncodeOptions,
    /// When the request came.
    pub(super) came: Instant,
}

impl InputSplitter<'_> {
    /// An error once the deadline has passed. Asked before each text and each document.
    fn check_time(&self) -> Result<(), EncodeError> {
        if Instant::now() < self.options.deadline {
            Ok(())
        } else {
            Err(late(self.came))
        }
    }

    /// The tokens of all texts, and of the documents in which they stand.
    pub(super) fn split(&self, input: &Input) -> Result<TokenizedInput, EncodeError> {
        let mut texts = self.texts(input)?;
        let Input::Passages { documents, weight, .. } = input else {
            return Ok(TokenizedInput {
                texts,
                contexts: Vec::new(),
                late: None,
            });
        };
        let ContextTokens { contexts, rows, cut } = self.contexts(documents, texts.len())?;
        for (position, (text, cut)) in texts.iter_mut().zip(cut).enumerate() {
            if cut && self.options.truncation == Truncation::Refuse {
                let limit = contexts.iter().map(|window| window.ids.len()).max().unwrap_or_default();
                return Err(EncodeError::TooLong {
                    position,
                    tokens: limit,
                    more: true,
                    limit,
                });
            }
            text.truncated |= cut;
        }
        Ok(TokenizedInput {
            texts,
            contexts,
            late: Some(LateRows { rows, weight: *weight }),
        })
    }

    /// The tokens of documents of which a number of texts are passages.
    fn contexts(&self, documents: &[ReadDocument], texts: usize) -> Result<ContextTokens, EncodeError> {
        let documents: Vec<PassagesOfDocument<'_>> = documents.iter().map(ReadDocument::passages_of).collect();
        let windows = documents.par_iter().map(|document| self.windows(document));
        let windows: Vec<Vec<DocumentWindow>> = windows.collect::<Result<_, _>>()?;
        Ok(ContextTokens::of(&documents, windows, texts))
    }

    fn windows(&self, document: &PassagesOfDocument<'_>) -> Result<Vec<DocumentWindow>, EncodeError> {
        self.check_time()?;
        self.tokenizer.windows_of(self.tower, document).map_err(failed)
    }

    /// Tokens of every text; of several errors that of the first text.
    fn texts(&self, input: &Input) -> Result<Vec<Tokens>, EncodeError> {
        let tokens: Vec<Result<Tokens, EncodeError>> = match input {
            Input::Texts(texts) | Input::Passages { texts, .. } => {
                let texts = texts.par_iter().enumerate();
                texts.map(|(position, text)| self.text(position, text)).collect()
            }
            Input::TokenIds(texts) => {
                let texts = texts.par_iter().enumerate();
                texts.map(|(position, ids)| self.ids(position, ids)).collect()
            }
            Input::Pairs { query, texts } => {
                let texts = texts.par_iter().enumerate();
                texts.map(|(position, text)| self.pair(position, query, text)).collect()
            }
        };
        tokens.into_iter().collect()
    }

    fn text(&self, position: usize, text: &str) -> Result<Tokens, EncodeError> {
        self.check_time()?;
        let tokens = self.tokenizer.encode(self.tower, text).map_err(failed)?;
        self.check_length(position, tokens, || self.tokenizer.whole_length(self.tower, text))
    }

    fn ids(&self, position: usize, ids: &[u32]) -> Result<Tokens, EncodeError> {
        self.check_time()?;
        let tokens = self
            .tokenizer
            .surround(self.tower, ids)
            .map_err(|error| refusal(position, error))?;
        self.check_length(position, tokens, || {
            Ok((self.tokenizer.whole_length_of(self.tower, ids.len())?, false))
        })
    }

    fn pair(&self, position: usize, query: &str, text: &str) -> Result<Tokens, EncodeError> {
        self.check_time()?;
        let tokens = self.tokenizer.encode_pair(query, text).map_err(failed)?;
        self.check_length(position, tokens, || self.tokenizer.whole_length_of_pair(query, text))
    }

    /// Refuses a text without tokens, and one that was cut where the caller wants none to be. `whole` counts the tokens
    /// before the cut, and says whether there are more.
    fn check_length(
        &self,
        position: usize,
        tokens: Tokens,
        whole: impl Fn() -> Result<(usize, bool), crate::Error>,
    ) -> Result<Tokens, EncodeError> {
        // A tokenizer may drop all of a text, and put nothing around it.
        if tokens.ids.is_empty() {
            return Err(EncodeError::EmptyText { position });
        }
        if tokens.truncated && self.options.truncation == Truncation::Refuse {
            let (whole, more) = whole().map_err(failed)?;
            return Err(EncodeError::TooLong {
                position,
                tokens: whole,
                more,
                limit: tokens.ids.len(),
            });
        }
        Ok(tokens)
    }
}

fn failed(error: crate::Error) -> EncodeError {
    EncodeError::Model(Arc::new(error))
}

fn refusal(position: usize, error: GivenError) -> EncodeError {
    match error {
        GivenError::Unknown { place, id, vocabulary } => EncodeError::UnknownToken {
            position,
            place,
            id,
            vocabulary,
        },
        GivenError::Special { place, id, token } => EncodeError::SpecialToken {
            position,
            place,
            id,
            token,
        },
        GivenError::Failed(error) => EncodeError::Model(Arc::new(error)),
    }
}
