//! Write under a temporary name, fsync, rename, fsync the directory: a reader sees the old file or the new one whole.

use std::io::Write as _;
use std::path::Path;

use crate::error::Result;

/// Makes the names in a directory durable.
pub fn sync_dir(dir: &Path) -> Result<()> {
    Ok(fs_err::File::open(dir)?.sync_all()?)
}

/// Creates a directory and those above it that are missing, and makes their names durable.
pub fn create_dir_synced(dir: &Path) -> Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    fs_err::create_dir_all(dir)?;
    missing.into_iter().try_for_each(|created| sync_dir(parent(created)))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
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
    sync_dir(parent(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_created_with_those_above_them() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b/c");
        for _ in 0..2 {
            create_dir_synced(&inner).unwrap();
            assert!(inner.is_dir());
        }
        let file = dir.path().join("file");
        write_atomic(&file, b"x").unwrap();
        assert!(create_dir_synced(&file.join("d")).unwrap_err().to_string().contains("file"));
    }
}
