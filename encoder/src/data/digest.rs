//! The digest of tokenized pairs, by which a run knows its data again.

use sha2::{Digest, Sha256};

use super::pairs::{AnswerContexts, AnswerPlace, TokenizedPairs};
use super::texts::Texts;
use crate::config::hexadecimal;

/// A digest of all that batches depend on.
pub(super) fn digest(pairs: &TokenizedPairs) -> String {
    let mut hash = Sha256::new();
    hash_texts(&mut hash, &pairs.questions);
    hash_texts(&mut hash, &pairs.answers);
    if let Some(AnswerContexts { windows, places }) = &pairs.contexts {
        hash_texts(&mut hash, windows);
        for AnswerPlace { window, first, end } in places {
            hash.update([window, first, end].map(|number| number.to_le_bytes()).concat());
        }
    }
    let numbers = pairs
        .rows
        .iter()
        .flat_map(|row| [row.question, row.positives_end, row.negatives_end]);
    let numbers = numbers
        .chain(pairs.members.iter().copied())
        .chain(pairs.classes.iter().copied());
    for number in numbers.chain(pairs.scores.iter().map(|score| score.to_bits())) {
        hash.update(number.to_le_bytes());
    }
    hexadecimal(&hash.finalize())
}

fn hash_texts(hash: &mut Sha256, texts: &Texts) {
    for text in 0..texts.len() as u32 {
        let ids = texts.ids(text);
        hash.update((ids.len() as u64).to_le_bytes());
        hash.update(ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>());
    }
}
