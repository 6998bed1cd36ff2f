//! Which answers of the training data are alike.

use std::collections::HashMap;

use super::texts::{digest_of, halves};
use crate::tokenize::Tokens;

/// Which answers are alike: those of one key, and those of one text in several documents. A forest whose roots are the
/// smallest numbers (Tarjan 1975).
#[derive(Debug, Default)]
pub(super) struct AnswerClasses {
    parents: Vec<u32>,
    keys: HashMap<(u64, u64), u32>,
    /// Answers by their token ids, where they differ by their documents.
    texts: HashMap<(u64, u64), u32>,
}

impl AnswerClasses {
    /// The next source has keys of its own.
    pub(super) fn forget_keys(&mut self) {
        self.keys.clear();
    }

    /// Adds an answer, of the class of all answers with its key.
    pub(super) fn add_keyed(&mut self, answer: u32, key: Option<&str>) {
        self.grow(answer);
        let Some(key) = key else { return };
        let other = *self.keys.entry(halves(key.as_bytes())).or_insert(answer);
        self.unite(answer, other);
    }

    /// Adds an answer, of the class of all answers with its tokens.
    pub(super) fn add_text(&mut self, answer: u32, tokens: &Tokens) {
        self.grow(answer);
        let other = *self.texts.entry(digest_of(tokens.ids.iter())).or_insert(answer);
        self.unite(answer, other);
    }

    fn grow(&mut self, answer: u32) {
        while self.parents.len() <= answer as usize {
            self.parents.push(self.parents.len() as u32);
        }
    }

    fn unite(&mut self, one: u32, other: u32) {
        let (one, other) = (self.find_root(one), self.find_root(other));
        if let Some(parent) = self.parents.get_mut(one.max(other) as usize) {
            *parent = one.min(other);
        }
    }

    fn find_root(&mut self, mut answer: u32) -> u32 {
        while let Some(&parent) = self.parents.get(answer as usize).filter(|&&parent| parent != answer) {
            let above = self.parents.get(parent as usize).copied().unwrap_or(parent);
            if let Some(slot) = self.parents.get_mut(answer as usize) {
                *slot = above;
            }
            answer = parent;
        }
        answer
    }

    /// The class of each answer: the smallest number of an answer of it.
    pub(super) fn finish(mut self, answers: usize) -> Vec<u32> {
        (0..answers as u32).map(|answer| self.find_root(answer)).collect()
    }
}
