//! The work directory: one run at a time in it, and an index is built once per engine, version, settings and data.
//!
//! ```text
//! CACHE/index/<engine>-<key>/record.json    what was built, from what, how long it took
//! CACHE/index/<engine>-<key>/files/         what the engine wrote
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_files::{DirLock, LockError};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::data::Ready;
use super::protocol::{Build, Built, Described, Request};
use super::workload::Workload;
use crate::harness::{Error, Result, SCRATCH, Worker, unix_time};

/// Takes the work directory for as long as a run uses it; it is created where it does not exist. Says which process holds it
/// otherwise. Removes the scratch folders of processes that are gone.
pub fn lock_cache(cache: &Path) -> Result<DirLock> {
    fs_err::create_dir_all(cache)?;
    let lock = DirLock::acquire(cache, Duration::ZERO).map_err(|error| match error {
        LockError::Held { dir, holder } => Error::CacheInUse { path: dir, holder },
        LockError::Io(error) => error.into(),
    })?;
    for entry in fs_err::read_dir(cache)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(Ok(process)) = name.strip_prefix(SCRATCH).map(str::parse::<u32>) else { continue };
        if !Path::new(&format!("/proc/{process}")).exists() {
            fs_err::remove_dir_all(entry.path())?;
        }
    }
    Ok(lock)
}

/// What is known of a built index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The key in words.
    pub(super) made_from: String,
    /// Hash of the program that built it: this binary, or the scripts that call a peer.
    pub(super) program: String,
    /// Seconds and bytes.
    pub built: Built,
    /// Unix time of the build.
    pub(super) at: u64,
}

/// An index on disk.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) files: PathBuf,
    pub(super) record: Record,
    /// It was there already.
    pub(super) reused: bool,
}

/// When a kept index is good enough.
#[derive(Debug, Clone, Default)]
pub struct Reuse {
    /// Engines that are built again, by names that may stand for several.
    pub rebuild: Vec<String>,
    /// Takes indexes that another build of this program made, or other scripts of the peers.
    pub other_programs: bool,
    /// Hash of this program.
    pub program: String,
    /// Hash of the scripts that call the peers.
    pub peers_program: String,
}

/// Finds a kept index, or has the worker build one of these vectors; with `rebuild` always.
pub(super) fn build_or_reuse(
    worker: &mut Worker,
    described: &Described,
    (workload, ready): (&Workload, &Ready),
    (cache, reuse, rebuild): (&Path, &Reuse, bool),
    deadline: Duration,
) -> Result<Index> {
    let name = worker.engine().to_owned();
    let ours = super::worker::ENGINES.contains(&name.as_str());
    let program = if ours { reuse.program.clone() } else { reuse.peers_program.clone() };
    // Our settings tell of the search as well; of our builder the program's hash tells.
    let settings = if ours { "" } else { &described.settings };
    let &Workload { metric, m, ef_construction, seed, .. } = workload;
    let (threads, version, key, metric_name) = (workload.all_threads(), &described.version, &ready.key, metric.name());
    let made_from = format!(
        "{name} {version} | {settings} | {key} | {metric_name} | m {m} | ef_construction {ef_construction} | threads {threads} | seed {seed}",
    );
    let dir = cache.join("index").join(format!("{name}-{:016x}", xxh3_64(made_from.as_bytes())));
    let (record_path, files) = (dir.join("record.json"), dir.join("files"));
    if record_path.exists() && !rebuild {
        let read = serde_json::from_slice(&fs_err::read(&record_path)?);
        let record: Record = read.map_err(|error| Error::kept(&record_path, error))?;
        if record.made_from == made_from && (record.program == program || reuse.other_programs) {
            return Ok(Index { files: fs_err::canonicalize(files)?, record, reused: true });
        }
    }
    if dir.exists() {
        fs_err::remove_dir_all(&dir)?;
    }
    fs_err::create_dir_all(&files)?;
    let files = fs_err::canonicalize(files)?;
    let (base, dir) = (ready.base_path.clone(), files.clone());
    let job = Build { base, metric, m, ef_construction, threads, seed, dir };
    let built = worker.ask(&Request::Build(job), deadline)?;
    let record = Record { made_from, program, built, at: unix_time() };
    let text = serde_json::to_string_pretty(&record).map_err(std::io::Error::from)?;
    fs_err::write(record_path, text + "\n")?;
    Ok(Index { files, record, reused: false })
}
