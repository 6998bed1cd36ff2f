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
//! | [`maintenance`] | merging and removal in one call |
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
//! An index of three documents, whose vectors are in a directory of embeddings, is built and searched:
//!
//! ```
//! use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsWriter, VectorType};
//! use dyad_corpus::{CorpusReader, PassageContext, ReadOptions};
//! use dyad_index::snapshot::{DenseParams, SearchMode};
//! use dyad_index::{Never, Snapshot, format::RowType};
//! use dyad_indexer::control::JobControl;
//! use dyad_indexer::graph_build::{BuildParams, BuilderKind};
//! use dyad_indexer::job::{BuildConfig, build_index};
//! use dyad_indexer::source::{Corpus, FileSource};
//!
//! let folder = tempfile::tempdir()?;
//! let (corpus, embeddings) = (folder.path().join("corpus.jsonl"), folder.path().join("embeddings"));
//! std::fs::write(&corpus, "{\"_id\":\"a\",\"text\":\"east\"}\n{\"_id\":\"b\",\"text\":\"north\"}\n{\"_id\":\"c\",\"text\":\"west\"}\n")?;
//! let model = EmbeddingsModel {
//!     name: "compass".into(), fingerprint: "f00d".into(), dim: 2, metric: "cosine".into(), max_tokens: 8,
//! };
//! let mut writer = EmbeddingsWriter::open(&embeddings, EmbeddingsHeader {
//!     model, tower: "answer".into(), vectors: VectorType::F32, part_rows: 64, dtype: None, two_towers: None,
//!     logit_scale: None, context: PassageContext::default(),
//! })?;
//! let rows = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]];
//! for (document, row) in CorpusReader::open(&corpus, &ReadOptions::default())?.zip(rows) {
//!     writer.push(&document?.value, &row, false)?;
//! }
//! writer.finish()?;
//!
//! let config = BuildConfig {
//!     corpus: Corpus::File { path: corpus, read: ReadOptions::default() },
//!     index: folder.path().join("index"),
//!     shards: 1, builder: BuilderKind::Native, params: BuildParams { m: 8, ef_construction: 40, seed: 1, threads: 1 },
//!     row_type: RowType::F32, dimensions: None, language: None, queries: None, target: None, new_model: false, allow_empty: false,
//!     memory: None, free_space: dyad_files::space::boundless,
//! };
//! build_index(&config, &mut FileSource::open(&embeddings)?, JobControl::silent())?;
//!
//! let snapshot = Snapshot::open(&config.index)?;
//! let params = DenseParams { k: 1, mode: SearchMode::Adaptive { ef: 16 } };
//! let found = snapshot.search_dense(&[&[0.8, 0.6]], &params, None, &Never)?;
//! let best = found[0].hits[0];
//! assert_eq!(snapshot.key(best.shard, best.node), Some("a"));
//! assert_eq!(snapshot.document(best.shard, best.node)?.text, "east");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
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
pub mod maintenance;
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
