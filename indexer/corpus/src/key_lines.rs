//! Keys in the lines of a file, as `--keys` names them.

use std::path::{Path, PathBuf};

use crate::document::Located;
use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::{InputLines, MAX_KEY_BYTES};

/// The keys of a file, one in each line that is not blank, with its line; plain, gzip or Zstandard, `-` is standard
/// input. A byte order mark and carriage returns are dropped, as in a corpus. The same key may come again, and so may
/// keys that no new document could have.
#[derive(Debug)]
pub struct KeyLines {
    lines: InputLines,
    failed: bool,
}

impl KeyLines {
    /// Opens `path`.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            lines: InputLines::open(path, MAX_KEY_BYTES)?,
            failed: false,
        })
    }

    /// All keys; refuses a file without any.
    pub fn read(path: &Path) -> Result<Vec<String>, Error> {
        let mut lines = Self::open(path)?;
        let keys = lines
            .by_ref()
            .map(|key| key.map(|key| key.value))
            .collect::<Result<Vec<_>, Error>>()?;
        if keys.is_empty() {
            return Err(Error::Empty {
                path: lines.lines.path().to_owned(),
                expected: "keys",
            });
        }
        Ok(keys)
    }

    /// An error at a line.
    pub fn refuse(path: &Path, line: u64, problem: CorpusProblem) -> Error {
        Error::Line {
            path: PathBuf::from(path),
            line,
            problem,
        }
    }

    fn advance(&mut self) -> Result<Option<Located<String>>, Error> {
        let Some((line, key)) = self.lines.advance()? else {
            return Ok(None);
        };
        Ok(Some(Located {
            value: key.to_owned(),
            line,
        }))
    }
}

impl Iterator for KeyLines {
    type Item = Result<Located<String>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.txt");
        fs_err::write(&path, bytes).unwrap();
        KeyLines::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_lines_whoever_wrote_them() {
        let expected = Ok(vec!["k0".to_owned(), " k 1".to_owned()]);
        assert_eq!(read(b"k0\n k 1\n"), expected);
        assert_eq!(read(b"\xef\xbb\xbfk0\r\n\r\n k 1"), expected);
        assert_eq!(
            read(&zstd::encode_all(&b"\xef\xbb\xbfk0\n k 1\n"[..], 1).unwrap()),
            expected
        );
        assert!(read(b"\xff\xfek\x000\0").unwrap_err().contains("UTF-16"));
        assert!(read(b"k0\n\xff\n").unwrap_err().contains("keys.txt:2: not valid UTF-8"));
        assert_eq!(
            read(b"old\0key\n"),
            Ok(vec!["old\0key".to_owned()]),
            "an earlier release may have indexed it"
        );
        assert!(read(b"\n\n").unwrap_err().contains("holds no keys"));
    }
}
