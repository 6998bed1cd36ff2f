//! JSON files next to the generations of an index that say what was learned for it.

use std::path::Path;

use dyad_files::write_atomic;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::storage::WriteLock;

/// One kind of such files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LearnedFile {
    /// The name of the file in the index.
    pub(crate) name: &'static str,
    /// The version that this build writes, and the newest that it reads.
    pub(crate) version: u32,
    /// What the file holds, for errors.
    pub(crate) holds: &'static str,
}

impl LearnedFile {
    /// The file of an index, as `parse` reads it; none where there is none.
    pub(crate) fn read<T>(self, index: &Path, parse: impl FnOnce(&Path, &[u8]) -> Result<T>) -> Result<Option<T>> {
        let path = index.join(self.name);
        match fs_err::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            bytes => parse(&path, &bytes?).map(Some),
        }
    }

    /// The JSON of such a file; `path` names it in errors.
    pub(crate) fn parse<T: DeserializeOwned>(self, path: &Path, bytes: &[u8]) -> Result<T> {
        let version = serde_json::from_slice::<serde_json::Value>(bytes);
        let version = version.map_err(|error| damaged(path, "JSON", error.to_string()))?;
        let version = version.get("format_version").and_then(serde_json::Value::as_u64);
        let version = version.and_then(|version| u32::try_from(version).ok());
        if let Some(got) = version.filter(|version| *version > self.version) {
            return Err(Error::Newer {
                path: path.to_owned(),
                got,
                supported: self.version,
            });
        }
        serde_json::from_slice(bytes).map_err(|error| damaged(path, self.holds, error.to_string()))
    }

    /// Writes the file, in place of an earlier one. The lock proves that nobody else does.
    pub(crate) fn write(self, index: &Path, record: &impl Serialize, _lock: &WriteLock) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(record).map_err(std::io::Error::from)?;
        Ok(write_atomic(&index.join(self.name), &bytes)?)
    }
}

/// The error of a file that holds something else.
pub(crate) fn damaged(path: &Path, expected: &str, got: String) -> Error {
    Error::Format {
        path: path.to_owned(),
        part: "content".to_owned(),
        expected: expected.to_owned(),
        got,
        hint: "Remove the file, or write it again with `dyad-searcher learn`",
    }
}
