//! The files of a generation, by their paths below the index.

use std::path::Path;

use dyad_index::manifest::{FileEntry, Manifest, SHARDS_DIR, ShardEntry};

use crate::error::{Error, Result};

/// A file, and what its manifest says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexFile {
    /// The file, with its path below the index.
    pub(crate) entry: FileEntry,
    /// Whether its name holds a digest of the content of its directory.
    pub(crate) is_named_by_content: bool,
}

/// All files that a manifest names, in its order.
pub(crate) fn files_of(manifest: &Manifest) -> Vec<IndexFile> {
    files_of_shards(&manifest.shards)
}

/// The same of the shards with these numbers, or of all. An error where the numbers are not ascending, or there is no
/// such shard.
pub(crate) fn files_of_part(manifest: &Manifest, numbers: Option<&[usize]>) -> Result<Vec<IndexFile>> {
    match numbers {
        None => Ok(files_of(manifest)),
        Some(numbers) => Ok(files_of_shards(manifest.entries_at(numbers)?)),
    }
}

/// All files of some shards.
pub(crate) fn files_of_shards<'m>(shards: impl IntoIterator<Item = &'m ShardEntry>) -> Vec<IndexFile> {
    let mut files = Vec::new();
    for part in shards.into_iter().flat_map(ShardEntry::parts) {
        let is_named_by_content = part.folder == SHARDS_DIR;
        files.extend(part.files.iter().map(|entry| IndexFile {
            entry: FileEntry {
                path: part.path_of(entry),
                ..entry.clone()
            },
            is_named_by_content,
        }));
    }
    files
}

impl IndexFile {
    /// Whether the file is at `root`, whole: by its length, and by its checksum where its name does not tell its
    /// content, or `verify` asks.
    pub(crate) fn is_at(&self, root: &Path, verify: bool) -> Result<bool> {
        let path = root.join(&self.entry.path);
        match fs_err::metadata(&path) {
            Ok(found) if found.len() != self.entry.bytes => Ok(false),
            Ok(_) if self.is_named_by_content && !verify => Ok(true),
            Ok(_) => Ok(dyad_files::crc32c_of_file(&path)? == (self.entry.bytes, self.entry.crc32c)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::Io(error)),
        }
    }
}
