//! Builds and maintains indexes: from a corpus and its vectors to a published generation.
//!
//! ```text
//! corpus ──┐
//!          ├─ source ─> job (one pass, spooled by shard) ─> graph_build (one graph per shard) ─> publish
//! vectors ─┘
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`source`] | vectors for documents: from files, or from an encoder service |
//! | [`plan`] | predicted memory and disk space of a build |
//! | [`memory`] | peak memory of the process |
//! | [`control`] | progress and cancellation of a job |
//! | [`graph_build`] | one shard's graph: insert, freeze, repair, certify |
//! | [`job`] | the build of an index |
//! | [`change`] | documents added, replaced and deleted, shards merged |
//! | [`bulk`] | jobs of many tasks, whose state is in an object store |
//! | [`gc`] | generations and files that nothing needs are removed |
//! | `draft.rs` | a generation before it is published |
//! | `shard_names.rs` | the names of shards, and of what is changed of them |
//! | [`publish`] | moves shards into place, and the pointer to the new generation |
//! | [`compare`] | two generations asked the same questions |
//! | [`rollback`] | an earlier generation made current again |
//! | [`serve`] | changes over gRPC |
//! | [`inspect`] | a report on an index (`dyad_index::verify` checks it) |
//! | [`export`] | vectors and metadata for other programs |
//! | [`error`], [`context_error`], [`job_error`], [`row_error`] | errors |
//!
//! The format of an index and its search are in `dyad-index`; the crate `hnsw_rs` is used in one file,
//! `graph_build/hnsw_rs.rs`.
#![forbid(unsafe_code)]

pub mod bulk;
mod certificate_tables;
pub mod change;
pub mod compare;
pub mod context_error;
pub mod control;
mod draft;
pub mod error;
pub mod export;
pub mod gc;
pub mod graph_build;
pub mod inspect;
pub mod job;
pub mod job_error;
pub mod memory;
pub mod plan;
pub mod publish;
pub mod rollback;
pub mod row_error;
pub mod serve;
mod shard_names;
pub mod source;

pub use error::Error;

/// This program and its version, as written into what it makes.
pub const TOOL: &str = concat!("dyad-indexer ", env!("CARGO_PKG_VERSION"));
