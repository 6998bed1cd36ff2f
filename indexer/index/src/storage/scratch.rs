//! Values that are written once, in order, and then read from a map: the file has no name any more by then, so that
//! no process can change it, and its space is free again as soon as the map is dropped.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::MmapFile;
use crate::error::Result;

/// Bytes gathered before they are written.
const BUFFER: usize = 1 << 18;

/// A file that still takes bytes.
#[derive(Debug)]
pub struct ScratchFile {
    file: BufWriter<fs_err::File>,
    path: PathBuf,
}

impl ScratchFile {
    /// Starts a new file; one that already exists is an error.
    pub fn create(path: &Path) -> Result<Self> {
        let file = fs_err::OpenOptions::new().write(true).create_new(true).open(path)?;
        Ok(Self {
            file: BufWriter::with_capacity(BUFFER, file),
            path: path.to_owned(),
        })
    }

    /// All that was written, mapped; the name is gone.
    pub fn finish(self) -> Result<MmapFile> {
        let Self { mut file, path } = self;
        file.flush()?;
        // No handle that could write is left when the map is made.
        drop(file);
        let map = MmapFile::open(&path)?;
        fs_err::remove_file(&path)?;
        Ok(map)
    }
}

impl Write for ScratchFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_mapped_and_has_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let mut scratch = ScratchFile::create(&path).unwrap();
        assert!(ScratchFile::create(&path).is_err(), "one writer");
        let bytes: Vec<u8> = (0..1_000_000u32).map(|at| (at % 251) as u8).collect();
        scratch.write_all(&bytes).unwrap();
        let map = scratch.finish().unwrap();
        assert!(!path.exists());
        assert!(map[..] == bytes);
    }
}
