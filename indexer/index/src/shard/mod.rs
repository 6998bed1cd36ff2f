//! One shard: `dense.dyad` written once, then mapped and searched.
//!
//! | file | contents |
//! |---|---|
//! | `writer.rs` | vectors, graph, keys and certificate into one file |
//! | `reader.rs` | opening in constant time; views |
//! | `lock.rs` | what is open is not removed |
//! | `search.rs` | by the graph or exactly, with and without a filter |
//! | `windows.rs` | read-ahead for exact scans |
//! | `verify.rs` | every byte read, every invariant checked |
//! | `tests/` | written, opened, searched; every bit flipped, and damage with valid checksums |

mod lock;
mod reader;
mod search;
mod verify;
mod windows;
mod writer;

pub use lock::RemovalLock;
pub use reader::DenseShard;
pub use verify::Verified;
pub use writer::{ShardInput, ShardMeta, write};

/// Name of the file inside a shard's directory.
pub const DENSE_FILE: &str = "dense.dyad";
/// Name of the tantivy index inside a shard's directory.
pub const TEXT_DIR: &str = "text";
/// Name of the directory with the documents of which a shard holds passages, where it holds any.
pub const DOCUMENTS_DIR: &str = "documents";

#[cfg(test)]
mod tests;
