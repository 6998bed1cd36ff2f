//! Files: mapping, atomic writes, checksums while writing, the writer's lock.
//!
//! | file | what lives there |
//! |---|---|
//! | `mapped.rs` | the only place that maps a file |
//! | `scratch.rs` | values written once, then mapped, without a name |
//! | `atomic.rs` | write under a temporary name, fsync, rename, fsync the directory |
//! | `checksum.rs` | a writer that hashes what was really written; the hash of a file |
//! | `lock.rs` | one writer per index, for moments |

mod atomic;
mod checksum;
mod lock;
mod mapped;
mod scratch;

pub use atomic::{create_dir_synced, sync_dir, write_atomic};
pub(crate) use checksum::crc32c_of_file_until;
pub use checksum::{ChecksumWriter, crc32c_of_file};
pub use lock::WriteLock;
pub use mapped::Mapped;
pub use scratch::Scratch;
