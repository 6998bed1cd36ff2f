//! The memory that this process may use, what its cgroup (of either version) and those above it allow, or else what the
//! machine has; and what it has now.
//!
//! The files are described in the kernel's `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/memory.rst`, and in
//! `proc_pid_mountinfo(5)`.

use std::path::{Component, Path, PathBuf};

/// A limit and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessMemoryLimit {
    /// The limit.
    pub bytes: u64,
    /// A file of the system, or the option.
    pub source: String,
    /// Bytes below this limit that others hold now, and that the kernel cannot take from them.
    pub others: u64,
}

impl std::fmt::Display for ProcessMemoryLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (`{}`)", mib(self.bytes), self.source)
    }
}

/// Files of a cgroup with a limit: above the first it is ended, above the second it is slowed down and its pages are
/// dropped; of version 1 there is the third alone.
const LIMITS: [&str; 3] = ["memory.max", "memory.high", "memory.limit_in_bytes"];

impl ProcessMemoryLimit {
    /// As the operator says.
    pub fn from_option(bytes: u64, option: &str) -> Self {
        Self {
            bytes,
            source: option.to_owned(),
            others: 0,
        }
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
                    let held = bytes_held(&file("memory.current"), &file("memory.stat"))
                        .max(held_v1(&file("memory.usage_in_bytes"), &file("memory.stat")));
                    let others = held.saturating_sub(own);
                    limits.push(Self {
                        bytes,
                        source: folder.join(name).display().to_string(),
                        others,
                    });
                }
            }
        }
        limits.into_iter().min_by_key(|limit| limit.bytes)
    }
}

/// Of the text of `/proc/meminfo`.
fn machine(meminfo: &str, own: u64) -> Option<ProcessMemoryLimit> {
    let bytes = kib(meminfo, "MemTotal:")?;
    let available = kib(meminfo, "MemAvailable:").unwrap_or(bytes);
    let others = bytes.saturating_sub(available).saturating_sub(own);
    Some(ProcessMemoryLimit {
        bytes,
        source: "MemTotal of /proc/meminfo".to_owned(),
        others,
    })
}

/// The folders of the process's cgroups and those above them, as far as they are mounted: of the texts of
/// `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn cgroups(cgroup: &str, mountinfo: &str) -> Vec<PathBuf> {
    let hierarchies = cgroup.lines().filter_map(|line| {
        let (root, mounted) = mountinfo.lines().find_map(|mount| {
            let name = hierarchy(mount)?;
            if line.split(':').nth(1)?.split(',').any(|controller| controller == name) {
                place(mount)
            } else {
                None
            }
        })?;
        let path = line.splitn(3, ':').nth(2)?;
        // A container may see its path on the host: then what is mounted is its own cgroup, or one above it.
        let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new("")).to_owned();
        let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
        Some((if inside { below } else { PathBuf::new() }, mounted))
    });
    hierarchies
        .flat_map(|(below, mounted)| folders_above(&below, &mounted))
        .collect()
}

/// The folder `below` a mounted one, and all between the two.
fn folders_above(below: &Path, mounted: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for above in below.ancestors() {
        folders.push(if above.as_os_str().is_empty() {
            mounted.to_owned()
        } else {
            mounted.join(above)
        });
    }
    folders
}

/// How `/proc/self/cgroup` names what a line of `/proc/self/mountinfo` mounts: `memory`, or nothing for the hierarchy
/// of version 2; none for all else.
fn hierarchy(line: &str) -> Option<&'static str> {
    let mut fields = line.split_once(" - ")?.1.split(' ');
    match fields.next()? {
        "cgroup2" => Some(""),
        "cgroup" => fields
            .nth(1)?
            .split(',')
            .any(|option| option == "memory")
            .then_some("memory"),
        _ => None,
    }
}

/// What a line of `/proc/self/mountinfo` mounts, and where.
fn place(line: &str) -> Option<(PathBuf, PathBuf)> {
    let mut fields = line.split(' ').skip(3);
    Some((unescaped(fields.next()?), unescaped(fields.next()?)))
}

/// A path of `/proc/self/mountinfo`, with the characters that are escaped there.
fn unescaped(field: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes
        .iter()
        .fold(field.to_owned(), |field, (escape, character)| {
            field.replace(escape, character)
        })
        .into()
}

/// The text of a file with one number; none for `max`.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Bytes of a cgroup that the kernel cannot take back, of the texts of `memory.current` and `memory.stat`: all but the
/// pages of files on disks, and caches of the kernel.
fn bytes_held(current: &str, stat: &str) -> u64 {
    let bytes = |name| stat_value(stat, name).unwrap_or_default();
    let files = bytes("file").saturating_sub(bytes("shmem"));
    let all = number(current).unwrap_or_default();
    all.saturating_sub(files).saturating_sub(bytes("slab_reclaimable"))
}

/// The value of a name in the text of `memory.stat`.
fn stat_value(stat: &str, name: &str) -> Option<u64> {
    stat.lines()
        .find_map(|line| number(line.strip_prefix(name)?.strip_prefix(' ')?))
}

/// The same of version 1, which counts a cgroup's own descendants in fields named `total_`.
fn held_v1(usage: &str, stat: &str) -> u64 {
    let bytes = |name| stat_value(stat, name).unwrap_or_default();
    number(usage)
        .unwrap_or_default()
        .saturating_sub(bytes("total_cache").saturating_sub(bytes("total_shmem")))
}

/// Bytes of this process that are in memory now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    /// Anonymous.
    pub anonymous: u64,
    /// Bytes of mapped files, those of tmpfs among them.
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
        Self {
            anonymous: bytes("RssAnon:"),
            file: bytes("RssFile:").saturating_add(bytes("RssShmem:")),
        }
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
        let limit = ProcessMemoryLimit::read(system(files).path(), 100)?;
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
        let stat = (
            "sys/fs/cgroup/a/memory.stat",
            "anon 900\nfile 3000\nshmem 200\nfile_mapped 7\nslab_reclaimable 50\n",
        );
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
        for text in [
            "max\n",
            "",
            "-1",
            "1e9",
            "12 MiB",
            "99999999999999999999999",
            "\u{0}\u{0}",
        ] {
            assert_eq!(
                read(&[MACHINE, GROUP, MOUNTED, ("sys/fs/cgroup/a/b/memory.max", text)]),
                machine,
                "{text}"
            );
        }
        for (path, text) in [
            ("proc/self/cgroup", "0:/a/b"),
            ("proc/self/mountinfo", "24 22 0:22 / - cgroup2"),
        ] {
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
            found
                .iter()
                .map(|folder| folder.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of("/a/b", MOUNTS),
            ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup"]
        );
        assert_eq!(of("/", MOUNTS), ["/sys/fs/cgroup"]);
        // A process that was moved out of what its namespace sees.
        assert_eq!(of("/../other", MOUNTS), ["/sys/fs/cgroup"]);
        // A container that sees the host's path, with its own cgroup mounted; and paths with spaces.
        let inside = "30 1 0:22 /docker/x /my\\040groups ro - cgroup2 cgroup rw";
        assert_eq!(of("/docker/x", inside), ["/my groups"]);
        assert_eq!(of("/docker/x/y", inside), ["/my groups/y", "/my groups"]);
        assert_eq!(of("/docker/other", inside), ["/my groups"]);
        assert_eq!(
            of("/a", "30 1 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"),
            [""; 0]
        );
    }

    #[test]
    fn a_limit_of_version_1_counts_too() {
        let mounted = (
            "proc/self/mountinfo",
            "29 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             30 25 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             31 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        let group = ("proc/self/cgroup", "9:cpu,cpuacct:/elsewhere\n5:memory:/a/b\n0::/a\n");
        let above = ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "7000\n");
        let usage = ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "5000\n");
        let stat = (
            "sys/fs/cgroup/memory/a/memory.stat",
            "cache 1\ntotal_cache 3000\ntotal_shmem 200\n",
        );
        let unlimited = (
            "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        // Without the process's own 100 bytes: 5000 - (3000 - 200) - 100.
        let found = read(&[MACHINE, group, mounted, above, usage, stat, unlimited]);
        assert_eq!(
            found,
            Some((7000, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes".into(), 2100))
        );
    }

    #[test]
    fn anonymous_memory_and_pages_of_files_are_told_apart() {
        let status = "Name:\tx\nVmRSS:\t 90 kB\nRssAnon:\t      20 kB\nRssFile:\t      64 kB\nRssShmem:\t       6 kB\n";
        assert_eq!(
            Resident::parse(status),
            Resident {
                anonymous: 20 << 10,
                file: 70 << 10
            }
        );
        for nonsense in [
            "",
            "RssAnon:",
            "RssAnon: many kB",
            "RssAnon: -3 kB",
            "RssAnon: 3",
            "XRssAnon: 3 kB",
        ] {
            assert_eq!(Resident::parse(nonsense), Resident::default(), "{nonsense}");
        }
        assert_eq!(
            Resident::parse(&format!("RssAnon: {} kB", u64::MAX)),
            Resident::default()
        );
        let now = Resident::now();
        assert!(now.anonymous > 0 && now.file > 0, "{now:?}");
    }

    #[test]
    fn bytes_are_told_in_mib() {
        assert_eq!((mib(3 << 19).as_str(), mib(0).as_str()), ("1.5 MiB", "0.0 MiB"));
    }
}
