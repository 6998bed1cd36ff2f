//! Questions, answers, and who answers what, in compact memory.

use super::texts::Texts;
use crate::tokenize::Tokens;

/// Tokenized examples. Every text is held once; answers that are equal in their tokens, or that share a key, are of one
/// class. What answers a question in any of its examples is known to answer it in all.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenizedPairs {
    pub(super) questions: Texts,
    pub(super) answers: Texts,
    /// Class of each answer: the smallest number among those that are alike.
    pub(super) classes: Vec<u32>,
    pub(super) rows: Vec<PairRow>,
    /// Answers of all rows: positives, then negatives.
    pub(super) members: Vec<u32>,
    /// The teacher's score of each member, not a number where there is none; empty where no member has one.
    pub(super) scores: Vec<f32>,
    /// Classes that answer each question, sorted, and where each question's end.
    pub(super) known: Vec<u32>,
    pub(super) known_ends: Vec<usize>,
    pub(super) false_negatives: usize,
    /// The windows of documents in which answers are read; none where answers are read by themselves.
    pub(super) contexts: Option<AnswerContexts>,
    pub(super) digest: String,
}

/// Windows of documents, each once, and where each answer stands in these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerContexts {
    pub(super) windows: Texts,
    /// The place of each answer, by its number.
    pub(super) places: Vec<AnswerPlace>,
}

/// The tokens of an answer in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AnswerPlace {
    pub(super) window: u32,
    pub(super) first: u32,
    pub(super) end: u32,
}

/// One example: a question, and ends within the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PairRow {
    pub(super) question: u32,
    pub(super) positives_end: u32,
    pub(super) negatives_end: u32,
}

impl TokenizedPairs {
    /// Examples.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is no example; never true of pairs that were built.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Different questions and different answers.
    pub fn texts(&self) -> (usize, usize) {
        (self.questions.len(), self.answers.len())
    }

    /// Tokens of the different questions and answers.
    pub fn tokens(&self) -> (usize, usize) {
        (self.questions.tokens(), self.answers.tokens())
    }

    /// Different questions and answers that were cut.
    pub fn truncated(&self) -> (usize, usize) {
        (self.questions.truncated(), self.answers.truncated())
    }

    /// Negatives that were left out because they answer their question.
    pub fn false_negatives(&self) -> usize {
        self.false_negatives
    }

    /// Examples that have a negative.
    pub fn with_negatives(&self) -> usize {
        (0..self.len() as u32)
            .filter(|&example| !self.negatives(example).is_empty())
            .count()
    }

    /// Whether a teacher has scored any passage.
    pub fn has_scores(&self) -> bool {
        !self.scores.is_empty()
    }

    /// SHA-256 in hexadecimal over all of it: equal for equal examples in equal order, tokenizer and lengths.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The question of an example.
    pub fn question(&self, example: u32) -> u32 {
        self.rows.get(example as usize).map_or(0, |row| row.question)
    }

    /// Places of an example's positives among the members.
    pub fn positives(&self, example: u32) -> std::ops::Range<u32> {
        let Some(row) = self.rows.get(example as usize) else {
            return 0..0;
        };
        let start = (example as usize)
            .checked_sub(1)
            .and_then(|before| self.rows.get(before));
        start.map_or(0, |before| before.negatives_end)..row.positives_end
    }

    /// Places of an example's negatives among the members.
    pub fn negatives(&self, example: u32) -> std::ops::Range<u32> {
        self.rows
            .get(example as usize)
            .map_or(0..0, |row| row.positives_end..row.negatives_end)
    }

    /// The answer at a place.
    pub fn answer(&self, member: u32) -> u32 {
        self.members.get(member as usize).copied().unwrap_or_default()
    }

    /// The teacher's score at a place.
    pub fn score(&self, member: u32) -> Option<f32> {
        self.scores
            .get(member as usize)
            .copied()
            .filter(|score| !score.is_nan())
    }

    /// The class of equal answers.
    pub fn class(&self, answer: u32) -> u32 {
        self.classes.get(answer as usize).copied().unwrap_or(answer)
    }

    /// Classes that are known to answer a question, sorted.
    pub fn known(&self, question: u32) -> &[u32] {
        let at = question as usize;
        let start = at
            .checked_sub(1)
            .and_then(|before| self.known_ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self.known_ends.get(at).copied().unwrap_or(start);
        self.known.get(start..end).unwrap_or_default()
    }

    /// Whether an answer is known to answer a question.
    pub fn answers(&self, question: u32, answer: u32) -> bool {
        self.known(question).binary_search(&self.class(answer)).is_ok()
    }

    /// Tokens of a question.
    pub fn question_tokens(&self, question: u32) -> Tokens {
        self.questions.get(question)
    }

    /// The window of its document that an answer stands in, with its tokens as the one span; nothing where answers are
    /// read by themselves.
    pub fn context_tokens(&self, answer: u32) -> Option<Tokens> {
        let contexts = self.contexts.as_ref()?;
        let AnswerPlace { window, first, end } = *contexts.places.get(answer as usize)?;
        let span = first as usize..end as usize;
        Some(Tokens {
            spans: std::iter::once(span).collect(),
            ..contexts.windows.get(window)
        })
    }

    /// Windows of documents, and their tokens; 0 where answers are read by themselves.
    pub fn windows(&self) -> (usize, usize) {
        self.contexts
            .as_ref()
            .map_or((0, 0), |contexts| (contexts.windows.len(), contexts.windows.tokens()))
    }

    /// Tokens of an answer.
    pub fn answer_tokens(&self, answer: u32) -> Tokens {
        self.answers.get(answer)
    }
}
