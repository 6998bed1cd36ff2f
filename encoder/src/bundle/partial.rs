//! A new directory that appears whole or not at all.

use std::path::{Path, PathBuf};

use crate::error::Error;

/// A directory in the making, beside its place under a `.partial` name; what is not finished is removed.
#[derive(Debug)]
pub(crate) struct Partial {
    path: PathBuf,
    to: PathBuf,
    finished: bool,
}

impl Partial {
    /// Begins anew; refuses where something is at `to`.
    pub(crate) fn beside(to: &Path) -> Result<Self, Error> {
        let Some(name) = to.file_name().filter(|_| !to.exists()) else {
            return Err(Error::Exists { path: to.to_owned() });
        };
        let mut name = name.to_owned();
        name.push(".partial");
        let path = to.with_file_name(name);
        if path.exists() {
            fs_err::remove_dir_all(&path)?;
        }
        fs_err::create_dir_all(&path)?;
        Ok(Self { path, to: to.to_owned(), finished: false })
    }

    /// Where to write.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it its name.
    pub(crate) fn finish(mut self) -> Result<(), Error> {
        fs_err::rename(&self.path, &self.to)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.finished {
            // Nobody reads it; the next try removes what is left.
            let _ = fs_err::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_appears_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("model");
        fs_err::create_dir(folder.path().join("model.partial")).unwrap();
        fs_err::write(folder.path().join("model.partial/old"), "").unwrap();
        let names =
            || fs_err::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();

        let partial = Partial::beside(&to).unwrap();
        fs_err::write(partial.path().join("file"), "").unwrap();
        drop(partial);
        assert!(names().is_empty(), "{:?}", names());

        let partial = Partial::beside(&to).unwrap();
        fs_err::write(partial.path().join("file"), "").unwrap();
        partial.finish().unwrap();
        assert_eq!(names(), ["model"]);
        assert!(to.join("file").exists() && !to.join("old").exists());
        for taken in [&to, Path::new("/"), Path::new("..")] {
            assert!(Partial::beside(taken).unwrap_err().to_string().contains("is there already"));
        }
    }
}
