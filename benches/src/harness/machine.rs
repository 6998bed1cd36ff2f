//! Where and when a run took place.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

/// Processor features that a search may use.
const FEATURES: [&str; 12] = [
    "avx2",
    "fma",
    "f16c",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512_vnni",
    "avx_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "asimddp",
    "sve",
];

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Name of the processor.
    pub cpu: String,
    /// Threads that this process may use.
    pub threads: usize,
    /// Features of the processor that matter here.
    pub features: Vec<String>,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Our kernels as chosen in this process.
    pub kernels: &'static str,
    /// `DYAD_KERNELS`, where it forces some.
    pub forced_kernels: Option<String>,
    /// The operating system's kernel.
    pub system: String,
}

/// The source and the time of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Short hash of the commit; `-dirty` where files differ from it; `unknown` outside of a repository.
    pub revision: String,
    /// UTC day, `YYYY-MM-DD`.
    pub date: String,
    /// Unix time.
    pub unix_time: u64,
}

impl Stamp {
    /// The name of a record of a workload.
    pub fn record(&self, workload: &str) -> String {
        format!("{workload}-{}-{}", self.date, self.revision)
    }
}

/// Reads `/proc`; what cannot be read is empty or 0.
pub fn machine() -> Machine {
    let read = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
    let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
        line.map(|value| value.trim().to_owned()).unwrap_or_default()
    };
    let flags = [field(&cpu, "flags"), field(&cpu, "Features")].join(" ");
    let has = |feature: &&str| flags.split(' ').any(|flag| flag == *feature);
    let kilobytes = field(&memory, "MemTotal").trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0);
    Machine {
        cpu: field(&cpu, "model name"),
        threads: threads(0),
        features: FEATURES.iter().filter(|feature| has(feature)).map(|feature| (*feature).to_owned()).collect(),
        memory_bytes: kilobytes * 1024,
        kernels: dyad_index::kernels::kernels().name,
        forced_kernels: std::env::var_os("DYAD_KERNELS").map(|value| value.to_string_lossy().into_owned()),
        system: read("/proc/sys/kernel/osrelease").trim().to_owned(),
    }
}

/// So many threads; for 0 as many as this process may use.
pub fn threads(wanted: usize) -> usize {
    if wanted > 0 { wanted } else { std::thread::available_parallelism().map_or(1, std::num::NonZero::get) }
}

/// Now, and the commit of the working directory.
pub fn stamp() -> Stamp {
    let unix_time = unix_time();
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success().then_some(text)
    };
    let revision = git(&["rev-parse", "--short=9", "HEAD"]).map(|hash| {
        let dirty = git(&["status", "--porcelain", "--untracked-files=no"]).is_some_and(|changes| !changes.is_empty());
        if dirty { hash + "-dirty" } else { hash }
    });
    Stamp { revision: revision.unwrap_or_else(|| "unknown".to_owned()), date: day(unix_time), unix_time }
}

/// Seconds since 1970.
pub fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// The UTC day of a Unix time.
fn day(unix_time: u64) -> String {
    let moment = i64::try_from(unix_time).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    moment.unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// Hash of a program's file; empty where it cannot be read.
pub fn program_hash(path: &Path) -> String {
    let Ok(bytes) = fs_err::read(path) else { return String::new() };
    let mut hash = Xxh3::new();
    hash.update(&bytes);
    format!("{:032x}", hash.digest128())
}

/// Hash of a peers' worker: the script, and all `.py` files of the folder of its name beside it. Empty where the script
/// cannot be read.
pub fn scripts_hash(script: &Path) -> String {
    let folder = fs_err::read_dir(script.with_extension(""));
    let mut parts: Vec<PathBuf> =
        folder.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path()).collect();
    parts.retain(|path| path.extension().is_some_and(|ending| ending == "py"));
    parts.sort();
    let Ok(bytes) = fs_err::read(script) else { return String::new() };
    let mut hash = Xxh3::new();
    hash.update(&bytes);
    for path in parts {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = fs_err::read(&path).unwrap_or_default();
        hash.update(format!("\n{name} {}\n", bytes.len()).as_bytes());
        hash.update(&bytes);
    }
    format!("{:032x}", hash.digest128())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_of_the_peers_counts_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (script, folder) = (dir.path().join("ann.py"), dir.path().join("ann"));
        assert_eq!(scripts_hash(&script), "");
        fs_err::write(&script, "a").unwrap();
        let alone = scripts_hash(&script);
        fs_err::create_dir(&folder).unwrap();
        fs_err::write(folder.join("hnsw.py"), "b").unwrap();
        let with_one = scripts_hash(&script);
        fs_err::write(folder.join("hnsw.pyc"), "c").unwrap();
        assert_eq!(scripts_hash(&script), with_one);
        fs_err::write(folder.join("hnsw.py"), "d").unwrap();
        let changed = scripts_hash(&script);
        assert!(!alone.is_empty() && alone != with_one && with_one != changed);
    }

    #[test]
    fn days_of_the_calendar() {
        for (time, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (951_868_800, "2000-03-01"),
            (1_767_225_599, "2025-12-31"),
            (1_767_225_600, "2026-01-01"),
        ] {
            assert_eq!(day(time), expected);
        }
    }
}
