//! The files of a generation, by their paths below the index.

use std::path::Path;

use dyad_index::manifest::{DELETIONS_DIR, FileEntry, METADATA_DIR, Manifest, SHARDS_DIR};

use crate::error::{Error, Result};

/// A file, and what its manifest says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexFile {
    /// Its path is below the index.
    pub(crate) entry: FileEntry,
    /// Its name holds a digest of the content of its directory.
    pub(crate) is_named_by_content: bool,
}

/// All files that a manifest names, in its order.
pub(crate) fn files_of(manifest: &Manifest) -> Vec<IndexFile> {
    let file = |dir: String, entry: &FileEntry, is_named_by_content: bool| IndexFile {
        entry: FileEntry { path: format!("{dir}/{}", entry.path), ..entry.clone() },
        is_named_by_content,
    };
    let mut files = Vec::new();
    for shard in &manifest.shards {
        let dir = format!("{SHARDS_DIR}/{}", shard.id);
        files.extend(shard.files.iter().map(|entry| file(dir.clone(), entry, true)));
        files.extend(shard.deleted.iter().map(|deleted| file(DELETIONS_DIR.to_owned(), &deleted.file, false)));
        let of_metadata = shard.metadata.iter().flat_map(|metadata| {
            metadata.files.iter().map(|entry| file(format!("{METADATA_DIR}/{}", metadata.id), entry, false))
        });
        files.extend(of_metadata);
    }
    files
}

impl IndexFile {
    /// Whether the file is at `root`, whole: by its length, and by its checksum where its name does not tell its content, or `verify` asks.
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
