//! The only place that maps a file into memory.
//!
//! A map is only as intact as its file. One that is shortened or overwritten in place, or whose disk fails, ends a
//! process that reads the map there (SIGBUS), and nothing short of a signal handler can make an error of it. So files
//! are written once under a new name and replaced by `rename`, lengths are compared before a map is made, and `verify`
//! reads with `read` what it checks, before it reads the map.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::{Advice, Mmap, UncheckedAdvice};
use stable_deref_trait::StableDeref;

use crate::error::Result;

/// A file mapped read-only.
#[derive(Debug)]
pub struct MmapFile {
    map: Mmap,
    file: fs_err::File,
    path: PathBuf,
}

impl MmapFile {
    /// Maps a whole file. Only for files that are no longer changed: those of a shard, which are written once, and a
    /// [`ScratchFile`](super::ScratchFile), which has no name left.
    #[expect(
        unsafe_code,
        reason = "mapping a file is unsafe because another process could change it"
    )]
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = fs_err::File::open(path)?;
        // SAFETY: this is not public, and its callers map files that nothing in this workspace opens for writing again:
        // `dense.dyad`, which is immutable once it is complete (see `storage::atomic`), parts of text indexes, which
        // are complete, and scratch files, which are unlinked before they are read. Every value read from the map is
        // treated as untrusted.
        let map = unsafe { Mmap::map(file.file()) };
        let map = map.map_err(|error| {
            std::io::Error::new(
                error.kind(),
                format!("failed to map file `{}`: {error}", path.display()),
            )
        })?;
        Ok(Self {
            map,
            file,
            path: path.to_owned(),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file: the one that is mapped, also after another took its name.
    pub(crate) fn file(&self) -> &fs_err::File {
        &self.file
    }

    /// Advises the kernel that a range will be read in random order. A kernel that cannot take advice changes nothing;
    /// neither does a range that reaches beyond the file.
    pub fn advise_random(&self, offset: u64, len: u64) {
        self.advise(Advice::Random, offset, len);
    }

    /// Advises the kernel that a range will be needed soon.
    pub fn advise_needed(&self, offset: u64, len: u64) {
        self.advise(Advice::WillNeed, offset, len);
    }

    /// Asks the kernel to read a part of the map from the disk, and does not wait for it; what is in memory already
    /// costs a system call.
    pub fn read_soon(&self, part: &[u8]) {
        if let Some(offset) = part.as_ptr().addr().checked_sub(self.map.as_ptr().addr()) {
            self.advise_needed(offset as u64, part.len() as u64);
        }
    }

    /// Asks for huge pages for a range, where the file system has them for files: tmpfs, and those with large folios,
    /// for what is read from the disk after this advice or was written in blocks of 2 MiB.
    pub fn advise_huge(&self, offset: u64, len: u64) {
        self.advise(Advice::HugePage, offset, len);
    }

    /// Drops the pages of a range from this process; they are read again when they are needed.
    #[expect(unsafe_code, reason = "this advice is unsafe for private memory that was written to")]
    pub fn advise_unneeded(&self, offset: u64, len: u64) {
        if let Some((offset, len)) = self.inside(offset, len) {
            // SAFETY: the range is in the map, which is of a file and read-only: dropped pages come back with the
            // file's bytes.
            let _ = unsafe { self.map.unchecked_advise_range(UncheckedAdvice::DontNeed, offset, len) };
        }
    }

    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        if let Some((offset, len)) = self.inside(offset, len) {
            let _ = self.map.advise_range(advice, offset, len);
        }
    }

    /// A range that holds something and ends in the map.
    fn inside(&self, offset: u64, len: u64) -> Option<(usize, usize)> {
        let end = offset.checked_add(len)?;
        (len > 0 && end <= self.map.len() as u64).then_some((offset as usize, len as usize))
    }
}

/// A map that several hold, for code that takes bytes that stay where they are.
#[derive(Debug, Clone)]
pub(crate) struct SharedMap(Arc<MmapFile>);

impl SharedMap {
    /// Maps a whole file, as [`MmapFile::open`]; none where it is empty.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        if fs_err::metadata(path)?.len() == 0 {
            return Ok(None);
        }
        Ok(Some(Self(Arc::new(MmapFile::open(path)?))))
    }

    /// Drops all pages from this process; they are read again when they are needed.
    pub(crate) fn drop_pages(&self) {
        self.0.advise_unneeded(0, self.0.len() as u64);
    }
}

impl Deref for SharedMap {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

// SAFETY: the bytes are those of the map, which stay where they are while it is shared by any clone, wherever those are
// moved.
#[expect(unsafe_code, reason = "the trait promises what the compiler cannot check")]
unsafe impl StableDeref for SharedMap {}

impl Deref for MmapFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}
