//! Training data: tokenized examples in compact memory, and resumable batches of them.
//!
//! ```text
//! examples (dyad-corpus) -> Pairs -> Sampler(seed, cursor) -> collate ==Prefetch==> TrainBatch
//! ```
//!
//! A batch is a function of the pairs, the sampler's options and a cursor: nothing else needs to be kept to go on.
//!
//! | file | what |
//! |---|---|
//! | `texts.rs` | token ids of many texts in one buffer, each text once |
//! | `pairs.rs` | [`TokenizedPairs`]: questions, answers, who answers what |
//! | `context.rs` | [`ExampleContext`]: the documents in which passages stand |
//! | `build.rs` | [`PairsBuilder`]: examples to pairs |
//! | `answer_classes.rs` | which answers are alike |
//! | `digest.rs` | the digest of pairs |
//! | `plan.rs` | the order of one epoch: batches without equal answers |
//! | `repair.rs` | swaps between its batches |
//! | `sampler.rs` | [`Sampler`]: positives and negatives sampled by seed; its cursor |
//! | `collate.rs` | [`TrainBatch`]: tokens, mask, teacher's scores |
//! | `prefetch.rs` | [`Prefetch`]: a thread that works ahead |
//! | `mine.rs` | hard negatives by exact search |
//! | `mine_served.rs` | the same from a published index, by its searcher |
//! | `negatives.rs` | which of the ranked candidates become negatives |
//! | `mine_file.rs` | both from file to file |
//! | `score_file.rs` | a cross encoder's scores, from file to file |
//! | `exact.rs` | the best answers of each question, a block at a time |
//! | `error.rs` | why there is no batch |

mod answer_classes;
mod build;
mod collate;
mod context;
mod digest;
mod error;
mod exact;
mod mine;
mod mine_file;
mod mine_served;
mod negatives;
mod pairs;
mod plan;
mod prefetch;
mod repair;
mod sampler;
mod score_file;
#[cfg(test)]
mod tests;
mod texts;

pub use build::{PairOptions, PairsBuilder};
pub use collate::{TrainBatch, collate};
pub use context::ExampleContext;
pub use error::DataError;
pub use exact::{RankedAnswer, best_answers};
pub use mine::{Finder, MiningEncoder, NegativeMiner, mine};
pub use mine_file::{MinedFile, NegativeCandidates, OpenExamples, mine_file};
pub use mine_served::ServedMiner;
pub use negatives::{Margin, MineOptions, Mined};
pub use pairs::TokenizedPairs;
pub use prefetch::Prefetch;
pub use sampler::{Cursor, Draw, Last, Sampler, SamplerOptions, SamplerState};
pub use score_file::{ScoredFile, score_file};
