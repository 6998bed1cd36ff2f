//! Checks the free disk space before a job starts, and sizes in bytes as people write them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A job that cannot start for lack of disk space.
#[derive(Debug, thiserror::Error)]
pub enum SpaceError {
    /// Less free space than the job needs.
    #[error(
        "`{}` needs about {} of disk, and {} are free. Free some space, use a directory on another disk, or start anyway \
         with `--skip-space-check`",
        dir.display(), ByteSize(*needed), ByteSize(*free)
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
    let there = absolute
        .ancestors()
        .find(|path| path.exists())
        .map_or_else(|| PathBuf::from("/"), Path::to_owned);
    let disk = rustix::fs::statvfs(&there)?;
    // Some network file systems do not know their size.
    Ok(if disk.f_blocks == 0 {
        u64::MAX
    } else {
        disk.f_bavail.saturating_mul(disk.f_frsize)
    })
}

/// Bytes of a file, or of all files below a directory.
pub fn bytes_below(path: &Path) -> io::Result<u64> {
    let found = fs_err::symlink_metadata(path)?;
    if !found.is_dir() {
        return Ok(found.len());
    }
    fs_err::read_dir(path)?.map(|entry| bytes_below(&entry?.path())).sum()
}

/// Skips the check.
pub fn boundless(_: &Path) -> io::Result<u64> {
    Ok(u64::MAX)
}

/// Refuses a job that will write `needed` bytes to `dir` where fewer are `free`.
pub fn check_space(dir: &Path, needed: u64, free: FreeSpace) -> Result<(), SpaceError> {
    let free = free(dir)?;
    if needed <= free {
        Ok(())
    } else {
        Err(SpaceError::Full {
            dir: dir.to_owned(),
            needed,
            free,
        })
    }
}

/// Units of sizes, each 1024 times the one before.
const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];

/// A size for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    /// A whole number of bytes, or of a unit: `500000`, `512MiB`, `4 GiB`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || format!("expected a number of bytes, or of KiB, MiB, GiB or TiB (`4GiB`), got `{text}`");
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let unit = text.strip_prefix(digits).unwrap_or_default().trim();
        let shift = match UNITS.iter().position(|known| known.eq_ignore_ascii_case(unit)) {
            Some(at) => 10 * (at + 1),
            None if unit.is_empty() || unit.eq_ignore_ascii_case("B") => 0,
            None => return Err(refused()),
        };
        let number: u64 = digits.parse().map_err(|_| refused())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(refused)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut size = self.0 as f64;
        let mut unit = "B";
        for larger in UNITS {
            if size < 1024.0 {
                break;
            }
            size /= 1024.0;
            unit = larger;
        }
        if unit == "B" {
            write!(f, "{} B", self.0)
        } else {
            write!(f, "{size:.1} {unit}")
        }
    }
}

/// Whether an error says that the disk, or the user's quota of it, is full.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_the_largest_fitting_unit() {
        let written: Vec<String> = [0, 1_023, 1_024, 1 << 20, 5 << 40]
            .map(|size| ByteSize(size).to_string())
            .into();
        assert_eq!(written, ["0 B", "1023 B", "1.0 KiB", "1.0 MiB", "5.0 TiB"]);
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        let read = |text: &str| text.parse::<ByteSize>().map(|ByteSize(bytes)| bytes);
        for (text, bytes) in [
            ("0", 0),
            ("1023", 1_023),
            ("7 B", 7),
            ("512MiB", 512 << 20),
            ("4 gib", 4 << 30),
            ("5TiB", 5 << 40),
        ] {
            assert_eq!(read(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "GiB",
            "-1",
            "1.5GiB",
            "4GB",
            "4 GiB more",
            "17000000TiB",
            "18446744073709551616",
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.contains(&format!("got `{text}`")) && error.contains("4GiB"),
                "{error}"
            );
        }
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
}
