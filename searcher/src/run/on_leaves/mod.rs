//! What a root does with its leaves: the parts of a search that need shards are asked of those that hold them, and what
//! they find becomes the parts' results, from which answers are made as where the shards are here.
//!
//! | file | contents |
//! |---|---|
//! | `asked.rs` | the leaves that a batch is asked of |
//! | `request.rs` | what is asked of leaves for a question |
//! | `coverage.rs` | which shards an answer is of |
//! | `counts.rs` | BM25's counts of a question's terms over all shards |
//! | `merge.rs` | the replies of leaves as rankings of all shards |
//! | `replied.rs` | what leaves have replied to a question, as the results of its parts |
//! | `small_shards.rs` | the second round of searches where some shards are small next to others |
//! | `parts.rs` | the order of it all |
//! | `groups.rs` | groups of hits |
//! | `read.rs` | documents that are read without a question |
//! | `sample.rs` | documents that are chosen at random |
//! | `explain.rs` | why a document is, or is not, among the hits |
//! | `fetch.rs` | what answers show of their documents |
//! | `lost_documents.rs` | hits whose documents no leaf has any more |
//! | `received.rs` | the memory that replies with documents take as they come |
//! | `start.rs` | indexes whose shards leaves hold |

mod asked;
mod counts;
mod coverage;
mod explain;
mod fetch;
mod groups;
mod lost_documents;
mod merge;
mod parts;
mod read;
mod received;
mod replied;
mod request;
mod sample;
mod small_shards;
mod start;

pub(in crate::run) use fetch::WantedOfDocuments;
