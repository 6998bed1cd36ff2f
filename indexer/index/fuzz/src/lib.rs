//! What the fuzz targets share: valid files to start from, and their edits by the fuzzer's bytes.
//!
//! | file | contents |
//! |---|---|
//! | `small.rs` | small valid shards, one for each way in which shards differ |
//! | `draft.rs` | a shard's bytes with edits applied, and its checksums made good again |
//! | `manifest.rs` | a manifest's text with edits applied |
//! | `script.rs` | the fuzzer's bytes, read as a sequence of small decisions |
//! | `memory.rs` | files that exist only in memory |

mod draft;
mod manifest;
mod memory;
mod script;
mod small;

pub use draft::Draft;
pub use manifest::edited_manifest;
pub use memory::MemoryFile;
pub use script::Script;
pub use small::small_shards;
