//! Each measure of one query as a pure function of its ranking.
use std::fmt;

use super::ranking::GradedRanking;

/// A ranking metric. Values are in 0..=1, larger is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RankingMetric {
    /// One over the rank of the first relevant hit (trec_eval: `recip_rank`); its mean is MRR.
    ReciprocalRank,
    /// The same, 0 where that rank is beyond k (MS MARCO's MRR@10; not in trec_eval).
    ReciprocalRankAt(usize),
    /// Relevant hits among the first k, divided by k (`P_k`).
    Precision(usize),
    /// Relevant hits among the first k, divided by all relevant documents (`recall_k`).
    Recall(usize),
    /// Discounted cumulative gain of the first k, divided by that of an ideal ranking (`ndcg_cut_k`; Järvelin and
    /// Kekäläinen 2002, linear gain).
    Ndcg(usize),
    /// Mean over the relevant documents of the precision at their rank, 0 for those not returned (`map` once averaged).
    AveragePrecision,
    /// 1 where a relevant hit is among the first k (`success_k`).
    Success(usize),
}

impl RankingMetric {
    /// The metric's value for one query; 0 where no document is relevant.
    pub fn compute(self, ranking: &GradedRanking) -> f64 {
        let relevant = ranking.ideal.len();
        match self {
            Self::ReciprocalRank => reciprocal_rank(&ranking.grades),
            Self::ReciprocalRankAt(k) => reciprocal_rank(first(&ranking.grades, k)),
            Self::Precision(k) => ratio(relevant_hits(first(&ranking.grades, k)), k),
            Self::Recall(k) => ratio(relevant_hits(first(&ranking.grades, k)), relevant),
            Self::Ndcg(k) => {
                let ideal = discounted_gain(first(&ranking.ideal, k));
                if ideal > 0.0 {
                    discounted_gain(first(&ranking.grades, k)) / ideal
                } else {
                    0.0
                }
            }
            Self::AveragePrecision => average_precision(&ranking.grades, relevant),
            Self::Success(k) => f64::from(u8::from(relevant_hits(first(&ranking.grades, k)) > 0)),
        }
    }
}

/// trec_eval's names; `recip_rank_k` in its style for the cut form that it does not have.
impl fmt::Display for RankingMetric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReciprocalRank => formatter.write_str("recip_rank"),
            Self::ReciprocalRankAt(k) => write!(formatter, "recip_rank_{k}"),
            Self::Precision(k) => write!(formatter, "P_{k}"),
            Self::Recall(k) => write!(formatter, "recall_{k}"),
            Self::Ndcg(k) => write!(formatter, "ndcg_cut_{k}"),
            Self::AveragePrecision => formatter.write_str("map"),
            Self::Success(k) => write!(formatter, "success_{k}"),
        }
    }
}

fn first(grades: &[i32], k: usize) -> &[i32] {
    grades.get(..k).unwrap_or(grades)
}

fn relevant_hits(grades: &[i32]) -> usize {
    grades.iter().filter(|&&grade| grade > 0).count()
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn reciprocal_rank(grades: &[i32]) -> f64 {
    grades
        .iter()
        .position(|&grade| grade > 0)
        .map_or(0.0, |index| 1.0 / (index + 1) as f64)
}

fn discounted_gain(grades: &[i32]) -> f64 {
    let gains = grades
        .iter()
        .enumerate()
        .map(|(index, &grade)| f64::from(grade.max(0)) / ((index + 2) as f64).log2());
    // The sum of no numbers is -0.
    gains.sum::<f64>() + 0.0
}

fn average_precision(grades: &[i32], relevant: usize) -> f64 {
    let mut hits = 0;
    let mut sum = 0.0;
    for (index, _) in grades.iter().enumerate().filter(|(_, grade)| **grade > 0) {
        hits += 1;
        sum += ratio(hits, index + 1);
    }
    if relevant == 0 { 0.0 } else { sum / relevant as f64 }
}
