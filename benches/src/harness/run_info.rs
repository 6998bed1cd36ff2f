//! What was measured, where and when: the machine, the source and the conditions of a run.

use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Processor features that a search may use.
const FEATURES: &str =
    "avx2 fma f16c avx512f avx512bw avx512vl avx512_vnni avx_vnni avx512_bf16 avx512_fp16 asimddp sve";

/// The machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MachineInfo {
    /// Model name, with family, model and stepping where the kernel gives them.
    pub(crate) cpu: String,
    /// Threads that this process may use.
    pub(crate) threads: usize,
    /// Features of the processor that matter here.
    pub(crate) features: Vec<String>,
    pub(crate) memory_bytes: u64,
    /// Our kernels as chosen in this process.
    pub(crate) kernels: &'static str,
    /// `DYAD_KERNELS`, where it forces some.
    pub(crate) forced_kernels: Option<String>,
    /// The operating system's kernel.
    pub(crate) system: String,
}

impl MachineInfo {
    /// Reads `/proc`; what cannot be read is empty or 0.
    pub(crate) fn this() -> Self {
        let read = |path: &str| fs_err::read_to_string(path).unwrap_or_default();
        let (cpu, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
        let flags = [field(&cpu, "flags"), field(&cpu, "Features")].join(" ");
        let has = |feature: &&str| flags.split(' ').any(|flag| flag == *feature);
        // The model name of a virtual machine may name no more than a family of products.
        let parts = ["cpu family", "model", "stepping"].map(|name| field(&cpu, name));
        let identity = format!("(family {} model {} stepping {})", parts[0], parts[1], parts[2]);
        let identity = if parts.iter().any(String::is_empty) {
            String::new()
        } else {
            identity
        };
        let kilobytes = field(&memory, "MemTotal")
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .unwrap_or(0);
        Self {
            cpu: [field(&cpu, "model name"), identity].join(" ").trim().to_owned(),
            threads: threads(0),
            features: FEATURES.split(' ').filter(has).map(str::to_owned).collect(),
            memory_bytes: kilobytes * 1024,
            kernels: dyad_index::kernels::kernels().name,
            forced_kernels: std::env::var_os("DYAD_KERNELS").map(|value| value.to_string_lossy().into_owned()),
            system: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// The value of a line `NAME : VALUE`; nothing where there is none.
fn field(text: &str, name: &str) -> String {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'));
    value.map(|value| value.trim().to_owned()).unwrap_or_default()
}

/// The source and the time of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInfo {
    /// Short hash of the commit; `-dirty` where files differ from it; `unknown` outside of a repository.
    pub(crate) revision: String,
    /// UTC day, `YYYY-MM-DD`.
    pub(crate) date: String,
    pub(crate) unix_time: u64,
}

impl RunInfo {
    /// Now, and the commit of the working directory.
    pub(crate) fn now() -> Self {
        let revision = git(&["rev-parse", "--short=9", "HEAD"]).map(|hash| {
            let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
            if changes.is_some_and(|changes| !changes.is_empty()) {
                hash + "-dirty"
            } else {
                hash
            }
        });
        let unix_time = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Self {
            revision: revision.unwrap_or_else(|| "unknown".to_owned()),
            date: day(unix_time),
            unix_time,
        }
    }

    /// The name of a record of a workload.
    pub(crate) fn record(&self, workload: &str) -> String {
        format!("{workload}-{}-{}", self.date, self.revision)
    }
}

/// What git says in the working directory; nothing where it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The given number of threads; for 0 as many as this process may use.
pub(crate) fn threads(wanted: usize) -> usize {
    if wanted > 0 {
        wanted
    } else {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }
}

/// The UTC day of a Unix time.
pub(super) fn day(unix_time: u64) -> String {
    let moment = i64::try_from(unix_time)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    moment.unwrap_or_default().strftime("%Y-%m-%d").to_string()
}

/// The conditions of a run of engines that open a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunConditions {
    pub(crate) workload: String,
    /// The name of the model's directory.
    pub(crate) model: String,
    /// Device on which the engines computed.
    pub(crate) device: String,
    /// Threads of every engine.
    pub(crate) threads: usize,
    /// Timed passes.
    pub(crate) repeats: usize,
    /// Engines asked for.
    #[serde(skip)]
    pub(crate) asked: Vec<String>,
    pub(crate) machine: MachineInfo,
    pub(crate) stamp: RunInfo,
}
