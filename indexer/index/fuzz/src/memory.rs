//! Files that exist only in memory, so that millions of them wear out no disk and leave nothing on it.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

/// An anonymous file that can be opened by a path for as long as this lives.
#[derive(Debug)]
pub struct MemoryFile(File);

impl MemoryFile {
    /// A file with this content.
    pub fn new(bytes: &[u8]) -> io::Result<Self> {
        let mut file = File::from(rustix::fs::memfd_create("dyad-fuzz", rustix::fs::MemfdFlags::CLOEXEC)?);
        file.write_all(bytes)?;
        Ok(Self(file))
    }

    /// Where this process finds it.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}
