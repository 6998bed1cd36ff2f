//! What a leaf does for roots: its part of searches of a generation, over the shards that it is asked for.
//!
//! | file | contents |
//! |---|---|
//! | `call.rs` | a call of a root: the generation and the shards that it names, and the place that it takes |
//! | `terms.rs` | how many documents hold the terms of a question |
//! | `search.rs` | the best hits by vector and by BM25 |
//! | `details.rs` | what fusion and groups need of these hits |
//! | `groups.rs` | whether there are other groups than a root has found |
//! | `read.rs` | documents that are read without a question |
//! | `explain.rs` | what is known of one document |
//! | `fetch.rs` | what replies show of documents |
//! | `report.rs` | what is held |

mod call;
mod details;
mod explain;
mod fetch;
mod groups;
mod read;
mod report;
mod search;
mod terms;

pub(crate) use report::HeldVersion;
