//! Built indexes, kept in the work directory: an index is built once per engine, version, settings and data.
//!
//! ```text
//! CACHE/index/<engine>-<key>/record.json    what was built, from what, how long it took
//! CACHE/index/<engine>-<key>/files/         what the engine wrote
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::protocol::{Built, Described, Request};
use crate::dataset::Metric;
use crate::harness::{Error, Result, Worker, unix_time};

/// What is to be built.
#[derive(Debug, Clone)]
pub(super) struct Recipe<'a> {
    /// `.npy` float32.
    pub base: &'a Path,
    /// Hash of the data.
    pub data_key: &'a str,
    /// How vectors are compared.
    pub metric: Metric,
    /// Links per node.
    pub m: usize,
    /// Beam width while building.
    pub ef_construction: usize,
    /// Threads that build.
    pub threads: usize,
    /// Seed of what is random.
    pub seed: u64,
    /// A kept index does not count.
    pub rebuild: bool,
}

/// What is known of a built index.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The key in words.
    pub made_from: String,
    /// Hash of the program that built it: this binary, or the scripts that call a peer.
    pub program: String,
    /// Seconds and bytes.
    pub built: Built,
    /// Unix time of the build.
    pub at: u64,
}

/// An index on disk.
#[derive(Debug, Clone)]
pub(super) struct Index {
    /// Where the engine's files are.
    pub files: PathBuf,
    /// What is known of it.
    pub record: Record,
    /// It was there already.
    pub reused: bool,
}

/// When a kept index is good enough.
#[derive(Debug, Clone, Default)]
pub struct Reuse {
    /// Engines that are built anew, by names that may stand for several.
    pub rebuild: Vec<String>,
    /// Takes indexes that another build of this program made, or other scripts of the peers.
    pub other_programs: bool,
    /// Hash of this program.
    pub program: String,
    /// Hash of the scripts that call the peers.
    pub peers_program: String,
}

/// Finds a kept index, or has the worker build one.
pub(super) fn build_or_reuse(
    worker: &mut Worker,
    described: &Described,
    recipe: &Recipe<'_>,
    cache: &Path,
    reuse: &Reuse,
    deadline: Duration,
) -> Result<Index> {
    let name = worker.engine().to_owned();
    let ours = super::worker::ENGINES.contains(&name.as_str());
    let program = if ours { reuse.program.clone() } else { reuse.peers_program.clone() };
    // Our settings tell of the search as well; of our builder the program's hash tells.
    let settings = if ours { "" } else { &described.settings };
    let made_from = format!(
        "{name} {} | {settings} | {} | {} | m {} | ef_construction {} | threads {} | seed {}",
        described.version,
        recipe.data_key,
        recipe.metric.name(),
        recipe.m,
        recipe.ef_construction,
        recipe.threads,
        recipe.seed
    );
    let dir = cache.join("index").join(format!("{name}-{:016x}", xxh3_64(made_from.as_bytes())));
    let (record_path, files) = (dir.join("record.json"), dir.join("files"));
    if record_path.exists() && !recipe.rebuild {
        let record = read(&record_path)?;
        if record.made_from == made_from && (record.program == program || reuse.other_programs) {
            return Ok(Index { files: fs_err::canonicalize(files)?, record, reused: true });
        }
    }
    if dir.exists() {
        fs_err::remove_dir_all(&dir)?;
    }
    fs_err::create_dir_all(&files)?;
    let files = fs_err::canonicalize(files)?;
    let request = Request::Build {
        base: recipe.base.to_owned(),
        metric: recipe.metric,
        m: recipe.m,
        ef_construction: recipe.ef_construction,
        threads: recipe.threads,
        seed: recipe.seed,
        dir: files.clone(),
    };
    let built: Built = worker.ask(&request, deadline)?;
    let record = Record { made_from, program, built, at: unix_time() };
    let text = serde_json::to_string_pretty(&record).map_err(std::io::Error::from)?;
    fs_err::write(record_path, text + "\n")?;
    Ok(Index { files, record, reused: false })
}

fn read(path: &Path) -> Result<Record> {
    let text = fs_err::read(path)?;
    serde_json::from_slice(&text).map_err(|error| Error::Cache { path: path.to_owned(), problem: error.to_string() })
}
