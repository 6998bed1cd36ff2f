//! Token ids of many texts in one buffer, each text once.

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_128;

use super::error::DataError;
use crate::tokenize::Tokens;

/// Texts by number: ids one text after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Texts {
    ids: Vec<u32>,
    /// End of each text.
    ends: Vec<usize>,
    truncated: Vec<bool>,
}

impl Texts {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Ids of all texts.
    pub(super) fn tokens(&self) -> usize {
        self.ids.len()
    }

    /// Texts that were cut.
    pub(super) fn truncated(&self) -> usize {
        self.truncated.iter().filter(|&&truncated| truncated).count()
    }

    pub(super) fn ids(&self, text: u32) -> &[u32] {
        let at = text as usize;
        let start = at
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self.ends.get(at).copied().unwrap_or(start);
        self.ids.get(start..end).unwrap_or_default()
    }

    pub(super) fn get(&self, text: u32) -> Tokens {
        let truncated = self.truncated.get(text as usize).copied().unwrap_or_default();
        Tokens {
            ids: self.ids(text).to_vec(),
            truncated,
            ..Tokens::default()
        }
    }

    fn push(&mut self, tokens: &Tokens) {
        self.ids.extend_from_slice(&tokens.ids);
        self.ends.push(self.ids.len());
        self.truncated.push(tokens.truncated);
    }
}

/// Texts while they are collected: 128 bits of xxh3 tell which were met.
#[derive(Debug, Default)]
pub(super) struct Interned {
    texts: Texts,
    seen: HashMap<(u64, u64), u32>,
}

impl Interned {
    /// The number of a text, which is that of the first with its ids.
    pub(super) fn number(&mut self, tokens: &Tokens) -> Result<u32, DataError> {
        self.number_with(tokens, &[])
    }

    /// The number of a text, which is that of the first with its ids and with these numbers.
    pub(super) fn number_with(&mut self, tokens: &Tokens, numbers: &[u32]) -> Result<u32, DataError> {
        let key = digest_of(tokens.ids.iter().chain(numbers));
        if let Some(&number) = self.seen.get(&key) {
            return Ok(number);
        }
        let number = u32::try_from(self.texts.len()).map_err(|_| DataError::TooLarge { limit: u32::MAX })?;
        self.texts.push(tokens);
        self.seen.insert(key, number);
        Ok(number)
    }

    pub(super) fn finish(mut self) -> Texts {
        self.texts.ids.shrink_to_fit();
        self.texts
    }
}

/// Tells token ids from others.
pub(super) fn digest_of<'a>(ids: impl Iterator<Item = &'a u32>) -> (u64, u64) {
    halves(&ids.flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>())
}

/// 128 bits as two halves: a u128 would pad every entry of a table.
pub(super) fn halves(bytes: &[u8]) -> (u64, u64) {
    let hash = xxh3_128(bytes);
    ((hash >> 64) as u64, hash as u64)
}
