//! Atomic replacement of a file: writes under a temporary name, fsyncs, renames, and fsyncs the directory.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use fail::fail_point;

/// The part of a temporary name between the file's name and the writer's process id.
const TEMPORARY: &str = ".tmp-";
/// Bytes of the write buffer.
const BUFFER: usize = 1 << 18;

/// A file that gets its name when it is committed, replacing an existing one; it is removed if it is dropped before.
#[derive(Debug)]
pub struct AtomicFile {
    file: BufWriter<fs_err::File>,
    path: PathBuf,
    to: PathBuf,
    committed: bool,
}

impl AtomicFile {
    /// Creates an empty file in the directory of `to`.
    pub fn create(to: &Path) -> io::Result<Self> {
        let mut name = to.file_name().unwrap_or_default().to_owned();
        name.push(format!("{TEMPORARY}{}", std::process::id()));
        let path = to.with_file_name(name);
        let file = BufWriter::with_capacity(BUFFER, fs_err::File::create(&path)?);
        Ok(Self {
            file,
            path,
            to: to.to_owned(),
            committed: false,
        })
    }

    /// Makes the content durable, then visible, then the name durable.
    pub fn commit(self) -> io::Result<()> {
        let dir = parent(&self.to).to_owned();
        self.rename_after(&[])?;
        sync_dir(&dir)
    }

    /// Makes the content and these others durable, then the content visible. The caller makes the name durable.
    pub fn rename_after(mut self, others: &[&Path]) -> io::Result<()> {
        fail_point!("file-write", |_| Err(io::ErrorKind::StorageFull.into()));
        self.file.flush()?;
        fail_point!("file-sync", |_| Err(io::Error::other("input/output error")));
        let all: Vec<&Path> = others.iter().copied().chain([self.path.as_path()]).collect();
        sync_paths(&all)?;
        fail_point!("file-rename");
        fs_err::rename(&self.path, &self.to)?;
        self.committed = true;
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            // Removal is best effort; the error is reported elsewhere.
            let _ = fs_err::remove_file(&self.path);
        }
    }
}

/// Replaces (or creates) a file.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(bytes)?;
    file.commit()
}

/// Removes temporary files of killed writers from `dir`, of files whose names `wanted` accepts. The caller knows that
/// no process writes them.
pub fn remove_temporary(dir: &Path, wanted: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs_err::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if name
            .to_string_lossy()
            .split_once(TEMPORARY)
            .is_some_and(|(name, _)| wanted(name))
        {
            fs_err::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Makes the entries of a directory durable.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    fail_point!("directory-sync", |_| Err(io::Error::other("input/output error")));
    fs_err::File::open(dir)?.sync_all()
}

/// Files or directories that are made durable at once.
const AT_ONCE: usize = 16;

/// Makes files, and the entries of directories, durable: many at once, since a file system writes together what several
/// threads wait for. The time is about that of one.
pub fn sync_paths<P: AsRef<Path> + Sync>(paths: &[P]) -> io::Result<()> {
    fail_point!("directory-sync", |_| Err(io::Error::other("input/output error")));
    let sync = |path: &P| fs_err::File::open(path.as_ref())?.sync_all();
    if let [only] = paths {
        return sync(only);
    }
    let share = paths.len().div_ceil(AT_ONCE).max(1);
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for some in paths.chunks(share) {
            let thread = std::thread::Builder::new().name("dyad-sync".to_owned());
            threads.push(thread.spawn_scoped(scope, move || some.iter().try_for_each(sync))?);
        }
        for thread in threads {
            let ended = thread.join();
            ended.unwrap_or_else(|_| Err(io::Error::other("a thread that made files durable has panicked")))?;
        }
        Ok(())
    })
}

/// Creates a directory and those above it that are missing, and makes their names durable.
pub fn create_dir_synced(dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir
        .ancestors()
        .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
        .collect();
    fs_err::create_dir_all(dir)?;
    missing.into_iter().try_for_each(|created| sync_dir(parent(created)))
}

/// The parent directory of a path.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_the_old_one_until_it_is_committed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        write_atomic(&path, b"old").unwrap();
        let mut dropped = AtomicFile::create(&path).unwrap();
        dropped.write_all(b"half").unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"old");
        drop(dropped);
        assert_eq!(names(dir.path()), ["file"], "what was not committed is gone");
        let mut file = AtomicFile::create(&path).unwrap();
        file.write_all(b"new").unwrap();
        file.commit().unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"new");
        assert_eq!(names(dir.path()), ["file"]);
        let error = write_atomic(&dir.path().join("no/file"), b"").unwrap_err().to_string();
        assert!(error.contains("no/file.tmp-"), "{error}");
    }

    #[test]
    fn only_the_leftovers_of_wanted_names_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["CURRENT", "CURRENT.tmp-1", "notes.tmp-1", "CURRENT.tmp"] {
            fs_err::write(dir.path().join(name), "x").unwrap();
        }
        remove_temporary(dir.path(), |name| name == "CURRENT").unwrap();
        assert_eq!(names(dir.path()), ["CURRENT", "CURRENT.tmp", "notes.tmp-1"]);
    }

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
        assert!(
            create_dir_synced(&file.join("d"))
                .unwrap_err()
                .to_string()
                .contains("file")
        );
    }
}
