//! Atomic files and directories, locks, checksums, NumPy arrays and cancellation, for every crate that works on files.
//!
//! | module | contents |
//! |---|---|
//! | `atomic.rs` | [`AtomicFile`], [`write_atomic`]: one file, replaced by one rename |
//! | `directory.rs` | [`AtomicDir`]: a whole directory, likewise |
//! | `lock.rs` | [`DirLock`]: an exclusive lock of a directory |
//! | `checksum.rs` | CRC-32C of files and of writers |
//! | `cancel.rs` | [`Cancel`]: what long work polls, in every crate |
//! | `lfs.rs` | pointers in the place of files that Git LFS did not fetch |
//! | [`memory`] | the memory that this process may use, and what it has |
//! | [`npy`] | NumPy's arrays |
//! | [`space`] | check of the free disk space before a job |
//!
//! Errors name the path.
//!
//! A reader of a file that is replaced sees the whole old content, or the whole new one:
//!
//! ```
//! use dyad_files::{AtomicFile, crc32c_of_file, write_atomic};
//! use std::io::Write;
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("CURRENT");
//! write_atomic(&path, b"first")?;
//! let mut file = AtomicFile::create(&path)?;
//! file.write_all(b"second")?;
//! assert_eq!(std::fs::read(&path)?, b"first", "until it is committed");
//! file.commit()?;
//! assert_eq!(std::fs::read(&path)?, b"second");
//! let (bytes, _checksum) = crc32c_of_file(&path)?;
//! assert_eq!(bytes, 6);
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod atomic;
mod cancel;
mod checksum;
mod directory;
mod lfs;
mod lock;
pub mod memory;
pub mod npy;
pub mod space;

pub use atomic::{AtomicFile, create_dir_synced, remove_temporary, sync_dir, sync_paths, write_atomic};
pub use cancel::{Cancel, Never};
pub use checksum::{ChecksumWriter, crc32c_of_file, crc32c_of_file_until};
pub use directory::AtomicDir;
pub use lfs::{is_lfs_pointer, is_lfs_pointer_file};
pub use lock::{DirLock, LockError};
