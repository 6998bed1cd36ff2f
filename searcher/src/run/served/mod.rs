//! The indexes that are served, and what is kept of each: open files, filters, the documents of callers, readiness.
//!
//! | file | contents |
//! |---|---|
//! | `served_index.rs` | the indexes by name, and the generation that is served of each |
//! | `generation.rs` | a generation that is served |
//! | `earlier.rs` | generations that were served before, for roots |
//! | `open_files.rs` | the limit of open files |
//! | `checksums.rs` | background verification of checksums after opening |
//! | `filter_cache.rs` | the nodes that filters allow, kept for the next request with the same filter |
//! | `listed_fields.rs` | the fields of an index as they were listed last |
//! | `scope.rs` | the documents that exist for a caller |
//! | `readiness.rs` | whether the searcher can answer |

pub(in crate::run) mod checksums;
pub(in crate::run) mod earlier;
pub(in crate::run) mod filter_cache;
pub(in crate::run) mod generation;
pub(in crate::run) mod listed_fields;
pub mod open_files;
pub(in crate::run) mod readiness;
pub(in crate::run) mod scope;
pub(in crate::run) mod served_index;
