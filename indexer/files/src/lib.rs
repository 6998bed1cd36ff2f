//! Files that are whole or not there, and what else every crate that writes some needs. Nothing here knows what is in them.
//!
//! | module | what lives there |
//! |---|---|
//! | `atomic.rs` | [`AtomicFile`], [`write_atomic`]: one file, replaced by one rename |
//! | `directory.rs` | [`AtomicDir`]: a whole directory, likewise |
//! | `lock.rs` | [`DirLock`]: one holder of a directory at a time |
//! | `checksum.rs` | CRC-32C of files, and of what is being written |
//! | [`npy`] | NumPy's arrays |
//! | [`space`] | whether a disk has room for what will be written |
//!
//! Errors name the path.
#![forbid(unsafe_code)]

mod atomic;
mod checksum;
mod directory;
mod lock;
pub mod npy;
pub mod space;

pub use atomic::{AtomicFile, create_dir_synced, remove_temporary, sync_dir, write_atomic};
pub use checksum::{ChecksumWriter, crc32c_of_file, crc32c_of_file_until};
pub use directory::AtomicDir;
pub use lock::{DirLock, LockError};
