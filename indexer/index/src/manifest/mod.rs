//! Generations: which files an index consists of, and the pointer to the current one.
//!
//! | file | what lives there |
//! |---|---|
//! | `record.rs` | what a manifest says |
//! | `store.rs` | load, publish, go back: `CURRENT` is replaced by rename, its checksum verified on load |

mod record;
mod store;

pub use record::{FileEntry, MANIFEST_VERSION, Manifest, SHARDS_DIR, ShardEntry};
pub use store::{current, current_generation, generations, load, point_to, publish};

#[cfg(test)]
mod tests;
