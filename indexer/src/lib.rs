//! How a dyad index is made and kept: a corpus and its vectors in, a published generation out.
//!
//! ```text
//! corpus ──┐
//!          ├─ source ─> job (one pass, spooled by shard) ─> graph_build (one graph per shard) ─> publish
//! vectors ─┘
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`source`] | vectors for documents: from files, or from an encoder service |
//! | [`plan`] | what a build will take, said before it starts |
//! | [`memory`] | what it took |
//! | [`control`] | how a job is followed and ended |
//! | [`graph_build`] | one shard's graph: insert, freeze, repair, certify |
//! | [`job`] | the whole build of an index |
//! | [`publish`] | shards into place, and the pointer moved |
//! | [`rollback`] | an earlier generation made current again |
//! | [`inspect`] | what is in an index (whether it is sound says `dyad_index::verify`) |
//! | [`error`] | what can go wrong |
//!
//! What an index *is* lies in `dyad-index`; the crate `hnsw_rs` is named in one file, `graph_build/hnsw_rs.rs`.
#![forbid(unsafe_code)]

pub mod control;
pub mod error;
pub mod graph_build;
pub mod inspect;
pub mod job;
pub mod memory;
pub mod plan;
pub mod publish;
pub mod rollback;
pub mod source;

pub use error::Error;

/// This program and its version, as written into what it makes.
pub const TOOL: &str = concat!("dyad-indexer ", env!("CARGO_PKG_VERSION"));
