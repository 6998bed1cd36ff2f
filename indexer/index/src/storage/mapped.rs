//! The only place that maps a file into memory.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use memmap2::{Advice, Mmap, UncheckedAdvice};

use crate::error::Result;

/// A file mapped read-only.
#[derive(Debug)]
pub struct Mapped {
    map: Mmap,
    path: PathBuf,
}

impl Mapped {
    /// Maps a whole file. Files of an index are written once under a new name and never changed; whoever changes one
    /// in place breaks the searches that read it.
    #[expect(unsafe_code, reason = "mapping a file is unsafe because another process could change it")]
    pub fn open(path: &Path) -> Result<Self> {
        let file = fs_err::File::open(path)?;
        // SAFETY: index files are immutable once they have their final name (see `storage::atomic`): nothing in this
        // workspace opens one for writing, and every value read from the map is treated as untrusted.
        let map = unsafe { Mmap::map(file.file())? };
        Ok(Self { map, path: path.to_owned() })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the kernel that a range will be read in no order. A kernel that cannot take advice changes nothing.
    pub fn advise_random(&self, offset: u64, len: u64) {
        if len > 0 {
            let _ = self.map.advise_range(Advice::Random, offset as usize, len as usize);
        }
    }

    /// Tells the kernel that a range will be needed soon.
    pub fn advise_needed(&self, offset: u64, len: u64) {
        if len > 0 {
            let _ = self.map.advise_range(Advice::WillNeed, offset as usize, len as usize);
        }
    }
}

impl Mapped {
    /// Asks for huge pages for a range, where the file system has them for files (tmpfs, some others).
    pub fn advise_huge(&self, offset: u64, len: u64) {
        if len > 0 {
            let _ = self.map.advise_range(Advice::HugePage, offset as usize, len as usize);
        }
    }

    /// Drops the pages of a range from this process; they are read again when they are needed.
    #[expect(unsafe_code, reason = "this advice is unsafe for private memory that was written to")]
    pub fn advise_unneeded(&self, offset: u64, len: u64) {
        if len > 0 {
            // SAFETY: the map is of a file and read-only: dropped pages come back with the file's bytes.
            let _ =
                unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, offset as usize, len as usize) };
        }
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
