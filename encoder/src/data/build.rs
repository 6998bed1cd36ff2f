//! Examples to pairs: tokenized on all cores, each text once.

use std::collections::HashMap;
use std::sync::Arc;

use dyad_corpus::examples::{Example, Passage};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::error::DataError;
use super::pairs::{Pairs, Row};
use super::texts::{Interned, Texts, halves};
use crate::config::Tower;
use crate::error::Error;
use crate::tokenize::{Tokenizer, Tokens};

/// Examples that are tokenized at a time.
const WINDOW: usize = 2048;

/// How examples become pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairOptions {
    /// Longest question in tokens, special tokens and prompt included; the tower's own where it is less.
    pub question_tokens: usize,
    /// Longest answer.
    pub answer_tokens: usize,
    /// Whether a passage's title precedes its text, as in evaluation.
    pub titles: bool,
}

impl Default for PairOptions {
    /// The towers' own lengths, with titles.
    fn default() -> Self {
        Self { question_tokens: usize::MAX, answer_tokens: usize::MAX, titles: true }
    }
}

/// Collects examples of one or several sources.
#[derive(Debug)]
pub struct PairsBuilder {
    tokenizer: Arc<Tokenizer>,
    options: PairOptions,
    questions: Interned,
    answers: Interned,
    alike: Alike,
    rows: Vec<Row>,
    members: Vec<u32>,
    scores: Vec<f32>,
}

/// An example whose texts are tokens.
struct Split {
    question: Tokens,
    positives: Vec<(Tokens, Option<String>, f32)>,
    negatives: Vec<(Tokens, Option<String>, f32)>,
}

impl PairsBuilder {
    /// An empty one.
    pub fn new(tokenizer: Arc<Tokenizer>, options: PairOptions) -> Self {
        let (questions, answers) = (Interned::default(), Interned::default());
        let (rows, members, scores) = (Vec::new(), Vec::new(), Vec::new());
        Self { tokenizer, options, questions, answers, alike: Alike::default(), rows, members, scores }
    }

    /// Adds the examples of a source; the keys of its passages are its own.
    pub fn extend<E>(&mut self, source: impl IntoIterator<Item = Result<Example, E>>) -> Result<(), DataError>
    where
        DataError: From<E>,
    {
        self.alike.keys.clear();
        let mut source = source.into_iter();
        loop {
            let window = source.by_ref().take(WINDOW).collect::<Result<Vec<Example>, E>>()?;
            if window.is_empty() {
                return Ok(());
            }
            let split: Result<Vec<Split>, Error> = window.into_par_iter().map(|example| self.split(example)).collect();
            for example in split? {
                if example.positives.is_empty() {
                    return Err(DataError::NoPositive { example: self.rows.len() + 1 });
                }
                self.push(&example)?;
            }
        }
    }

    fn split(&self, example: Example) -> Result<Split, Error> {
        let PairOptions { question_tokens, answer_tokens, titles } = self.options;
        let passages = |passages: Vec<Passage>| {
            passages
                .into_iter()
                .map(|passage| {
                    let whole = passage.passage();
                    // A passage that is only a title keeps it.
                    let text = if titles || passage.text.trim().is_empty() { &*whole } else { passage.text.trim() };
                    let tokens = self.tokenizer.encode_within(Tower::Answer, text, answer_tokens)?;
                    Ok((tokens, passage.key.filter(|key| !key.is_empty()), passage.score.unwrap_or(f32::NAN)))
                })
                .collect::<Result<Vec<_>, Error>>()
        };
        Ok(Split {
            question: self.tokenizer.encode_within(Tower::Question, example.question.trim(), question_tokens)?,
            positives: passages(example.positives)?,
            negatives: passages(example.negatives)?,
        })
    }

    fn push(&mut self, example: &Split) -> Result<(), DataError> {
        let question = self.questions.number(&example.question)?;
        let mut ends = [0; 2];
        for (end, passages) in ends.iter_mut().zip([&example.positives, &example.negatives]) {
            for (tokens, key, score) in passages {
                let answer = self.answers.number(tokens)?;
                self.alike.meet(answer, key.as_deref());
                self.members.push(answer);
                self.scores.push(*score);
            }
            *end = u32::try_from(self.members.len()).map_err(|_| DataError::TooLarge { limit: u32::MAX })?;
        }
        self.rows.push(Row { question, positives_end: ends[0], negatives_end: ends[1] });
        Ok(())
    }

    /// The pairs; refused where no example came.
    pub fn finish(self) -> Result<Pairs, DataError> {
        if self.rows.is_empty() {
            return Err(DataError::Empty);
        }
        let (questions, answers) = (self.questions.finish(), self.answers.finish());
        let classes = self.alike.classes(answers.len());
        let class = |answer: u32| classes.get(answer as usize).copied().unwrap_or(answer);
        let members = |from: u32, to: u32| {
            let places = from as usize..to as usize;
            let scores = self.scores.get(places.clone()).unwrap_or_default();
            self.members.get(places).unwrap_or_default().iter().copied().zip(scores.iter().copied())
        };

        let mut lists: Vec<Vec<u32>> = vec![Vec::new(); questions.len()];
        let mut start = 0;
        for row in &self.rows {
            if let Some(list) = lists.get_mut(row.question as usize) {
                list.extend(members(start, row.positives_end).map(|(answer, _)| class(answer)));
            }
            start = row.negatives_end;
        }
        let (mut known, mut known_ends) = (Vec::new(), Vec::with_capacity(lists.len()));
        for list in &mut lists {
            list.sort_unstable();
            list.dedup();
            known.extend_from_slice(list);
            known_ends.push(known.len());
        }

        let mut pairs = Pairs {
            questions,
            answers,
            classes: classes.clone(),
            rows: Vec::with_capacity(self.rows.len()),
            members: Vec::with_capacity(self.members.len()),
            scores: Vec::with_capacity(self.scores.len()),
            known,
            known_ends,
            false_negatives: 0,
            digest: String::new(),
        };
        let mut start = 0;
        for row in &self.rows {
            let mut taken: Vec<u32> = Vec::new();
            let mut take = |pairs: &mut Pairs, (answer, score): (u32, f32)| {
                if !taken.contains(&class(answer)) {
                    taken.push(class(answer));
                    pairs.members.push(answer);
                    pairs.scores.push(score);
                }
                pairs.members.len() as u32
            };
            let mut kept = Row { positives_end: 0, negatives_end: 0, ..*row };
            for member in members(start, row.positives_end) {
                kept.positives_end = take(&mut pairs, member);
            }
            kept.negatives_end = kept.positives_end;
            for member in members(row.positives_end, row.negatives_end) {
                if pairs.answers(row.question, member.0) {
                    pairs.false_negatives += 1;
                } else {
                    kept.negatives_end = take(&mut pairs, member);
                }
            }
            pairs.rows.push(kept);
            start = row.negatives_end;
        }
        if pairs.scores.iter().all(|score| score.is_nan()) {
            pairs.scores = Vec::new();
        }
        pairs.digest = digest(&pairs);
        Ok(pairs)
    }
}

/// Which answers are alike: those of one key. A forest whose roots are the smallest numbers (Tarjan 1975).
#[derive(Debug, Default)]
struct Alike {
    parents: Vec<u32>,
    keys: HashMap<(u64, u64), u32>,
}

impl Alike {
    fn meet(&mut self, answer: u32, key: Option<&str>) {
        while self.parents.len() <= answer as usize {
            self.parents.push(self.parents.len() as u32);
        }
        let Some(key) = key else { return };
        let other = *self.keys.entry(halves(key.as_bytes())).or_insert(answer);
        let (one, other) = (self.root(answer), self.root(other));
        if let Some(parent) = self.parents.get_mut(one.max(other) as usize) {
            *parent = one.min(other);
        }
    }

    fn root(&mut self, mut answer: u32) -> u32 {
        while let Some(&parent) = self.parents.get(answer as usize).filter(|&&parent| parent != answer) {
            let above = self.parents.get(parent as usize).copied().unwrap_or(parent);
            if let Some(slot) = self.parents.get_mut(answer as usize) {
                *slot = above;
            }
            answer = parent;
        }
        answer
    }

    fn classes(mut self, answers: usize) -> Vec<u32> {
        (0..answers as u32).map(|answer| self.root(answer)).collect()
    }
}

fn digest(pairs: &Pairs) -> String {
    let mut hash = Sha256::new();
    let mut texts = |texts: &Texts| {
        for text in 0..texts.len() as u32 {
            let ids = texts.ids(text);
            hash.update((ids.len() as u64).to_le_bytes());
            hash.update(ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>());
        }
    };
    texts(&pairs.questions);
    texts(&pairs.answers);
    let numbers = pairs.rows.iter().flat_map(|row| [row.question, row.positives_end, row.negatives_end]);
    let numbers = numbers.chain(pairs.members.iter().copied()).chain(pairs.classes.iter().copied());
    for number in numbers.chain(pairs.scores.iter().map(|score| score.to_bits())) {
        hash.update(number.to_le_bytes());
    }
    crate::config::hexadecimal(&hash.finalize())
}
