//! What Git LFS puts in the place of a file that was not fetched (its specification: the first line of a pointer).

use std::io::{self, Read as _};
use std::path::Path;

/// The first bytes of a pointer.
const LFS_POINTER: &[u8] = b"version https://git-lfs.github.com/spec/";

/// Whether a file that begins so is a pointer, and not the file itself.
pub fn is_lfs_pointer(head: &[u8]) -> bool {
    head.starts_with(LFS_POINTER)
}

/// The same of a file.
pub fn is_lfs_pointer_file(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    fs_err::File::open(path)?
        .take(LFS_POINTER.len() as u64)
        .read_to_end(&mut head)?;
    Ok(is_lfs_pointer(&head))
}
