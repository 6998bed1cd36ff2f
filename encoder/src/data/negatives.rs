//! Which of the candidates that a model ranks high become a question's hard negatives.

use dyad_corpus::examples::{Passage, TrainingExample};

use super::error::DataError;
use super::exact::RankedAnswer;
use crate::random::Random;

/// How far below the score of the worst positive a negative must be; closer ones may well be answers that nobody
/// judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin {
    /// At least this much lower.
    pub absolute: f32,
    /// At most this share of it, as 0.95 (Moreira et al. 2024, positive-aware mining). 1 asks only that it is not
    /// higher.
    pub relative: f32,
}

/// Which negatives are taken.
#[derive(Debug, Clone, PartialEq)]
pub struct MineOptions {
    /// First rank, from 0, among the candidates that are not known to answer.
    pub rank_start: usize,
    /// The rank at which the window of candidates ends (exclusive).
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
        let margin = Some(Margin {
            absolute: 0.0,
            relative: 0.95,
        });
        Self {
            rank_start: 0,
            rank_end: 100,
            count: 5,
            margin,
            sample: true,
            seed: 0,
            keep: false,
        }
    }
}

impl MineOptions {
    /// Refuses options that contradict each other.
    pub fn check(&self) -> Result<(), DataError> {
        let refuse = |what, expected: String, got: String| Err(DataError::Option { what, expected, got });
        if self.rank_start >= self.rank_end {
            return refuse(
                "`rank-end`",
                format!("above `rank-start` {}", self.rank_start),
                self.rank_end.to_string(),
            );
        }
        if self.count == 0 || self.count > self.rank_end - self.rank_start {
            let expected = format!(
                "between 1 and the {} ranks of the window",
                self.rank_end - self.rank_start
            );
            return refuse("the number of negatives", expected, self.count.to_string());
        }
        match self.margin {
            Some(margin) if !margin.absolute.is_finite() || margin.absolute < 0.0 => {
                refuse("the absolute margin", "0 or more".into(), margin.absolute.to_string())
            }
            Some(margin) if !(margin.relative > 0.0 && margin.relative <= 1.0) => refuse(
                "the relative margin",
                "above 0 and at most 1".into(),
                margin.relative.to_string(),
            ),
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

/// Gives an example, whose positives have their scores, its negatives among the best of `candidates`, and counts them.
pub(super) fn add_negatives(
    example: &mut TrainingExample,
    candidates: &[Passage],
    best: &[RankedAnswer],
    known: &[u32],
    options: &MineOptions,
    mined: &mut Mined,
) {
    let answers = |ranked: &&RankedAnswer| {
        candidates
            .get(ranked.answer as usize)
            .is_some_and(|candidate| contains_positive(example, candidate))
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
    for ranked in found {
        if let Some(passage) = candidates.get(ranked.answer as usize) {
            example.negatives.push(Passage {
                score: Some(ranked.score),
                ..passage.clone()
            });
        }
    }
}

/// Whether a candidate holds the text of a positive: a paragraph around an answer answers as well.
fn contains_positive(example: &TrainingExample, candidate: &Passage) -> bool {
    let mut texts = example.positives.iter().map(|positive| positive.text.trim());
    texts.any(|text| !text.is_empty() && candidate.text.contains(text))
}

/// The negatives of one example among its best candidates: inside the window of ranks and below the margin.
fn select(
    example: &TrainingExample,
    best: &[RankedAnswer],
    known: &[u32],
    number: u64,
    options: &MineOptions,
) -> Vec<RankedAnswer> {
    let worst = example
        .positives
        .iter()
        .filter_map(|positive| positive.score)
        .fold(f32::INFINITY, f32::min);
    let limit = options.margin.map_or(f32::INFINITY, |margin| {
        // A share of a negative score would lie above it.
        let relative = if worst > 0.0 { worst * margin.relative } else { worst };
        relative.min(worst - margin.absolute)
    });
    let unknown = best.iter().copied().filter(|ranked| !known.contains(&ranked.answer));
    let window = unknown
        .skip(options.rank_start)
        .take(options.rank_end - options.rank_start);
    let mut found: Vec<RankedAnswer> = window.filter(|ranked| ranked.score <= limit).collect();
    if options.sample {
        let mut random = Random::of(&[options.seed, number]);
        random.shuffle(&mut found);
        found.truncate(options.count);
        found.sort_unstable_by(|one, other| other.score.total_cmp(&one.score).then(one.answer.cmp(&other.answer)));
    }
    found.truncate(options.count);
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn ranked(scores: &[f32]) -> Vec<RankedAnswer> {
        (0u32..)
            .zip(scores)
            .map(|(answer, &score)| RankedAnswer { answer, score })
            .collect()
    }

    fn example(score: f32) -> TrainingExample {
        let positive = Passage {
            score: Some(score),
            ..Passage::from_text("a")
        };
        TrainingExample {
            question: "q".into(),
            positives: vec![positive],
            ..TrainingExample::default()
        }
    }

    fn rows(found: &[RankedAnswer]) -> Vec<u32> {
        found.iter().map(|ranked| ranked.answer).collect()
    }

    #[test]
    fn a_paragraph_around_a_positive_is_no_negative() {
        let texts = [
            "It is old. Oslo is the capital. It rains.",
            "Oslo is a town.",
            " Oslo is the capital. ",
        ];
        let candidates = texts.map(|text| Passage {
            key: Some(text.len().to_string()),
            ..Passage::from_text(text)
        });
        let positive = Passage {
            score: Some(0.9),
            ..Passage::from_text("Oslo is the capital.")
        };
        let mut example = TrainingExample {
            question: "q".into(),
            positives: vec![positive],
            ..TrainingExample::default()
        };
        let options = MineOptions {
            margin: None,
            sample: false,
            count: 3,
            ..MineOptions::default()
        };
        let mut mined = Mined::default();
        add_negatives(
            &mut example,
            &candidates,
            &ranked(&[0.8, 0.7, 0.6]),
            &[],
            &options,
            &mut mined,
        );
        let negatives: Vec<&str> = example
            .negatives
            .iter()
            .map(|negative| negative.text.as_str())
            .collect();
        assert_eq!((negatives, mined.short), (vec!["Oslo is a town."], 1));
        // A positive without text is in none.
        example.positives = vec![Passage {
            score: Some(0.9),
            ..Passage::from_text("")
        }];
        add_negatives(
            &mut example,
            &candidates,
            &ranked(&[0.8, 0.7, 0.6]),
            &[],
            &options,
            &mut mined,
        );
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
        let kept = Passage {
            score: Some(11.5),
            ..Passage::from_text("kept")
        };
        let candidates = [
            Passage::from_text("a"),
            Passage {
                score: Some(7.0),
                ..Passage::from_text("found")
            },
        ];
        let options = MineOptions {
            keep: true,
            count: 1,
            margin: None,
            sample: false,
            ..MineOptions::default()
        };
        let mut example = TrainingExample {
            negatives: vec![kept],
            ..example(0.9)
        };
        add_negatives(
            &mut example,
            &candidates,
            &ranked(&[0.8, 0.7]),
            &[0],
            &options,
            &mut Mined::default(),
        );
        let negatives: Vec<_> = example
            .negatives
            .iter()
            .map(|passage| (passage.text.as_str(), passage.score))
            .collect();
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
        let options = MineOptions {
            rank_start: 1,
            rank_end: 4,
            count: 2,
            margin: None,
            ..MineOptions::default()
        };
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
            refusal(MineOptions {
                rank_start: 9,
                rank_end: 9,
                ..default()
            }),
            "`rank-end` must be above `rank-start` 9, got: 9"
        );
        assert_eq!(
            refusal(MineOptions {
                rank_start: 8,
                rank_end: 12,
                ..default()
            }),
            "the number of negatives must be between 1 and the 4 ranks of the window, got: 5"
        );
        let margin = |absolute, relative| MineOptions {
            margin: Some(Margin { absolute, relative }),
            ..default()
        };
        assert!(refusal(margin(-0.1, 1.0)).starts_with("the absolute margin must be 0 or more"));
        assert!(refusal(margin(0.0, 0.0)).starts_with("the relative margin must be above 0"));
        assert!(refusal(margin(0.0, f32::NAN)).contains("got: NaN"));
        assert!(default().check().is_ok());
    }
}
