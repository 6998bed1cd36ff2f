//! Generations: which files an index consists of, and the pointer to the current one.
//!
//! | file | contents |
//! |---|---|
//! | `record.rs` | the content of a manifest |
//! | `pointer.rs` | names of manifests, and `CURRENT` |
//! | `store.rs` | load, publish, point: `CURRENT` is replaced by rename, its checksum verified on load |
//! | `intent.rs` | the mark of a publish in progress, so that a killed one is never taken for a generation; the generations that were published |
//! | `lineage.rs` | the predecessor of a generation |
//! | `newest.rs` | the highest number of a generation that was removed, or is elsewhere |
//! | `reader_lock.rs` | generations that are being read are not removed |

mod intent;
mod lineage;
mod newest;
mod pointer;
mod reader_lock;
mod record;
mod store;

pub use intent::{generations, mark_name, settle};
pub use lineage::predecessor;
pub use newest::{NEWEST, note_number};
pub use pointer::{POINTER, current_generation, manifest_name, parse_pointer, pointer_to};
pub use reader_lock::ReaderLock;
pub use record::{
    CALIBRATIONS_DIR, CalibrationEntry, Change, DELETIONS_DIR, DeletedEntry, FileEntry, MANIFEST_VERSION, METADATA_DIR,
    Manifest, MetadataEntry, MinRecall, RecordedCall, SHARD_FOLDERS, SHARDS_DIR, ShardEntry, ShardPart,
};
pub use store::{MAX_LOGIT_SCALE, adopt, current, load, next_generation, parse, point_to, publish, remove};

#[cfg(test)]
mod tests;
