//! Examples to pairs: tokenized on all cores, each text once.

use std::sync::Arc;

use dyad_corpus::examples::{Passage, TrainingExample};
use rayon::prelude::*;

use super::answer_classes::AnswerClasses;
use super::context::{ContextPlace, ExampleContext, context_places};
use super::digest::digest;
use super::error::DataError;
use super::pairs::{AnswerContexts, AnswerPlace, PairRow, TokenizedPairs};
use super::texts::Interned;
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
    classes: AnswerClasses,
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
    /// The teacher's score; not a number where there is none.
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
            classes: AnswerClasses::default(),
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
        self.classes.forget_keys();
        let mut source = source.into_iter();
        loop {
            let window = source
                .by_ref()
                .take(WINDOW)
                .collect::<Result<Vec<TrainingExample>, E>>()?;
            if window.is_empty() {
                return Ok(());
            }
            let mut places = self.add_windows(&window)?.into_iter();
            let tokenized = window.into_par_iter().map(|example| self.tokenize(example));
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
    fn add_windows(&mut self, examples: &[TrainingExample]) -> Result<Vec<AnswerPlace>, DataError> {
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
        Ok(context_places(&tokens).into_iter().map(place).collect())
    }

    fn tokenize(&self, example: TrainingExample) -> Result<TokenizedExample, Error> {
        let question = example.question.trim();
        Ok(TokenizedExample {
            question: self
                .tokenizer
                .encode_within(Tower::Question, question, self.options.question_tokens)?,
            positives: self.tokenize_passages(example.positives)?,
            negatives: self.tokenize_passages(example.negatives)?,
        })
    }

    fn tokenize_passages(&self, passages: Vec<Passage>) -> Result<Vec<TokenizedPassage>, Error> {
        passages
            .into_iter()
            .map(|passage| self.tokenize_passage(passage))
            .collect()
    }

    fn tokenize_passage(&self, passage: Passage) -> Result<TokenizedPassage, Error> {
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
                let answer = self.add_answer(tokens, places.next())?;
                self.classes.add_keyed(answer, key.as_deref());
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
    fn add_answer(&mut self, tokens: &Tokens, place: Option<AnswerPlace>) -> Result<u32, DataError> {
        let Some(place) = place else {
            return self.answers.number(tokens);
        };
        let AnswerPlace { window, first, end } = place;
        let answer = self.answers.number_with(tokens, &[window, first, end])?;
        if answer as usize == self.places.len() {
            self.places.push(place);
        }
        self.classes.add_text(answer, tokens);
        Ok(answer)
    }

    /// The pairs; refused where no example came.
    pub fn finish(self) -> Result<TokenizedPairs, DataError> {
        if self.rows.is_empty() {
            return Err(DataError::Empty);
        }
        let (questions, answers) = (self.questions.finish(), self.answers.finish());
        let members = CollectedMembers {
            answers: self.members,
            scores: self.scores,
            classes: self.classes.finish(answers.len()),
        };
        let mut pairs = TokenizedPairs {
            known: Vec::new(),
            known_ends: Vec::with_capacity(questions.len()),
            questions,
            answers,
            classes: members.classes.clone(),
            rows: Vec::with_capacity(self.rows.len()),
            members: Vec::with_capacity(members.answers.len()),
            scores: Vec::with_capacity(members.scores.len()),
            false_negatives: 0,
            contexts: self.context.as_ref().map(|_| AnswerContexts {
                windows: self.windows.finish(),
                places: self.places,
            }),
            digest: String::new(),
        };
        members.add_known(&self.rows, &mut pairs);
        let mut start = 0;
        for row in &self.rows {
            members.add_row(start, row, &mut pairs);
            start = row.negatives_end;
        }
        if pairs.scores.iter().all(|score| score.is_nan()) {
            pairs.scores = Vec::new();
        }
        pairs.digest = digest(&pairs);
        Ok(pairs)
    }
}

/// The answers of all examples, as they came: equal ones are not yet left out.
struct CollectedMembers {
    /// Answers of all rows: positives, then negatives.
    answers: Vec<u32>,
    /// The score of each member.
    scores: Vec<f32>,
    /// The class of each answer.
    classes: Vec<u32>,
}

impl CollectedMembers {
    fn class(&self, answer: u32) -> u32 {
        self.classes.get(answer as usize).copied().unwrap_or(answer)
    }

    /// Answers with their scores.
    fn range(&self, from: u32, to: u32) -> impl Iterator<Item = (u32, f32)> {
        let places = from as usize..to as usize;
        let scores = self.scores.get(places.clone()).unwrap_or_default();
        let answers = self.answers.get(places).unwrap_or_default();
        answers.iter().copied().zip(scores.iter().copied())
    }

    /// Adds the classes that answer each question in any of its examples.
    fn add_known(&self, rows: &[PairRow], pairs: &mut TokenizedPairs) {
        let mut classes: Vec<Vec<u32>> = vec![Vec::new(); pairs.questions.len()];
        let mut start = 0;
        for row in rows {
            if let Some(classes) = classes.get_mut(row.question as usize) {
                classes.extend(
                    self.range(start, row.positives_end)
                        .map(|(answer, _)| self.class(answer)),
                );
            }
            start = row.negatives_end;
        }
        for classes in &mut classes {
            classes.sort_unstable();
            classes.dedup();
            pairs.known.extend_from_slice(classes);
            pairs.known_ends.push(pairs.known.len());
        }
    }

    /// Adds an example whose members begin at `start`: each class once, and no negative that answers the question.
    fn add_row(&self, start: u32, row: &PairRow, pairs: &mut TokenizedPairs) {
        let mut seen = Vec::new();
        for (answer, score) in self.range(start, row.positives_end) {
            self.add_member(answer, score, &mut seen, pairs);
        }
        let positives_end = pairs.members.len() as u32;
        for (answer, score) in self.range(row.positives_end, row.negatives_end) {
            if pairs.answers(row.question, answer) {
                pairs.false_negatives += 1;
            } else {
                self.add_member(answer, score, &mut seen, pairs);
            }
        }
        pairs.rows.push(PairRow {
            question: row.question,
            positives_end,
            negatives_end: pairs.members.len() as u32,
        });
    }

    /// Adds an answer unless one of its class is among those `seen` in the example.
    fn add_member(&self, answer: u32, score: f32, seen: &mut Vec<u32>, pairs: &mut TokenizedPairs) {
        let class = self.class(answer);
        if !seen.contains(&class) {
            seen.push(class);
            pairs.members.push(answer);
            pairs.scores.push(score);
        }
    }
}
