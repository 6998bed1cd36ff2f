//! Write under a temporary name, fsync, rename, fsync the directory: a reader sees the old file or the new one whole.

use std::io::Write as _;
use std::path::Path;

use crate::error::Result;

/// Makes the names in a directory durable.
pub fn sync_dir(dir: &Path) -> Result<()> {
    Ok(fs_err::File::open(dir)?.sync_all()?)
}

/// Replaces (or creates) a file.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = path.with_file_name(name);
    let mut file = fs_err::File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs_err::rename(&temporary, path)?;
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => sync_dir(dir),
        _ => sync_dir(Path::new(".")),
    }
}
