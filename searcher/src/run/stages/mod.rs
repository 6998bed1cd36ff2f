//! The stages of a batch of questions, on threads for computing: filter, rankings, fusion, groups, answers,
//! explanations.
//!
//! | file | contents |
//! |---|---|
//! | `batch.rs` | the CPU work of the parts for questions that are answered together |
//! | `part_results.rs` | what the parts have found for one question |
//! | `caller_documents.rs` | the documents that exist for the caller |
//! | `group_by_key.rs` | groups of equal keys |
//! | `batch_cost.rs` | the expected cost of these questions |
//! | `question_vector.rs` | the vector that a request brings, checked against the index's model |
//! | `leaf_hits.rs` | what leaves have said of the hits of a question |
//! | `bounded_rankings.rs` | both scores of hits from 0 to 1 |
//! | `chunk.rs` | filters that are processed at a time |
//! | `document_scores.rs` | what the documents of passages add to their BM25 scores |
//! | `pages.rs` | pages of a dense search as parts of one ranking |
//! | `fuse.rs` | the whole ranking of a search: fusion of the parts' hits |
//! | `groups/` | groups of hits with the same value of a field |
//! | `notes.rs` | what a reply notes of its request |
//! | `rank.rs` | the answer, made of the ranking's hits |
//! | `fetch.rs` | stored fields, snippets and surroundings of the answer's hits |
//! | `surrounding.rs` | what stands around a passage in its document |
//! | `answer.rs` | the answer |
//! | `explain.rs` | why a document is, or is not, among the hits |

pub(in crate::run) mod answer;
pub(in crate::run) mod batch;
pub(in crate::run) mod batch_cost;
mod bounded_rankings;
pub(in crate::run) mod caller_documents;
pub(in crate::run) mod chunk;
pub(in crate::run) mod document_scores;
pub(in crate::run) mod explain;
pub(in crate::run) mod fetch;
pub(in crate::run) mod fuse;
mod group_by_key;
pub(in crate::run) mod groups;
pub(in crate::run) mod leaf_hits;
mod notes;
pub(in crate::run) mod pages;
pub(in crate::run) mod part_results;
pub(in crate::run) mod question_vector;
pub(in crate::run) mod rank;
pub(in crate::run) mod surrounding;
