//! Text in, judgements out: what a retrieval system reads and what it is measured against.
//!
//! | module | what lives there |
//! |---|---|
//! | [`document`](Document) | a document, its passage, and where it was read |
//! | [`read`](CorpusReader) | streaming corpus readers: JSONL, TSV, BEIR folders; plain, gzip, Zstandard |
//! | [`queries`] | question sets |
//! | [`judged`](Judged) | the judged questions of a BEIR folder |
//! | [`qrels`] | relevance judgements in BEIR's and TREC's forms |
//! | [`run`] | ranked results in TREC's form |
//! | [`metrics`] | ranking metrics under trec_eval's rules |
//! | [`embeddings`] | a directory of vectors and their keys: resumable writer, verifying reader |
//! | [`examples`] | questions with their answers, and passages that do not answer: what dual encoders learn from |
//!
//! Everything here streams where a corpus can be large, refuses what it cannot read, and says in the error which file and
//! line, what was expected, what was there, and what to do. Nothing here knows a model, an index or a network.
#![forbid(unsafe_code)]

mod document;
pub mod embeddings;
mod error;
pub mod examples;
mod judged;
pub mod metrics;
mod problem;
pub mod qrels;
pub mod queries;
mod read;
pub mod run;

pub use document::{Document, Located};
pub use error::Error;
pub use judged::Judged;
pub use problem::{EmbeddingsProblem, Problem};
pub use read::{BeirFolder, CorpusReader, Format, MAX_KEY_BYTES, ReadOptions, is_stream};
