//! A workload's vectors, made ready in the work directory: base and queries as float32 `.npy`, and exact neighbours.
//! The base is mapped, here for recall and in the workers for builds: all of them share one copy, of which the system
//! may drop pages where memory is short.

use std::path::{Path, PathBuf};
use std::time::Duration;

use dyad_command::JobCancellation;
use dyad_files::{DirLock, LockError};
use xxhash_rust::xxh3::Xxh3;
use zerocopy::IntoBytes as _;

use super::workload::{AnnWorkload, WorkloadVectors};
use crate::dataset::{
    Matrix, Neighbours, VectorMetric, exact, hdf5, make_unit, npy, read_neighbours, read_vectors, require_finite,
};
use crate::error::{BenchError, BenchResult, check};
use crate::harness::SCRATCH;

/// Queries whose neighbours are computed again, to see that given neighbours belong to these vectors.
const CHECKED: usize = 5;

/// Takes the work directory for as long as a run uses it; it is created where it does not exist. Says which process
/// holds it otherwise. Removes the scratch folders of processes that are gone.
pub fn lock_cache(cache: &Path) -> BenchResult<DirLock> {
    fs_err::create_dir_all(cache)?;
    let lock = DirLock::acquire(cache, Duration::ZERO).map_err(|error| match error {
        LockError::Held { dir, holder } => BenchError::file(
            &dir,
            format!("in use by process {holder}: wait for it to end, or give another folder with --cache"),
        ),
        LockError::Io(error) => error.into(),
    })?;
    for entry in fs_err::read_dir(cache)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(Ok(process)) = name.strip_prefix(SCRATCH).map(str::parse::<u32>) else {
            continue;
        };
        if !Path::new(&format!("/proc/{process}")).exists() {
            fs_err::remove_dir_all(entry.path())?;
        }
    }
    Ok(lock)
}

/// Vectors ready for a run.
#[derive(Debug)]
pub struct ReadyVectors {
    pub(crate) base: Matrix,
    pub(crate) base_path: PathBuf,
    pub(crate) queries: Matrix,
    pub(crate) queries_path: PathBuf,
    pub(crate) truth: Neighbours,
}

/// Reads or makes the vectors of a workload; `note` hears what takes time. [`BenchError::Interrupted`] soon after it is
/// cancelled.
pub fn prepare(
    workload: &AnnWorkload,
    cache: &Path,
    cancel: &JobCancellation,
    note: &dyn Fn(&str),
) -> BenchResult<ReadyVectors> {
    let data = &workload.data;
    let cache = fs_err::canonicalize(cache)?;
    let [base_path, queries_path] = ["base.npy", "queries.npy"].map(|name| cache.join(name));
    let mut raw = match (&data.synthetic, &data.hdf5, &data.base, &data.queries) {
        (Some(synthetic), ..) => {
            check_metric(workload, synthetic.metric(), "for synthetic data of this kind")?;
            note(&format!("making {} vectors of {} values", synthetic.n, synthetic.dim));
            remove_earlier(&base_path)?;
            synthetic.write(&base_path, &queries_path, &|_| check(cancel))?;
            let (base, queries) = (npy::map_vectors(&base_path)?, npy::read_vectors(&queries_path)?);
            let paths = [base_path.clone(), queries_path.clone()];
            Raw {
                base,
                queries,
                paths,
                truth: None,
                any_length: data.normalise,
            }
        }
        (_, Some(path), ..) => from_hdf5(path, workload)?,
        (_, _, Some(base), Some(queries)) => from_files([base, queries], data)?,
        _ => return Err(BenchError::file(Path::new(&workload.name), "`data`: nothing to read")),
    };
    check(cancel)?;
    raw.cut(data);
    raw.check(workload.metric)?;
    check(cancel)?;
    // What is still mapped is that very file.
    if !raw.base.is_mapped() {
        remove_earlier(&base_path)?;
        npy::write_vectors(&base_path, &raw.base)?;
        raw.base = npy::map_vectors(&base_path)?;
    }
    npy::write_vectors(&queries_path, &raw.queries)?;
    let truth = if let Some((truth, path)) = raw.truth.take() {
        raw.check_truth(&truth, &path, workload, cancel)?;
        truth
    } else {
        note(&format!(
            "computing exact neighbours: {} queries, {} rows",
            raw.queries.len(),
            raw.base.len()
        ));
        exact(&raw.base, &raw.queries, workload.k, workload.metric, cancel)?.0
    };
    Ok(ReadyVectors {
        base: raw.base,
        base_path,
        queries: raw.queries,
        queries_path,
        truth,
    })
}

impl ReadyVectors {
    /// Hash of the vectors that indexes are built of.
    pub(super) fn key(&self) -> String {
        let mut hash = Xxh3::new();
        hash.update(format!("{} {}", self.base.dim(), self.base.len()).as_bytes());
        hash.update(self.base.values().as_bytes());
        format!("{:032x}", hash.digest128())
    }
}

/// Vectors as they came.
struct Raw {
    base: Matrix,
    queries: Matrix,
    /// Files of base and queries.
    paths: [PathBuf; 2],
    truth: Option<(Neighbours, PathBuf)>,
    /// Rows are to be scaled to unit length whatever their length.
    any_length: bool,
}

fn from_files(paths: [&Path; 2], data: &WorkloadVectors) -> BenchResult<Raw> {
    let read = |path: &PathBuf| -> BenchResult<_> { Ok((read_neighbours(path)?, path.clone())) };
    Ok(Raw {
        base: read_vectors(paths[0])?,
        queries: read_vectors(paths[1])?,
        truth: data.neighbours.as_ref().map(read).transpose()?,
        any_length: data.normalise,
        paths: paths.map(Path::to_owned),
    })
}

/// Removes the vectors of an earlier run. They are not written over: a worker that has survived that run may still map
/// them.
fn remove_earlier(path: &Path) -> BenchResult<()> {
    if path.exists() {
        fs_err::remove_file(path)?;
    }
    Ok(())
}

/// Refuses data for another metric than the workload's.
fn check_metric(workload: &AnnWorkload, metric: VectorMetric, of: &str) -> BenchResult<()> {
    let (expected, got) = (metric.name(), workload.metric.name());
    if expected == got {
        return Ok(());
    }
    Err(BenchError::malformed(
        Path::new(&workload.name),
        "`metric`",
        format!("`{expected}` {of}"),
        format!("`{got}`"),
    ))
}

fn from_hdf5(path: &Path, workload: &AnnWorkload) -> BenchResult<Raw> {
    let hdf5::Hdf5 {
        base,
        queries,
        neighbours,
        metric,
        any_length,
    } = hdf5::read(path)?;
    check_metric(workload, metric, &format!("as in `{}`", path.display()))?;
    let truth = neighbours.map(|truth| (truth, path.to_owned()));
    let any_length = any_length || workload.data.normalise;
    Ok(Raw {
        base,
        queries,
        paths: [path.to_owned(), path.to_owned()],
        truth,
        any_length,
    })
}

impl Raw {
    /// Keeps the first rows and queries where the workload says so.
    fn cut(&mut self, data: &WorkloadVectors) {
        if let Some(limit) = data.limit.filter(|limit| *limit < self.base.len()) {
            self.base.truncate(limit);
            self.truth = None;
        }
        if let Some(limit) = data.limit_queries.filter(|limit| *limit < self.queries.len()) {
            self.queries.truncate(limit);
            if let Some((truth, _)) = &mut self.truth {
                truth.truncate(limit);
            }
        }
    }

    fn check(&mut self, metric: VectorMetric) -> BenchResult<()> {
        let [base_path, queries_path] = &self.paths;
        if self.base.dim() != self.queries.dim() {
            let expected = format!("{} as in `{}`", self.base.dim(), base_path.display());
            return Err(BenchError::malformed(queries_path, "d", expected, self.queries.dim()));
        }
        for (path, matrix) in [(base_path, &mut self.base), (queries_path, &mut self.queries)] {
            match metric {
                VectorMetric::Ip => make_unit(path, matrix, self.any_length)?,
                VectorMetric::Dot | VectorMetric::L2 => require_finite(path, matrix)?,
            }
        }
        Ok(())
    }

    /// Neighbours must be as many as queries, deep enough, ids of rows, and for a few queries as near as the exact
    /// ones.
    fn check_truth(
        &self,
        truth: &Neighbours,
        path: &Path,
        workload: &AnnWorkload,
        cancel: &JobCancellation,
    ) -> BenchResult<()> {
        let (queries, rows, wanted) = (self.queries.len(), self.base.len(), workload.k.min(self.base.len()));
        let fail = |field: &str, expected: String, got: String| Err(BenchError::malformed(path, field, expected, got));
        if truth.len() != queries {
            return fail("n", format!("{queries} lists, one per query"), truth.len().to_string());
        }
        if truth.k() < wanted {
            return fail(
                "k",
                format!("at least {wanted} neighbours per query"),
                truth.k().to_string(),
            );
        }
        if let Some(id) = truth.values().iter().find(|id| **id as usize >= rows) {
            return fail("ids", format!("rows below {rows}"), id.to_string());
        }
        for query in (0..queries).step_by((queries / CHECKED).max(1)).take(CHECKED) {
            let values = self.queries.row(query);
            let one = Matrix::new(values.len(), values.to_vec());
            let (found, _) = exact(&self.base, &one, wanted, workload.metric, cancel)?;
            let worst = |ids: &[u32]| {
                let score = |id: &u32| workload.metric.score(values, self.base.row(*id as usize));
                ids.iter().take(wanted).map(score).fold(f64::INFINITY, f64::min)
            };
            let (given, best) = (worst(truth.row(query)), worst(found.row(0)));
            if (given - best).abs() > 1e-4 * best.abs().max(1.0) {
                let expected = format!("the nearest rows: {wanted} of them score at least {best:.6}");
                let got = format!("rows that score down to {given:.6}; are these the neighbours of other vectors?");
                return fail(&format!("query {query}"), expected, got);
            }
        }
        Ok(())
    }
}
