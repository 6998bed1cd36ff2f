//! Learns method and weights of the fusion from judged questions: a grid, judged by nDCG@10 under cross-validation.
//!
//! [`FusionMethod::Rrf`] is not tried: it looks at ranks alone, and would lose the only document that holds a rare
//! word, of which judged questions have few. On none of four sets was it the best (`benches/records/fusion/README.md`,
//! "Other functions"). For the same reason both rankings keep some of the weight.

use std::collections::{BTreeMap, HashMap};

use dyad_corpus::metrics::{GradedRanking, RankingMetric};
use dyad_index::FusionMethod;
use dyad_index::snapshot::DocumentHit;
use rayon::prelude::*;

use super::{Bm25Ranking, Fusion};

/// What is maximised.
pub const METRIC: RankingMetric = RankingMetric::Ndcg(10);
/// Hits that the metric looks at.
const DEPTH: usize = 10;
/// Steps between weight 0 and weight 1.
const STEPS: u32 = 20;
/// Largest weight of log odds that is tried: of larger ones too little of BM25 is left for some names in questions
/// (`deploy/tests/rare_words.py`).
const MOST_OF_LOG_ODDS: f64 = 0.8;
/// Weights of a document's BM25 in the scores of its passages that are tried, where an index has documents: the default
/// first.
pub const DOCUMENT_WEIGHTS: [f64; 5] = [1.0, 0.0, 0.3, 0.6, 2.0];
/// Parts of the questions; each is judged with what the others have taught.
pub const FOLDS: usize = 5;

/// A judged question, its two rankings, and both scores of every document of theirs.
#[derive(Debug, Clone, Default)]
pub struct Example {
    /// Nearest vectors, best first.
    pub dense: Vec<DocumentHit>,
    /// BM25, best first.
    pub bm25: Vec<DocumentHit>,
    /// The exactness of each hit of BM25, as in [`Bm25Ranking::exactness`].
    pub exactness: Vec<f32>,
    /// All documents of both by their dense scores from 0 to 1, as [`FusionMethod::MinMax`] adds them.
    pub bounded_dense: Vec<DocumentHit>,
    /// The same by BM25.
    pub bounded_bm25: Vec<DocumentHit>,
    /// Exactness of each of these.
    pub bounded_exactness: Vec<f32>,
    /// Keys of all hits, by shard and node.
    pub keys: HashMap<(usize, u32), String>,
    /// A document that is left out of the fused ranking, as the question itself where questions are documents.
    pub left_out: Option<String>,
    /// Grades of the documents that answer.
    pub judgements: BTreeMap<String, i32>,
}

/// What was learned, and nDCG@10 of every question by each ranking.
#[derive(Debug, Clone, PartialEq)]
pub struct Learned {
    /// Best on all questions; the default, where cross-validation finds nothing better.
    pub fusion: Fusion,
    /// The dense ranking alone.
    pub dense: Vec<f64>,
    /// BM25 alone.
    pub bm25: Vec<f64>,
    /// The default fusion.
    pub default: Vec<f64>,
    /// Each question fused as the questions of the other folds suggest.
    pub cross_validated: Vec<f64>,
}

impl Example {
    fn key(&self, hit: &DocumentHit) -> &str {
        self.keys.get(&(hit.shard, hit.node)).map_or("", String::as_str)
    }

    fn value(&self, hits: &[DocumentHit]) -> f64 {
        // By place: scores may tie once they are rounded to f32.
        let keys = hits
            .iter()
            .map(|hit| self.key(hit))
            .filter(|key| self.left_out.as_deref() != Some(*key));
        let ranked = keys
            .take(DEPTH)
            .enumerate()
            .map(|(at, key)| (key.to_owned(), -(at as f32)));
        METRIC.compute(&GradedRanking::new(&ranked.collect::<Vec<_>>(), &self.judgements))
    }

    /// By the rankings of the fusion's document weight.
    fn fused(&self, fusion: &Fusion) -> f64 {
        let (dense, bm25) = match fusion.method {
            FusionMethod::Rrf | FusionMethod::WeightedSum | FusionMethod::LogOdds => (
                &self.dense,
                Bm25Ranking {
                    hits: &self.bm25,
                    exactness: &self.exactness,
                },
            ),
            FusionMethod::MinMax => {
                let bm25 = Bm25Ranking {
                    hits: &self.bounded_bm25,
                    exactness: &self.bounded_exactness,
                };
                (&self.bounded_dense, bm25)
            }
        };
        // One more, which may be left out: what it does to the rankings is as in a search.
        self.value(&fusion.fuse(dense, bm25, DEPTH + 1, |hit| self.key(hit)))
    }
}

/// What was tried, and nDCG@10 of every question by it.
#[derive(Debug)]
pub struct Trials {
    /// The fusion of the index where nothing is learned.
    own: Fusion,
    tried: Vec<(Fusion, Vec<f64>)>,
    dense: Vec<f64>,
    bm25: Vec<f64>,
    default: Vec<f64>,
}

impl Trials {
    /// For an index whose default this is: log odds are tried where it has a logit scale.
    pub fn new(own: Fusion) -> Self {
        let (tried, dense, bm25, default) = Default::default();
        Self {
            own,
            tried,
            dense,
            bm25,
            default,
        }
    }

    /// Tries the methods that add scores, with weights 0.05, 0.1, ..., 0.95, on rankings that were made with this
    /// document weight: first with the default. The questions are the same in each call.
    pub fn add(&mut self, document_weight: f64, examples: &[Example]) {
        let values =
            |fusion: &Fusion| -> Vec<f64> { examples.par_iter().map(|example| example.fused(fusion)).collect() };
        if self.tried.is_empty() {
            self.dense = examples
                .par_iter()
                .map(|example| example.value(&example.dense))
                .collect();
            self.bm25 = examples
                .par_iter()
                .map(|example| example.value(&example.bm25))
                .collect();
            self.default = values(&self.own);
        }
        let of_weight = grid(self.own).into_iter().map(|fusion| Fusion {
            document_weight,
            ..fusion
        });
        self.tried.extend(of_weight.map(|fusion| (fusion, values(&fusion))));
    }

    /// The best. Equal means: the document weight that was tried first, then the method of the default, then the weight
    /// nearest to that of the method.
    pub fn learned(self) -> Learned {
        let Self {
            own,
            tried,
            dense,
            bm25,
            default,
        } = self;
        let cross_validated = cross_validated(&tried, default.len());
        let better = cross_validated.iter().sum::<f64>() > default.iter().sum::<f64>();
        let fusion = best(&tried, |_| true)
            .filter(|_| better)
            .map_or(own, |(fusion, _)| *fusion);
        Learned {
            fusion,
            dense,
            bm25,
            default,
            cross_validated,
        }
    }
}

/// The value of each question by what was best on the other folds.
fn cross_validated(tried: &[(Fusion, Vec<f64>)], questions: usize) -> Vec<f64> {
    let mut values = vec![0.0; questions];
    for fold in 0..FOLDS {
        let Some((_, of_best)) = best(tried, |number| number % FOLDS != fold) else {
            continue;
        };
        for (number, value) in values.iter_mut().enumerate().skip(fold).step_by(FOLDS) {
            *value = of_best.get(number).copied().unwrap_or_default();
        }
    }
    values
}

/// All that is tried in an index whose default this is, what is to be preferred first.
fn grid(own: Fusion) -> Vec<Fusion> {
    let log_odds = own.logit_scale.map(|_| FusionMethod::LogOdds);
    log_odds
        .into_iter()
        .chain([FusionMethod::WeightedSum, FusionMethod::MinMax])
        .flat_map(|method| weighted(own.by(method)))
        .collect()
}

/// A method with all weights that are tried, the nearest to its default first.
fn weighted(default: Fusion) -> Vec<Fusion> {
    let mut weights: Vec<f64> = (1..STEPS).map(|step| f64::from(step) / f64::from(STEPS)).collect();
    weights.retain(|weight| default.method != FusionMethod::LogOdds || *weight <= MOST_OF_LOG_ODDS);
    let distance = |weight: &f64| (weight - default.dense_weight).abs();
    weights.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
    let weighted = weights.into_iter().map(|dense_weight| Fusion {
        dense_weight,
        ..default
    });
    weighted.collect()
}

/// The first with the highest sum over some of the questions.
fn best(tried: &[(Fusion, Vec<f64>)], counts: impl Fn(usize) -> bool) -> Option<&(Fusion, Vec<f64>)> {
    let sum = |values: &[f64]| {
        values
            .iter()
            .enumerate()
            .filter(|(at, _)| counts(*at))
            .map(|(_, value)| value)
            .sum::<f64>()
    };
    let mut best: Option<(f64, &(Fusion, Vec<f64>))> = None;
    for one in tried {
        let sum = sum(&one.1);
        if best.is_none_or(|(highest, _)| sum > highest) {
            best = Some((sum, one));
        }
    }
    best.map(|(_, one)| one)
}

#[cfg(test)]
mod tests;
