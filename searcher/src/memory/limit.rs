//! The memory that this process may use: what its cgroup (v2) and those above it allow, or else what the machine has.
//!
//! The files are described in the kernel's `Documentation/admin-guide/cgroup-v2.rst` and `proc_pid_mountinfo(5)`.

use std::path::{Component, Path, PathBuf};

use super::{Resident, kib, mib};

/// A limit and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// The limit.
    pub bytes: u64,
    /// A file of the system, or the option.
    pub source: String,
    /// Bytes below this limit that others hold now, and that the kernel cannot take from them.
    pub others: u64,
}

impl std::fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (`{}`)", mib(self.bytes), self.source)
    }
}

/// Files of a cgroup with a limit: above the first it is ended, above the second it is slowed down and its pages are dropped.
const LIMITS: [&str; 2] = ["memory.max", "memory.high"];

impl MemoryLimit {
    /// As the operator says.
    pub fn given(bytes: u64, option: &str) -> Self {
        Self { bytes, source: option.to_owned(), others: 0 }
    }

    /// The lowest limit of the process's cgroup, the cgroups above it and the machine; none where the system says none.
    pub fn of_system() -> Option<Self> {
        Self::read(Path::new("/"), Resident::now().anonymous)
    }

    /// The same of a system whose files are below `root`, for a process with `own` bytes of anonymous memory.
    fn read(root: &Path, own: u64) -> Option<Self> {
        let text = |path: &Path| {
            let inside = path.strip_prefix("/").unwrap_or(path);
            fs_err::read_to_string(root.join(inside)).unwrap_or_default()
        };
        let proc = |name: &str| text(&Path::new("/proc").join(name));
        let mut limits: Vec<Self> = machine(&proc("meminfo"), own).into_iter().collect();
        for folder in cgroups(&proc("self/cgroup"), &proc("self/mountinfo")) {
            let file = |name: &str| text(&folder.join(name));
            for name in LIMITS {
                if let Some(bytes) = number(&file(name)) {
                    let others = held(&file("memory.current"), &file("memory.stat")).saturating_sub(own);
                    limits.push(Self { bytes, source: folder.join(name).display().to_string(), others });
                }
            }
        }
        limits.into_iter().min_by_key(|limit| limit.bytes)
    }
}

/// Of the text of `/proc/meminfo`.
fn machine(meminfo: &str, own: u64) -> Option<MemoryLimit> {
    let bytes = kib(meminfo, "MemTotal:")?;
    let available = kib(meminfo, "MemAvailable:").unwrap_or(bytes);
    let others = bytes.saturating_sub(available).saturating_sub(own);
    Some(MemoryLimit { bytes, source: "MemTotal of /proc/meminfo".to_owned(), others })
}

/// The folders of the process's cgroup and those above it, as far as they are mounted: of the texts of `/proc/self/cgroup` and
/// `/proc/self/mountinfo`.
fn cgroups(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
    let Some(path) = cgroup.lines().find_map(|line| line.strip_prefix("0::")) else { return Vec::new() };
    let Some((root, mounted)) = mountinfo.lines().find_map(cgroup2_mount) else { return Vec::new() };
    // A container may see its path on the host: then what is mounted is its own cgroup, or one above it.
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    let below = if below.components().all(|part| matches!(part, Component::Normal(_))) { below } else { Path::new("") };
    below
        .ancestors()
        .map(|below| if below.as_os_str().is_empty() { mounted.clone() } else { mounted.join(below) })
        .collect()
}

/// What is mounted, and where, of a line of `/proc/self/mountinfo`; none where it is no hierarchy of cgroups v2.
fn cgroup2_mount(line: &str) -> Option<(PathBuf, PathBuf)> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(3);
    let (root, mounted) = (unescaped(fields.next()?), unescaped(fields.next()?));
    (kind.split(' ').next()? == "cgroup2").then_some((root, mounted))
}

/// A path of `/proc/self/mountinfo`, with the characters that are escaped there.
fn unescaped(field: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(field.to_owned(), |field, (escape, character)| field.replace(escape, character)).into()
}

/// The text of a file with one number; none for `max`.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Bytes of a cgroup that the kernel cannot take back, of the texts of `memory.current` and `memory.stat`: all but the pages of files
/// on disks, and caches of the kernel.
fn held(current: &str, stat: &str) -> u64 {
    let of = |name: &str| stat.lines().find_map(|line| number(line.strip_prefix(name)?.strip_prefix(' ')?));
    let bytes = |name| of(name).unwrap_or_default();
    let files = bytes("file").saturating_sub(bytes("shmem"));
    let all = number(current).unwrap_or_default();
    all.saturating_sub(files).saturating_sub(bytes("slab_reclaimable"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
        24 22 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

    /// A system with these files.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        root
    }

    fn read(files: &[(&str, &str)]) -> Option<(u64, String, u64)> {
        let limit = MemoryLimit::read(system(files).path(), 100)?;
        Some((limit.bytes, limit.source, limit.others))
    }

    const MACHINE: (&str, &str) = ("proc/meminfo", "MemTotal: 16 kB\nMemFree: 1 kB\nMemAvailable: 12 kB\n");
    const GROUP: (&str, &str) = ("proc/self/cgroup", "1:cpu:/x\n0::/a/b\n");
    const MOUNTED: (&str, &str) = ("proc/self/mountinfo", MOUNTS);

    #[test]
    fn the_lowest_limit_of_all_cgroups_above_and_of_the_machine_counts() {
        let own = ("sys/fs/cgroup/a/b/memory.max", "9000\n");
        let above = ("sys/fs/cgroup/a/memory.max", "8000\n");
        let current = ("sys/fs/cgroup/a/memory.current", "5000\n");
        let stat =
            ("sys/fs/cgroup/a/memory.stat", "anon 900\nfile 3000\nshmem 200\nfile_mapped 7\nslab_reclaimable 50\n");
        // Without the process's own 100 bytes: 5000 - (3000 - 200) - 50 - 100.
        let found = read(&[MACHINE, GROUP, MOUNTED, own, above, current, stat]);
        assert_eq!(found, Some((8000, "/sys/fs/cgroup/a/memory.max".into(), 2050)));
        let high = ("sys/fs/cgroup/a/b/memory.high", "7000");
        let found = read(&[MACHINE, GROUP, MOUNTED, own, above, high]);
        assert_eq!(found, Some((7000, "/sys/fs/cgroup/a/b/memory.high".into(), 0)));
        let large = ("sys/fs/cgroup/a/memory.max", "80000");
        let machine = Some((16 << 10, "MemTotal of /proc/meminfo".to_owned(), (4 << 10) - 100));
        assert_eq!(read(&[MACHINE, GROUP, MOUNTED, large]), machine);
        // In a container that sees no more than its own cgroup.
        let (root, of_container) = (("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "5000"));
        let found = read(&[MACHINE, root, MOUNTED, of_container]);
        assert_eq!(found, Some((5000, "/sys/fs/cgroup/memory.max".into(), 0)));
    }

    #[test]
    fn what_says_no_limit_or_nonsense_is_none() {
        let machine = read(&[MACHINE]);
        assert!(machine.is_some());
        for text in ["max\n", "", "-1", "1e9", "12 MiB", "99999999999999999999999", "\u{0}\u{0}"] {
            assert_eq!(read(&[MACHINE, GROUP, MOUNTED, ("sys/fs/cgroup/a/b/memory.max", text)]), machine, "{text}");
        }
        for (path, text) in [("proc/self/cgroup", "0:/a/b"), ("proc/self/mountinfo", "24 22 0:22 / - cgroup2")] {
            let max = ("sys/fs/cgroup/a/b/memory.max", "1");
            let files = [MACHINE, GROUP, MOUNTED, max].map(|file| if file.0 == path { (path, text) } else { file });
            assert_eq!(read(&files), machine, "{path}");
        }
        assert_eq!(read(&[]), None);
        for text in ["", "MemTotal:", "MemTotal: lots kB", "MemTotal: 16"] {
            assert_eq!(read(&[("proc/meminfo", text)]), None, "{text}");
        }
        let no_stat = ("sys/fs/cgroup/a/b/memory.current", "many");
        let found = read(&[MACHINE, GROUP, MOUNTED, ("sys/fs/cgroup/a/b/memory.max", "5"), no_stat]);
        assert_eq!(found, Some((5, "/sys/fs/cgroup/a/b/memory.max".into(), 0)));
    }

    #[test]
    fn the_folders_lead_from_the_own_cgroup_to_the_mounted_one() {
        let of = |path: &str, mounts: &str| {
            let found = cgroups(&format!("0::{path}"), mounts);
            found.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of("/a/b", MOUNTS), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]);
        assert_eq!(of("/", MOUNTS), ["/sys/fs/cgroup"]);
        // A process that was moved out of what its namespace sees.
        assert_eq!(of("/../other", MOUNTS), ["/sys/fs/cgroup"]);
        // A container that sees the host's path, with its own cgroup mounted; and paths with spaces.
        let inside = "30 1 0:22 /docker/x /my\\040groups ro - cgroup2 cgroup rw";
        assert_eq!(of("/docker/x", inside), ["/my groups"]);
        assert_eq!(of("/docker/x/y", inside), ["/my groups/y", "/my groups"]);
        assert_eq!(of("/docker/other", inside), ["/my groups"]);
        assert_eq!(of("/a", "30 1 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"), [""; 0]);
    }
}
