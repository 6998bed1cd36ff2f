//! Checks the free disk space before a job starts.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A job that cannot start for lack of disk space.
#[derive(Debug, thiserror::Error)]
pub enum SpaceError {
    /// Less free space than the job needs.
    #[error(
        "`{}` needs about {} of disk, and {} are free. Free some space, use a directory on another disk, or start anyway \
         with `--skip-space-check`",
        dir.display(), Bytes(*needed), Bytes(*free)
    )]
    Full {
        /// Where it is to be written.
        dir: PathBuf,
        /// Bytes that will be written.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The free space is unknown.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A function that returns the free bytes of the disk of a path, which need not exist.
pub type FreeSpace = fn(&Path) -> io::Result<u64>;

/// The bytes that this user may still write; for a path that does not exist, on the disk of its nearest ancestor.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let absolute = std::path::absolute(path)?;
    let there = absolute.ancestors().find(|path| path.exists()).map_or_else(|| PathBuf::from("/"), Path::to_owned);
    let disk = rustix::fs::statvfs(&there)?;
    // Some network file systems do not know their size.
    Ok(if disk.f_blocks == 0 { u64::MAX } else { disk.f_bavail.saturating_mul(disk.f_frsize) })
}

/// Skips the check.
pub fn boundless(_: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}

/// Refuses a job that will write `needed` bytes to `dir` where fewer are `free`.
pub fn check_space(dir: &Path, needed: u64, free: FreeSpace) -> Result<(), SpaceError> {
    let free = free(dir)?;
    if needed <= free { Ok(()) } else { Err(SpaceError::Full { dir: dir.to_owned(), needed, free }) }
}

/// A size for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = ["KiB", "MiB", "GiB", "TiB"];
        let mut size = self.0 as f64;
        let mut unit = "B";
        for larger in units {
            if size < 1024.0 {
                break;
            }
            size /= 1024.0;
            unit = larger;
        }
        if unit == "B" { write!(f, "{} B", self.0) } else { write!(f, "{size:.1} {unit}") }
    }
}

/// Bytes as people write them: `4GiB`, `512MiB`, `1.5GiB`, or a number of bytes.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("expected a size such as 4GiB or 512MiB, got `{text}`");
    let text = text.trim();
    let digits = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let power = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|known| *known == unit.trim());
    let power = if unit.is_empty() { Some(0) } else { power };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = number * 1024_f64.powi(power.ok_or_else(wrong)? as i32);
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_the_largest_fitting_unit() {
        let written: Vec<String> = [0, 1_023, 1_024, 1 << 20, 5 << 40].map(|size| Bytes(size).to_string()).into();
        assert_eq!(written, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5.0 TiB"]);
    }

    #[test]
    fn what_fits_begins_and_what_does_not_is_told_with_both_sizes() {
        let little: FreeSpace = |_| Ok(5 << 20);
        let dir = Path::new("out");
        check_space(dir, 5 << 20, little).unwrap();
        check_space(dir, u64::MAX, boundless).unwrap();
        assert_eq!(
            check_space(dir, (5 << 20) + 1, little).unwrap_err().to_string(),
            "`out` needs about 5.0 MiB of disk, and 5.0 MiB are free. Free some space, use a directory on another disk, or start \
             anyway with `--skip-space-check`"
        );
        // The free space is that of the nearest ancestor's disk.
        let folder = tempfile::tempdir().unwrap();
        check_space(&folder.path().join("not/there/yet"), 1, free_space).unwrap();
        check_space(folder.path(), u64::MAX - 1, free_space).unwrap_err();
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        let read =
            [("4GiB", 4 << 30), ("512 MiB", 512 << 20), ("1.5KiB", 1536), ("77", 77), ("0B", 0), ("2TiB", 2 << 40)];
        for (text, bytes) in read {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "GiB", "4GB", "-1GiB", "1e3", "4GiBs", "99999999999TiB", "1.2.3MiB"] {
            assert!(parse_bytes(text).unwrap_err().contains("4GiB"), "{text}");
        }
    }
}
