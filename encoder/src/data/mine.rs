//! Hard negatives by exact search: what a model ranks high for a question, and nothing known to answer it.

use std::collections::HashMap;

use crate::random::Random;
use dyad_corpus::examples::{Example, Passage};
use rayon::prelude::*;

use super::error::DataError;
use super::exact::{Ranked, best_answers};
use super::texts::halves;
use crate::config::Tower;
use crate::device::Compute;
use crate::error::Error;
use crate::model::{Model, VectorLength};
use crate::tokenize::{Budget, Tokens};

/// Examples that are embedded and searched at a time.
const WINDOW: usize = 1024;

/// How far below the score of the worst positive a negative must be; closer ones may well be answers that nobody judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// At least this much lower.
    pub absolute: f32,
    /// At most this share of it, as 0.95 (Moreira et al. 2024, positive-aware mining). 1 asks only that it is not higher.
    pub relative: f32,
}

/// Which negatives are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct MineOptions {
    /// First rank, from 0, among the candidates that are not known to answer.
    pub rank_start: usize,
    /// The end rank (exclusive).
    pub rank_end: usize,
    /// Negatives of each question.
    pub count: usize,
    /// `None`: any score will do.
    pub margin: Option<Margin>,
    /// Sample them from the window instead of taking the best.
    pub sample: bool,
    /// Seed of the sampling.
    pub seed: u64,
    /// Keep the negatives that an example already has, before the new ones and without the scores that they came with.
    pub keep: bool,
}

impl Default for MineOptions {
    /// Five at random from ranks 0 to 100, at most 95 % of the positive's score.
    fn default() -> Self {
        let margin = Some(Margin { absolute: 0.0, relative: 0.95 });
        Self { rank_start: 0, rank_end: 100, count: 5, margin, sample: true, seed: 0, keep: false }
    }
}

impl MineOptions {
    /// Refuses options that contradict each other.
    pub fn check(&self) -> Result<(), DataError> {
        let refuse = |what, expected: String, got: String| Err(DataError::Option { what, expected, got });
        if self.rank_start >= self.rank_end {
            return refuse("`rank-end`", format!("above `rank-start` {}", self.rank_start), self.rank_end.to_string());
        }
        if self.count == 0 || self.count > self.rank_end - self.rank_start {
            let expected = format!("between 1 and the {} ranks of the window", self.rank_end - self.rank_start);
            return refuse("the number of negatives", expected, self.count.to_string());
        }
        match self.margin {
            Some(margin) if !margin.absolute.is_finite() || margin.absolute < 0.0 => {
                refuse("the absolute margin", "0 or more".into(), margin.absolute.to_string())
            }
            Some(margin) if !(margin.relative > 0.0 && margin.relative <= 1.0) => {
                refuse("the relative margin", "above 0 and at most 1".into(), margin.relative.to_string())
            }
            _ => Ok(()),
        }
    }
}

/// Counts of a mining run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mined {
    /// Examples.
    pub examples: u64,
    /// Negatives found.
    pub negatives: u64,
    /// Examples with fewer than asked for.
    pub short: u64,
    /// Examples with none.
    pub without: u64,
}

/// Candidates, and what of them is known to answer which question.
pub trait Finder {
    /// Learns from an example what answers its question: candidates with the key or the text of a positive. To be told of all
    /// examples before mining, because another example of the same question may have other positives.
    fn know(&mut self, example: &Example);

    /// Scores the positives of some examples, and gives each its negatives, counted in `mined`.
    fn find(
        &self,
        window: &mut [Example],
        options: &MineOptions,
        go_on: &dyn Fn() -> bool,
        mined: &mut Mined,
    ) -> Result<(), DataError>;
}

/// Candidates with their vectors, searched exactly.
#[derive(Debug)]
pub struct Miner<'a> {
    encoder: &'a Model,
    budget: Budget,
    candidates: &'a [Passage],
    vectors: Vec<f32>,
    by_key: HashMap<&'a str, Vec<u32>>,
    by_text: HashMap<(u64, u64), Vec<u32>>,
    /// By the question's text.
    known: HashMap<(u64, u64), Vec<u32>>,
}

impl<'a> Miner<'a> {
    /// Embeds the candidates; `go_on` is asked between batches.
    pub fn new(
        encoder: &'a Model,
        budget: Budget,
        candidates: &'a [Passage],
        go_on: &dyn Fn() -> bool,
    ) -> Result<Self, DataError> {
        if candidates.is_empty() {
            return Err(DataError::Empty);
        }
        if candidates.len() > u32::MAX as usize {
            return Err(DataError::TooLarge { limit: u32::MAX });
        }
        let (mut by_key, mut by_text) = (HashMap::<&str, Vec<u32>>::new(), HashMap::<_, Vec<u32>>::new());
        for (number, passage) in (0u32..).zip(candidates) {
            if let Some(key) = passage.key.as_deref().filter(|key| !key.is_empty()) {
                by_key.entry(key).or_default().push(number);
            }
            by_text.entry(halves(passage.passage().as_bytes())).or_default().push(number);
        }
        let vectors = Vec::with_capacity(candidates.len() * encoder.info().dim);
        let mut miner = Self { encoder, budget, candidates, vectors, by_key, by_text, known: HashMap::new() };
        for window in candidates.chunks(8 * WINDOW) {
            let texts = window.iter().map(|passage| passage.passage().into_owned());
            let rows = embed(encoder, budget, Tower::Answer, texts, go_on)?;
            miner.vectors.extend(rows);
        }
        Ok(miner)
    }
}

impl Finder for Miner<'_> {
    fn know(&mut self, example: &Example) {
        let known = self.known.entry(question_key(example)).or_default();
        for positive in &example.positives {
            let by_key = positive.key.as_deref().and_then(|key| self.by_key.get(key));
            let by_text = self.by_text.get(&halves(positive.passage().as_bytes()));
            known.extend(by_key.into_iter().chain(by_text).flatten());
        }
        known.sort_unstable();
        known.dedup();
    }

    fn find(
        &self,
        window: &mut [Example],
        options: &MineOptions,
        go_on: &dyn Fn() -> bool,
        mined: &mut Mined,
    ) -> Result<(), DataError> {
        let dim = self.encoder.info().dim;
        let questions = score_positives(self.encoder, self.budget, window, go_on)?;
        let known = |example: &Example| self.known.get(&question_key(example)).map_or(&[][..], Vec::as_slice);
        let deepest = window.iter().map(|example| known(example).len()).max().unwrap_or(0);
        let device = Compute { device: self.encoder.info().device, ..Compute::default() }.torch_device();
        let best = best_answers(&questions, &self.vectors, dim, options.rank_end + deepest, device)?;
        for (example, best) in window.iter_mut().zip(&best) {
            let known = known(example);
            settle(example, self.candidates, best, known, options, mined);
        }
        Ok(())
    }
}

/// Finds negatives for each example, and gives the examples in their order to `sink`, with the model's cosine as the score of
/// every positive and every negative that was found. A window of examples is held at a time; `go_on` is asked between batches.
pub fn mine<E>(
    finder: &dyn Finder,
    examples: impl IntoIterator<Item = Result<Example, E>>,
    options: &MineOptions,
    go_on: &dyn Fn() -> bool,
    mut sink: impl FnMut(Example) -> Result<(), DataError>,
) -> Result<Mined, DataError>
where
    DataError: From<E>,
{
    options.check()?;
    let mut examples = examples.into_iter();
    let mut mined = Mined::default();
    loop {
        let mut window = examples.by_ref().take(WINDOW).collect::<Result<Vec<Example>, E>>()?;
        if window.is_empty() {
            return Ok(mined);
        }
        finder.find(&mut window, options, go_on, &mut mined)?;
        window.into_iter().try_for_each(&mut sink)?;
    }
}

/// Gives every positive the cosine of its question; the vectors of the questions, row-major.
pub(super) fn score_positives(
    encoder: &Model,
    budget: Budget,
    window: &mut [Example],
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<f32>, DataError> {
    let dim = encoder.info().dim;
    let questions = window.iter().map(|example| example.question.trim().to_owned());
    let questions = embed(encoder, budget, Tower::Question, questions, go_on)?;
    let positives: Vec<&Passage> = window.iter().flat_map(|example| &example.positives).collect();
    let positives = positives.into_iter().map(|passage| passage.passage().into_owned());
    let positives = embed(encoder, budget, Tower::Answer, positives, go_on)?;
    let mut positives = positives.chunks_exact(dim);
    for (example, question) in window.iter_mut().zip(questions.chunks_exact(dim)) {
        for positive in &mut example.positives {
            positive.score = positives.next().map(|vector| dot(question, vector));
        }
    }
    Ok(questions)
}

fn embed(
    encoder: &Model,
    budget: Budget,
    tower: Tower,
    texts: impl Iterator<Item = String>,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<f32>, DataError> {
    let (tokenizer, texts) = (encoder.tokenizer(), texts.collect::<Vec<String>>());
    let tokens: Result<Vec<Tokens>, Error> = texts.par_iter().map(|text| tokenizer.encode(tower, text)).collect();
    encoder.embed_while(tower, &tokens?, VectorLength::Unit, budget, |_| go_on())?.ok_or(DataError::Interrupted)
}

/// Gives an example, whose positives have their scores, its negatives among the best of `candidates`, and counts them.
pub(super) fn settle(
    example: &mut Example,
    candidates: &[Passage],
    best: &[Ranked],
    known: &[u32],
    options: &MineOptions,
    mined: &mut Mined,
) {
    let answers = |ranked: &&Ranked| {
        candidates.get(ranked.answer as usize).is_some_and(|candidate| contains_positive(example, candidate))
    };
    // Not among `known`, which come from keys and whole texts.
    let containing: Vec<u32> = best.iter().filter(answers).map(|ranked| ranked.answer).collect();
    let found = select(example, best, &[known, &containing].concat(), mined.examples, options);
    mined.examples += 1;
    mined.negatives += found.len() as u64;
    mined.short += u64::from(found.len() < options.count);
    mined.without += u64::from(found.is_empty());
    if options.keep {
        // A teacher's scores are of another scale than the cosines next to them.
        example.negatives.iter_mut().for_each(|kept| kept.score = None);
    } else {
        example.negatives.clear();
    }
    let passage = |ranked: &Ranked| {
        let passage = candidates.get(ranked.answer as usize)?;
        Some(Passage { score: Some(ranked.score), ..passage.clone() })
    };
    example.negatives.extend(found.iter().filter_map(passage));
}

/// Whether a candidate holds the text of a positive: a paragraph around an answer answers as well.
fn contains_positive(example: &Example, candidate: &Passage) -> bool {
    let mut texts = example.positives.iter().map(|positive| positive.text.trim());
    texts.any(|text| !text.is_empty() && candidate.text.contains(text))
}

pub(super) fn question_key(example: &Example) -> (u64, u64) {
    halves(example.question.trim().as_bytes())
}

/// The negatives of one example among its best candidates: inside the window of ranks and below the margin.
fn select(example: &Example, best: &[Ranked], known: &[u32], number: u64, options: &MineOptions) -> Vec<Ranked> {
    let worst = example.positives.iter().filter_map(|positive| positive.score).fold(f32::INFINITY, f32::min);
    let limit = options.margin.map_or(f32::INFINITY, |margin| {
        // A share of a negative score would lie above it.
        let relative = if worst > 0.0 { worst * margin.relative } else { worst };
        relative.min(worst - margin.absolute)
    });
    let unknown = best.iter().copied().filter(|ranked| !known.contains(&ranked.answer));
    let window = unknown.skip(options.rank_start).take(options.rank_end - options.rank_start);
    let mut found: Vec<Ranked> = window.filter(|ranked| ranked.score <= limit).collect();
    if options.sample {
        let mut random = Random::of(&[options.seed, number]);
        random.shuffle(&mut found);
        found.truncate(options.count);
        found.sort_unstable_by(|one, other| other.score.total_cmp(&one.score).then(one.answer.cmp(&other.answer)));
    }
    found.truncate(options.count);
    found
}

fn dot(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ranked(scores: &[f32]) -> Vec<Ranked> {
        (0u32..).zip(scores).map(|(answer, &score)| Ranked { answer, score }).collect()
    }

    fn example(score: f32) -> Example {
        let positive = Passage { score: Some(score), ..Passage::of("a") };
        Example { question: "q".into(), positives: vec![positive], ..Example::default() }
    }

    fn rows(found: &[Ranked]) -> Vec<u32> {
        found.iter().map(|ranked| ranked.answer).collect()
    }

    #[test]
    fn a_paragraph_around_a_positive_is_no_negative() {
        let texts = ["It is old. Oslo is the capital. It rains.", "Oslo is a town.", " Oslo is the capital. "];
        let candidates = texts.map(|text| Passage { key: Some(text.len().to_string()), ..Passage::of(text) });
        let positive = Passage { score: Some(0.9), ..Passage::of("Oslo is the capital.") };
        let mut example = Example { question: "q".into(), positives: vec![positive], ..Example::default() };
        let options = MineOptions { margin: None, sample: false, count: 3, ..MineOptions::default() };
        let mut mined = Mined::default();
        settle(&mut example, &candidates, &ranked(&[0.8, 0.7, 0.6]), &[], &options, &mut mined);
        let negatives: Vec<&str> = example.negatives.iter().map(|negative| negative.text.as_str()).collect();
        assert_eq!((negatives, mined.short), (vec!["Oslo is a town."], 1));
        // A positive without text is in none.
        example.positives = vec![Passage { score: Some(0.9), ..Passage::of("") }];
        settle(&mut example, &candidates, &ranked(&[0.8, 0.7, 0.6]), &[], &options, &mut mined);
        assert_eq!(example.negatives.len(), 3);
    }

    #[test]
    fn the_window_counts_what_is_not_known_to_answer() {
        let best = ranked(&[0.9, 0.8, 0.7, 0.6, 0.5, 0.4]);
        let of = |rank_start, rank_end, count| MineOptions {
            rank_start,
            rank_end,
            count,
            margin: None,
            sample: false,
            ..MineOptions::default()
        };
        let known = [0, 2];
        assert_eq!(rows(&select(&example(0.9), &best, &known, 0, &of(0, 3, 3))), [1, 3, 4]);
        assert_eq!(rows(&select(&example(0.9), &best, &known, 0, &of(1, 3, 1))), [3]);
        assert_eq!(rows(&select(&example(0.9), &best, &known, 0, &of(2, 9, 5))), [4, 5]);
    }

    #[test]
    fn a_mined_example_has_scores_of_one_scale() {
        let kept = Passage { score: Some(11.5), ..Passage::of("kept") };
        let candidates = [Passage::of("a"), Passage { score: Some(7.0), ..Passage::of("found") }];
        let options = MineOptions { keep: true, count: 1, margin: None, sample: false, ..MineOptions::default() };
        let mut example = Example { negatives: vec![kept], ..example(0.9) };
        settle(&mut example, &candidates, &ranked(&[0.8, 0.7]), &[0], &options, &mut Mined::default());
        let negatives: Vec<_> =
            example.negatives.iter().map(|passage| (passage.text.as_str(), passage.score)).collect();
        assert_eq!(negatives, [("kept", None), ("found", Some(0.7))]);
    }

    #[test]
    fn what_lies_too_close_to_the_positive_is_left_out() {
        let best = ranked(&[0.9, 0.8, 0.7, 0.6]);
        let of = |absolute, relative| MineOptions {
            margin: Some(Margin { absolute, relative }),
            sample: false,
            ..MineOptions::default()
        };
        let none = [];
        assert_eq!(rows(&select(&example(0.8), &best, &none, 0, &of(0.0, 1.0))), [1, 2, 3]);
        assert_eq!(rows(&select(&example(0.8), &best, &none, 0, &of(0.15, 1.0))), [3]);
        assert_eq!(rows(&select(&example(0.8), &best, &none, 0, &of(0.0, 0.9))), [2, 3]);
        let below = ranked(&[-0.1, -0.3]);
        assert_eq!(rows(&select(&example(-0.2), &below, &none, 0, &of(0.0, 0.9))), [1]);
    }

    #[test]
    fn a_seed_draws_the_same_and_every_rank_can_come() {
        let best = ranked(&[0.5, 0.4, 0.3, 0.2]);
        let options = MineOptions { rank_start: 1, rank_end: 4, count: 2, margin: None, ..MineOptions::default() };
        let none = [];
        let draw = |number| rows(&select(&example(0.9), &best, &none, number, &options));
        assert_eq!(draw(3), draw(3));
        let all: HashSet<Vec<u32>> = (0..60).map(draw).collect();
        assert_eq!(all, HashSet::from([vec![1, 2], vec![1, 3], vec![2, 3]]), "best first");
    }

    #[test]
    fn contradictions_are_refused() {
        let refusal = |options: MineOptions| options.check().unwrap_err().to_string();
        let default = MineOptions::default;
        assert_eq!(
            refusal(MineOptions { rank_start: 9, rank_end: 9, ..default() }),
            "`rank-end` must be above `rank-start` 9, got: 9"
        );
        assert_eq!(
            refusal(MineOptions { rank_start: 8, rank_end: 12, ..default() }),
            "the number of negatives must be between 1 and the 4 ranks of the window, got: 5"
        );
        let margin = |absolute, relative| MineOptions { margin: Some(Margin { absolute, relative }), ..default() };
        assert!(refusal(margin(-0.1, 1.0)).starts_with("the absolute margin must be 0 or more"));
        assert!(refusal(margin(0.0, 0.0)).starts_with("the relative margin must be above 0"));
        assert!(refusal(margin(0.0, f32::NAN)).contains("got: NaN"));
        assert!(default().check().is_ok());
    }
}
