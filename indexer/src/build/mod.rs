//! Making one shard's graph, from unit vectors to a certified, fully reachable graph.
//!
//! | file | what |
//! |---|---|
//! | `make.rs` | all steps in their order |
//! | `graph.rs` | the `GraphBuilder` trait and its parameters |
//! | `native/` | our own builder |
//! | `hnsw_rs.rs` | the `hnsw_rs` crate behind it |
//! | `freeze.rs` | a builder's lists -> layers |
//! | `select.rs` | which links a full node keeps |
//! | `repair.rs` | links to nodes that cannot be reached |
//! | `certify.rs` | recall and cost of the finished graph |
//! | `validate.rs` | what a row must be before |
//! | `order.rs` | seeded orders and samples |

pub mod certify;
pub mod freeze;
pub mod graph;
pub mod hnsw_rs;
pub mod make;
pub mod native;
pub mod order;
pub mod repair;
pub mod select;
pub mod validate;

pub use certify::certify;
pub use freeze::freeze;
pub use graph::{BuildParams, GraphBuilder, Material};
pub use make::{Made, Make};
pub use repair::{Repaired, repair};

#[cfg(test)]
mod tests;
