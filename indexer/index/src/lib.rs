//! What a dyad index *is*: files, their mapping into memory, and how they are searched. `dyad-indexer` builds them.
//!
//! Layers, lowest first; no module imports upward:
//!
//! | module | contents |
//! |---|---|
//! | [`error`] | errors |
//! | [`storage`] | mapping files, the writer's lock |
//! | [`kernels`] | inner products, chosen once for the machine |
//! | [`model`], [`certificate`] | records of the model, the build and the measured quality |
//! | [`matryoshka`] | the first values of a model's vectors in place of all |
//! | [`language`] | the languages of texts |
//! | [`rows`] | rows of vectors in memory |
//! | [`quant`] | codes: sketches of one bit per value, int8 rows |
//! | [`search`] | the beam search over codes, the exact scan, their results |
//! | [`graph`] | a graph in memory, as a builder makes it |
//! | [`vector_groups`] | which nodes have the same vector |
//! | [`layout`] | graph and codes in the order in which they are searched |
//! | [`format`](mod@format) | **the byte specification** of `dense.dyad` and its checked reading |
//! | [`manifest`] | generations and the `CURRENT` pointer |
//! | [`ground_truth`] | the questions of a certificate and their exact nearest nodes |
//! | [`deletions`], [`calibration`] | the deleted documents of a shard; what it was measured by after it was built |
//! | [`shard`] | one shard: write, open, search, verify |
//! | [`lexical`] | the tantivy index next to the vectors; filters; BM25 with corpus-wide statistics |
//! | `learned_file` | files of what was learned for an index |
//! | [`fusion`] | how the two rankings of an index are fused, where that was learned |
//! | [`reranking`] | what a cross encoder has brought an index, where that was measured |
//! | `learned` | all files of what was learned |
//! | [`snapshot`] | one generation, opened: all shards, dense and lexical |
//! | [`hybrid`] | the dense and the BM25 ranking of a question into one |
//! | [`verify`] | every byte of a generation read and checked |
//!
//! Scores are inner products or BM25 sums: larger is better. Ties are broken by document key, ascending.
//!
//! An index directory is opened as a [`Snapshot`], which searches vectors and texts; the documentation of
//! `dyad-indexer` builds one and searches it. The exact scan over rows in memory, by which every search is measured:
//!
//! ```
//! use dyad_index::Metric;
//! use dyad_index::search::{DenseRows, exact_scan};
//!
//! let values = [1.0, 0.0, 0.6, 0.8, 0.0, 1.0];
//! let rows = DenseRows::new(&values, 2);
//! let question: &[f32] = &[0.8, 0.6];
//! let found = exact_scan(&rows, &[question], 2, Metric::Cosine, None, |_| true);
//! let nodes: Vec<u32> = found[0].hits.iter().map(|hit| hit.node).collect();
//! assert_eq!(nodes, [1, 0]);
//! assert!((found[0].hits[0].score - 0.96).abs() < 1e-6);
//! ```

pub mod calibration;
pub mod certificate;
pub mod deletions;
pub mod error;
pub mod format;
pub mod fusion;
pub mod graph;
pub mod ground_truth;
pub mod hybrid;
pub mod kernels;
pub mod language;
pub mod layout;
mod learned;
mod learned_file;
pub mod lexical;
pub mod manifest;
pub mod matryoshka;
pub mod model;
pub mod quant;
pub mod reranking;
pub mod rows;
pub mod search;
pub mod shard;
pub mod snapshot;
pub mod storage;
pub mod vector_groups;
pub mod verify;

pub use certificate::{Certificate, ExpansionPoint, FilteredRecall, QuerySource, RankScore, RecallPoint};
pub use deletions::Deletions;
pub use dyad_files::{Cancel, Never};
pub use error::{Error, Result};
pub use fusion::{FUSION_FILE, FusionMethod, FusionRecord, LearnedFrom};
pub use graph::{Graph, GraphLayer};
pub use ground_truth::{GROUND_TRUTH_FILE, GroundTruth};
pub use language::TextLanguage;
pub use layout::{Arranged, GraphLayout};
pub use learned::{LEARNED_FILES, check_learned};
pub use model::{BuildRecord, Metric, ModelRecord};
pub use reranking::{RERANK_FILE, RerankMeasured, RerankRecord};
pub use rows::VectorRows;
pub use search::{GraphLinks, Scored, SearchHits, SearchParams};
pub use snapshot::Snapshot;
pub use vector_groups::VectorGroups;
