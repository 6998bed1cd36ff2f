//! The approximate-search harness with workers whose recall and speed are known (`fake_worker.py`).
//!
//! | file | contents |
//! |---|---|
//! | `runs.rs` | order, ratios, reuse of an index |
//! | `failures.rs` | workers that fail, are late or are not there; interrupts |
//! | `workloads.rs` | sweeps by engine, and the workloads of the repository |

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_bench::ann::{AnnJob, AnnMeasurement, AnnWorkload, prepare, run};
use dyad_bench::harness::{EngineSettings, WorkerPrograms};
use dyad_command::JobCancellation;
use tempfile::TempDir;

use crate::fake;

mod failures;
mod runs;
mod workloads;

const WORKLOAD: &str = r#"
name = "tiny"
metric = "ip"
repeats = 3
threaded_repeats = 1
threads = 2
targets = [0.5, 0.7, 0.9]

[data.synthetic]
kind = "clustered"
n = 120
dim = 8
queries = 6
clusters = 4
intrinsic = 3
"#;

/// A folder with a workload and the fake worker; `None`, and said so, where there is no Python to run it.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
    pub(crate) workload: AnnWorkload,
}

impl Bench {
    pub(crate) fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        fake::worker(dir.path(), "fake_worker.py", include_str!("../fake_worker.py"))?;
        let toml = dir.path().join("tiny.toml");
        fs_err::write(&toml, WORKLOAD).unwrap();
        let workload = AnnWorkload::read(&toml, None).unwrap();
        Some(Self { dir, workload })
    }

    pub(crate) fn job(&self, engines: &[&str], cancel: &JobCancellation) -> AnnJob<'_> {
        let script = self.dir.path().join("fake_worker.py");
        let settings = EngineSettings {
            engines: engines.iter().map(|&name| name.to_owned()).collect(),
            programs: WorkerPrograms {
                ours: script.clone(),
                python: PathBuf::from("python3"),
                peers: script,
            },
            cache: self.dir.path().join("cache"),
            deadline: Duration::from_secs(3),
            cancel: cancel.clone(),
        };
        AnnJob::new(&self.workload, settings, Duration::from_secs(20))
    }

    fn measure(&self, engines: &[&str]) -> AnnMeasurement {
        let job = self.job(engines, &JobCancellation::new());
        fs_err::create_dir_all(&job.settings.cache).unwrap();
        let ready = prepare(&self.workload, &job.settings.cache, &JobCancellation::new(), &|_| {}).unwrap();
        run(&job, &ready, &|_| {}).unwrap()
    }

    /// What the workers were asked: process, engine, and the request in words.
    fn log(&self) -> Vec<(u32, String, String)> {
        let text = fs_err::read_to_string(self.dir.path().join("log")).unwrap();
        let parse = |line: &str| {
            let mut words = line.splitn(3, ' ').map(str::to_owned);
            (
                words.next().unwrap().parse().unwrap(),
                words.next().unwrap(),
                words.next().unwrap().trim().to_owned(),
            )
        };
        text.lines().map(parse).collect()
    }
}

fn alive(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

fn names(measured: &AnnMeasurement) -> Vec<&str> {
    measured
        .engines
        .iter()
        .map(|run| run.described.engine.as_str())
        .collect()
}
