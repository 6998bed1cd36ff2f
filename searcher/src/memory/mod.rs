//! The memory of the process: what it may use, what it has, and what its indexes need, told apart into anonymous memory, which the
//! kernel cannot take back, and pages of files, which it reads again where it has dropped them.
//!
//! | file | contents |
//! |---|---|
//! | `limit.rs` | the limit: of the cgroup (v2), or the machine's memory |
//! | `need.rs` | what indexes, caches and buffers need, and the refusal of an index that does not fit |

mod limit;
mod need;

pub use limit::MemoryLimit;
pub use need::{DoesNotFit, IndexMemory, MemoryNeed, ProcessMemory};

/// Bytes of this process that are in memory now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    /// Anonymous.
    pub anonymous: u64,
    /// Of mapped files, those of tmpfs among them.
    pub file: u64,
}

impl Resident {
    /// Zero where the kernel does not say.
    pub fn now() -> Self {
        Self::parse(&fs_err::read_to_string("/proc/self/status").unwrap_or_default())
    }

    /// Of the text of `/proc/self/status`.
    fn parse(status: &str) -> Self {
        let bytes = |name| kib(status, name).unwrap_or_default();
        Self { anonymous: bytes("RssAnon:"), file: bytes("RssFile:").saturating_add(bytes("RssShmem:")) }
    }
}

/// Bytes of a line such as `RssAnon:    1234 kB`, as in `/proc/self/status` and `/proc/meminfo`.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Bytes in MiB, for people.
pub fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_and_pages_of_files_are_told_apart() {
        let status = "Name:\tx\nVmRSS:\t 90 kB\nRssAnon:\t      20 kB\nRssFile:\t      64 kB\nRssShmem:\t       6 kB\n";
        assert_eq!(Resident::parse(status), Resident { anonymous: 20 << 10, file: 70 << 10 });
        for nonsense in ["", "RssAnon:", "RssAnon: many kB", "RssAnon: -3 kB", "RssAnon: 3", "XRssAnon: 3 kB"] {
            assert_eq!(Resident::parse(nonsense), Resident::default(), "{nonsense}");
        }
        assert_eq!(Resident::parse(&format!("RssAnon: {} kB", u64::MAX)), Resident::default());
        let now = Resident::now();
        assert!(now.anonymous > 0 && now.file > 0, "{now:?}");
    }

    #[test]
    fn bytes_are_told_in_mib() {
        assert_eq!((mib(3 << 19).as_str(), mib(0).as_str()), ("1.5 MiB", "0.0 MiB"));
    }
}
