//! Examples to pairs: tokenized on all cores, each text once.

use std::collections::HashMap;
use std::sync::Arc;

use dyad_corpus::examples::{Passage, TrainingExample};
use rayon::prelude::*;
use sha2::{Digest, Sha256};

use super::context::{ContextPlace, ExampleContext, places};
use super::error::DataError;
use super::pairs::{AnswerContexts, AnswerPlace, PairRow, TokenizedPairs};
use super::texts::{Interned, Texts, digest_of, halves};
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
        Self {
            question_tokens: usize::MAX,
            answer_tokens: usize::MAX,
            titles: true,
        }
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
    rows: Vec<PairRow>,
    members: Vec<u32>,
    scores: Vec<f32>,
    context: Option<Arc<ExampleContext>>,
    windows: Interned,
    /// Place of each answer in a window, where there is a context.
    places: Vec<AnswerPlace>,
}

/// An example whose texts are tokens.
struct TokenizedExample {
    question: Tokens,
    positives: Vec<TokenizedPassage>,
    negatives: Vec<TokenizedPassage>,
}

/// A passage of an example.
struct TokenizedPassage {
    tokens: Tokens,
    key: Option<String>,
    /// Not a number where there is none.
    score: f32,
}

impl PairsBuilder {
    /// An empty one.
    pub fn new(tokenizer: Arc<Tokenizer>, options: PairOptions) -> Self {
        let (questions, answers) = (Interned::default(), Interned::default());
        Self {
            tokenizer,
            options,
            questions,
            answers,
            alike: Alike::default(),
            rows: Vec::new(),
            members: Vec::new(),
            scores: Vec::new(),
            context: None,
            windows: Interned::default(),
            places: Vec::new(),
        }
    }

    /// Of answers that are read in their documents too.
    #[must_use]
    pub fn in_context(self, context: Option<Arc<ExampleContext>>) -> Self {
        Self { context, ..self }
    }

    /// Adds the examples of a source; the keys of its passages are its own.
    pub fn extend<E>(&mut self, source: impl IntoIterator<Item = Result<TrainingExample, E>>) -> Result<(), DataError>
    where
        DataError: From<E>,
    {
        self.alike.keys.clear();
        let mut source = source.into_iter();
        loop {
            let window = source
                .by_ref()
                .take(WINDOW)
                .collect::<Result<Vec<TrainingExample>, E>>()?;
            if window.is_empty() {
                return Ok(());
            }
            let mut places = self.places_in_windows(&window)?.into_iter();
            let tokenized = window.into_par_iter().map(|example| self.tokenized(example));
            for example in tokenized.collect::<Result<Vec<TokenizedExample>, Error>>()? {
                if example.positives.is_empty() {
                    return Err(DataError::NoPositive {
                        example: self.rows.len() + 1,
                    });
                }
                self.push(&example, &mut places)?;
            }
        }
    }

    /// Where the passages of these examples stand, in their order; nothing where there is no context.
    fn places_in_windows(&mut self, examples: &[TrainingExample]) -> Result<Vec<AnswerPlace>, DataError> {
        let Some(context) = &self.context else {
            return Ok(Vec::new());
        };
        let passages = examples
            .iter()
            .flat_map(|example| example.positives.iter().chain(&example.negatives));
        let tokens = context.tokens(&self.tokenizer, &passages.collect::<Vec<_>>())?;
        let numbers = tokens.contexts.iter().map(|window| self.windows.number(window));
        let numbers = numbers.collect::<Result<Vec<u32>, DataError>>()?;
        let place = |ContextPlace { window, tokens }: ContextPlace| AnswerPlace {
            window: numbers.get(window).copied().unwrap_or_default(),
            first: tokens.start as u32,
            end: tokens.end as u32,
        };
        Ok(places(&tokens).into_iter().map(place).collect())
    }

    fn tokenized(&self, example: TrainingExample) -> Result<TokenizedExample, Error> {
        let passages = |passages: Vec<Passage>| -> Result<Vec<TokenizedPassage>, Error> {
            passages
                .into_iter()
                .map(|passage| self.tokenized_passage(passage))
                .collect()
        };
        let question = example.question.trim();
        Ok(TokenizedExample {
            question: self
                .tokenizer
                .encode_within(Tower::Question, question, self.options.question_tokens)?,
            positives: passages(example.positives)?,
            negatives: passages(example.negatives)?,
        })
    }

    fn tokenized_passage(&self, passage: Passage) -> Result<TokenizedPassage, Error> {
        let PairOptions {
            answer_tokens, titles, ..
        } = self.options;
        let tokens = self
            .tokenizer
            .encode_within(Tower::Answer, &passage.read_with(titles), answer_tokens)?;
        Ok(TokenizedPassage {
            tokens,
            score: passage.score.unwrap_or(f32::NAN),
            key: passage.key.filter(|key| !key.is_empty()),
        })
    }

    /// Adds an example, whose passages stand at the next `places`.
    fn push(
        &mut self,
        example: &TokenizedExample,
        places: &mut impl Iterator<Item = AnswerPlace>,
    ) -> Result<(), DataError> {
        let question = self.questions.number(&example.question)?;
        let mut ends = [0; 2];
        for (end, passages) in ends.iter_mut().zip([&example.positives, &example.negatives]) {
            for TokenizedPassage { tokens, key, score } in passages {
                let answer = self.answer(tokens, places.next())?;
                self.alike.meet(answer, key.as_deref());
                self.members.push(answer);
                self.scores.push(*score);
            }
            *end = u32::try_from(self.members.len()).map_err(|_| DataError::TooLarge { limit: u32::MAX })?;
        }
        self.rows.push(PairRow {
            question,
            positives_end: ends[0],
            negatives_end: ends[1],
        });
        Ok(())
    }

    /// The number of an answer: one text in two documents is two of them, which are alike.
    fn answer(&mut self, tokens: &Tokens, place: Option<AnswerPlace>) -> Result<u32, DataError> {
        let Some(place) = place else {
            return self.answers.number(tokens);
        };
        let AnswerPlace { window, first, end } = place;
        let answer = self.answers.number_with(tokens, &[window, first, end])?;
        if answer as usize == self.places.len() {
            self.places.push(place);
        }
        self.alike.meet_text(answer, tokens);
        Ok(answer)
    }

    /// The pairs; refused where no example came.
    pub fn finish(self) -> Result<TokenizedPairs, DataError> {
        if self.rows.is_empty() {
            return Err(DataError::Empty);
        }
        let (questions, answers) = (self.questions.finish(), self.answers.finish());
        let classes = self.alike.classes(answers.len());
        let class = |answer: u32| classes.get(answer as usize).copied().unwrap_or(answer);
        let members = |from: u32, to: u32| {
            let places = from as usize..to as usize;
            let scores = self.scores.get(places.clone()).unwrap_or_default();
            self.members
                .get(places)
                .unwrap_or_default()
                .iter()
                .copied()
                .zip(scores.iter().copied())
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

        let mut pairs = TokenizedPairs {
            questions,
            answers,
            classes: classes.clone(),
            rows: Vec::with_capacity(self.rows.len()),
            members: Vec::with_capacity(self.members.len()),
            scores: Vec::with_capacity(self.scores.len()),
            known,
            known_ends,
            false_negatives: 0,
            contexts: self.context.as_ref().map(|_| AnswerContexts {
                windows: self.windows.finish(),
                places: self.places,
            }),
            digest: String::new(),
        };
        let mut start = 0;
        for row in &self.rows {
            let mut taken: Vec<u32> = Vec::new();
            let mut take = |pairs: &mut TokenizedPairs, (answer, score): (u32, f32)| {
                if !taken.contains(&class(answer)) {
                    taken.push(class(answer));
                    pairs.members.push(answer);
                    pairs.scores.push(score);
                }
                pairs.members.len() as u32
            };
            let mut kept = PairRow {
                positives_end: 0,
                negatives_end: 0,
                ..*row
            };
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

/// Which answers are alike: those of one key, and those of one text in several documents. A forest whose roots are the
/// smallest numbers (Tarjan 1975).
#[derive(Debug, Default)]
struct Alike {
    parents: Vec<u32>,
    keys: HashMap<(u64, u64), u32>,
    /// By token ids, where answers are told apart by their documents.
    texts: HashMap<(u64, u64), u32>,
}

impl Alike {
    fn meet(&mut self, answer: u32, key: Option<&str>) {
        self.add(answer);
        let Some(key) = key else { return };
        let other = *self.keys.entry(halves(key.as_bytes())).or_insert(answer);
        self.join(answer, other);
    }

    fn meet_text(&mut self, answer: u32, tokens: &Tokens) {
        self.add(answer);
        let other = *self.texts.entry(digest_of(tokens.ids.iter())).or_insert(answer);
        self.join(answer, other);
    }

    fn add(&mut self, answer: u32) {
        while self.parents.len() <= answer as usize {
            self.parents.push(self.parents.len() as u32);
        }
    }

    fn join(&mut self, one: u32, other: u32) {
        let (one, other) = (self.root(one), self.root(other));
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

fn digest(pairs: &TokenizedPairs) -> String {
    let mut hash = Sha256::new();
    let add = |hash: &mut Sha256, texts: &Texts| {
        for text in 0..texts.len() as u32 {
            let ids = texts.ids(text);
            hash.update((ids.len() as u64).to_le_bytes());
            hash.update(ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<u8>>());
        }
    };
    add(&mut hash, &pairs.questions);
    add(&mut hash, &pairs.answers);
    if let Some(AnswerContexts { windows, places }) = &pairs.contexts {
        add(&mut hash, windows);
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
    crate::config::hexadecimal(&hash.finalize())
}
