//! Builds one shard's graph: from vectors to a certified graph whose nodes are all reachable.
//!
//! | file | contents |
//! |---|---|
//! | `pipeline.rs` | all steps in their order |
//! | `graph.rs` | the `GraphBuilder` trait and its parameters |
//! | `graph_config.rs` | how the graphs of an index are built, as one value |
//! | `choice.rs` | the builders by name |
//! | `initial.rs` | the graph of an existing shard, from which a build starts |
//! | `native/` | our own builder |
//! | `hnsw_rs.rs` | the `hnsw_rs` crate as a builder |
//! | `encode.rs` | rows -> codes |
//! | `lengths.rs` | codes for a graph of inner products, with lengths evened out in part |
//! | `code_scores.rs` | scores of any two rows by their int8 codes |
//! | `freeze.rs` | a builder's lists -> layers |
//! | `select.rs` | which links a full node keeps |
//! | `repair.rs` | makes all nodes reachable |
//! | `recall_gate.rs` | how the finished graph is measured, and the recall that it must reach |
//! | `questions.rs` | questions read from files |
//! | `certify.rs` | recall and cost of the finished graph |
//! | `certify_questions.rs` | the questions that it is measured by, and their exact nearest |
//! | `calibration.rs` | scores of its questions by rank, from which margins are made |
//! | `far_questions.rs` | questions that are unlike documents |
//! | `certify_filtered.rs` | the same through filters |
//! | `certify_live.rs` | all of these for a shard with deleted documents |
//! | `live_search.rs` | searches of such a shard, and what they find |
//! | `recall.rs` | share of the exact hits that is found |
//! | `served.rs` | vectors as they will be stored, for the certificate |
//! | `validate.rs` | checks of a vector before it is indexed |
//! | `order.rs` | seeded orders and samples |

pub mod calibration;
pub mod certify;
mod certify_filtered;
pub mod certify_live;
pub mod certify_questions;
pub mod choice;
mod code_scores;
mod copies;
pub mod encode;
mod far_questions;
pub mod freeze;
pub mod graph;
mod graph_config;
pub mod hnsw_rs;
pub mod initial;
mod lengths;
mod live_search;
pub mod native;
pub mod order;
pub mod pipeline;
pub mod questions;
mod recall;
pub mod recall_gate;
pub mod repair;
pub mod select;
mod served;
pub mod validate;

pub use certify::certify;
pub use certify_live::{certify_live, nearest_of, stored_ground_truth};
pub use choice::BuilderKind;
pub use freeze::freeze;
pub use graph::{BuildInput, BuildParams, GraphBuilder};
pub use graph_config::GraphConfig;
pub use initial::InitialGraph;
pub use pipeline::{BuiltGraph, GraphBuild};
pub use questions::{HELD_OUT, QuestionVectors};
pub use recall_gate::{CertificateSample, RecallGate, RecallTarget};
pub use repair::{Repaired, repair};

#[cfg(test)]
mod tests;
