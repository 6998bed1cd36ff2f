//! The input of a retrieval system and its evaluation: corpora, questions, judgements, runs, metrics and embeddings.
//!
//! | module | contents |
//! |---|---|
//! | [`document`](Document) | a document, its passage, and its line |
//! | [`context`](PassageContext) | what of its document reaches a passage's vector |
//! | [`place`](PassagePlace) | where a passage stands in its document |
//! | [`metadata`](Metadata) | a document's own fields as JSON text |
//! | [`read`](CorpusReader) | streaming corpus readers of all formats of [`CorpusFormat`]; plain, gzip, Zstandard; whole documents, or passages |
//! | [`KeyLines`] | keys in the lines of a file |
//! | [`queries`] | question sets |
//! | [`judged`](JudgedQuestions) | the judged questions of a BEIR folder |
//! | [`qrels`] | relevance judgements in the formats of BEIR and TREC |
//! | [`run`] | ranked results in TREC's format |
//! | [`logit_scale`] | how much a difference of a model's cosines says, estimated on texts that come with the program |
//! | [`metrics`] | ranking metrics under trec_eval's rules |
//! | [`embeddings`] | a directory of vectors and their keys: resumable writer, verifying reader |
//! | [`examples`] | questions with their answers, and passages that do not answer: the training data of dual encoders |
//!
//! A corpus of JSON lines is read one document at a time:
//!
//! ```
//! use dyad_corpus::{CorpusReader, ReadOptions};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("corpus.jsonl");
//! std::fs::write(&path, r#"{"_id": "d1", "title": "Rivers", "text": "The Rhine flows.", "metadata": {"lang": "en"}}"#)?;
//! for document in CorpusReader::open(&path, &ReadOptions::default())? {
//!     let document = document?.value;
//!     assert_eq!((document.key.as_str(), document.title.as_str()), ("d1", "Rivers"));
//!     assert_eq!(document.metadata.map(|fields| fields.as_json().to_owned()).as_deref(), Some(r#"{"lang":"en"}"#));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A ranking is judged under trec_eval's rules:
//!
//! ```
//! use std::collections::BTreeMap;
//!
//! use dyad_corpus::metrics::{GradedRanking, RankingMetric};
//!
//! let judgements = BTreeMap::from([("d1".to_owned(), 1)]);
//! let hits = [("d2".to_owned(), 0.9), ("d1".to_owned(), 0.7)];
//! let ranking = GradedRanking::new(&hits, &judgements);
//! assert_eq!(ranking.grades, [0, 1]);
//! assert!((RankingMetric::ReciprocalRank.compute(&ranking) - 0.5).abs() < 1e-9);
//! assert!((RankingMetric::Ndcg(10).compute(&ranking) - 1.0 / 3f64.log2()).abs() < 1e-9);
//! ```
//!
//! To add a format: a variant of [`CorpusFormat`] and its row in the table of `read/format.rs`, of which options, help
//! texts, messages and the recognition of files are made; a reader that is a `RecordSource`, and its arm in
//! `read/records.rs`; its tests in `read/tests/`; and the lists of formats of two READMEs, for which a test asks.
//!
//! Everything streams where a corpus can be large. Errors name the file and line, what was expected, what was found,
//! and the fix.
#![forbid(unsafe_code)]

mod compact;
mod context;
mod document;
pub mod embeddings;
mod error;
pub mod examples;
mod judged;
mod key_lines;
pub mod logit_scale;
mod metadata;
pub mod metrics;
mod place;
mod problem;
pub mod qrels;
pub mod queries;
mod raw_fields;
mod read;
pub mod run;

pub use compact::compact_bytes;
pub use context::PassageContext;
pub use document::{Document, Located};
pub use error::Error;
pub use judged::JudgedQuestions;
pub use key_lines::KeyLines;
pub use metadata::Metadata;
pub use place::{PassagePlace, PassageSpan};
pub use problem::{CorpusProblem, EmbeddingsProblem};
#[cfg(feature = "clap")]
pub use read::ReadArguments;
pub use read::{
    BeirFolder, CorpusFormat, CorpusReader, FieldNames, MAX_KEY_BYTES, MAX_METADATA_BYTES, ReadOptions, Split,
    UnseenFieldPolicy, WholeDocuments, check_key, is_stream,
};
