//! Ranking metrics under the rules of trec_eval 9 (`https://github.com/usnistgov/trec_eval`).
//!
//! | file | contents |
//! |---|---|
//! | `ranking.rs` | a query's hits in trec_eval's order, as grades |
//! | `measure.rs` | [`RankingMetric`]: each measure of one query, as a pure function |
//! | `evaluate.rs` | a whole run: per query and averaged |
//! | `significance.rs` | paired tests between two runs |
//!
//! The rules: hits are ordered by score descending and, where scores are equal, by document key *descending* in byte
//! order, whatever order the run has. A grade of 1 or more is relevant; unjudged documents are not. nDCG has linear
//! gain (the grade) and discount `log2(rank + 1)`. Precision divides by k even where fewer hits came back.

mod evaluate;
mod measure;
mod ranking;
mod significance;
#[cfg(test)]
mod tests;

pub use evaluate::{Average, Evaluation, drop_identical, evaluate};
pub use measure::RankingMetric;
pub use ranking::{GradedRanking, trec_order};
pub use significance::{
    Incomparable, PairedComparison, Sampling, bootstrap, compare, compare_values, randomisation_test,
};
