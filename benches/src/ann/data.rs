//! A workload's vectors, made ready: base and queries as float32 `.npy` for the workers, in memory for recall, and exact
//! neighbours. What had to be computed is kept in the work directory under a key over the data.

use std::path::{Path, PathBuf};

use dyad_command::Cancellation;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};
use zerocopy::IntoBytes as _;

use super::workload::{Data, Workload};
use crate::dataset::{
    self, Matrix, Metric, Neighbours, exact, exact_unless, make_unit, npy, read_neighbours, read_vectors,
    require_finite, synthetic, write_neighbours,
};
use crate::harness::{Error, Result, check};

/// Queries whose neighbours are computed again, to see that given neighbours belong to these vectors.
const CHECKED: usize = 5;
/// Part of the key; raise it when files in the work directory change their meaning.
const CACHE_VERSION: u32 = 2;

/// Vectors ready for a run.
#[derive(Debug)]
pub struct Ready {
    pub(crate) base: Matrix,
    pub(crate) base_path: PathBuf,
    pub(crate) queries: Matrix,
    pub(crate) queries_path: PathBuf,
    pub(crate) truth: Neighbours,
    pub(crate) key: String,
}

/// Reads or makes the vectors of a workload; `note` hears what takes time. [`Error::Interrupted`] soon after it is
/// cancelled.
pub fn prepare(workload: &Workload, cache: &Path, cancel: &Cancellation, note: &dyn Fn(&str)) -> Result<Ready> {
    let data = &workload.data;
    let mut raw = match (&data.synthetic, &data.hdf5, &data.base, &data.queries) {
        (Some(parameters), ..) => synthesize(parameters, workload, cache, cancel, note)?,
        (_, Some(path), ..) => from_hdf5(path, workload)?,
        (_, _, Some(base), Some(queries)) => from_files([base, queries], data)?,
        _ => return Err(Error::file(Path::new(&workload.name), "`data`: nothing to read")),
    };
    check(cancel)?;
    raw.cut(data);
    raw.check(workload.metric)?;
    check(cancel)?;
    let key = key(workload.metric, &raw.base, &raw.queries);
    let dir = cache.join("data").join(&key);
    fs_err::create_dir_all(&dir)?;
    let base_path = written(&dir.join("base.npy"), &raw.base)?;
    let queries_path = written(&dir.join("queries.npy"), &raw.queries)?;
    check(cancel)?;
    let truth = truth(&raw, workload, &dir, cancel, note)?;
    Ok(Ready { base: raw.base, base_path, queries: raw.queries, queries_path, truth, key })
}

/// Vectors as they came.
struct Raw {
    base: Matrix,
    queries: Matrix,
    /// Of base and queries.
    paths: [PathBuf; 2],
    truth: Option<(Neighbours, PathBuf)>,
    /// Rows are to be scaled to unit length whatever their length.
    any_length: bool,
}

fn from_files(paths: [&Path; 2], data: &Data) -> Result<Raw> {
    Ok(Raw {
        base: read_vectors(paths[0])?,
        queries: read_vectors(paths[1])?,
        truth: data
            .neighbours
            .as_ref()
            .map(|path| Ok::<_, Error>((read_neighbours(path)?, path.clone())))
            .transpose()?,
        any_length: data.normalise,
        paths: paths.map(Path::to_owned),
    })
}

/// Refuses data for another metric than the workload's.
fn check_metric(workload: &Workload, metric: Metric, of: &str) -> Result<()> {
    let (expected, got) = (metric.name(), workload.metric.name());
    let problem = || format!("`metric`: expected `{expected}` {of}, got `{got}`");
    if expected == got { Ok(()) } else { Err(Error::file(Path::new(&workload.name), problem())) }
}

fn synthesize(
    parameters: &synthetic::Synthetic,
    workload: &Workload,
    cache: &Path,
    cancel: &Cancellation,
    note: &dyn Fn(&str),
) -> Result<Raw> {
    check_metric(workload, parameters.metric(), "for synthetic data of this kind")?;
    let words = serde_json::to_string(parameters).map_err(std::io::Error::from)?;
    let key = format!("synthetic-{:032x}", xxh3_128(format!("{CACHE_VERSION} {words}").as_bytes()));
    let dir = cache.join("data").join(key);
    let [base_path, queries_path] = ["base.npy", "queries.npy"].map(|name| dir.join(name));
    if !queries_path.exists() {
        note(&format!("making {} vectors of {} values", parameters.n, parameters.dim));
        fs_err::create_dir_all(&dir)?;
        let [base, queries] = ["base.part.npy", "queries.part.npy"].map(|name| dir.join(name));
        synthetic::write(parameters, &base, &queries, &|_| {}, cancel)?;
        fs_err::rename(base, &base_path)?;
        fs_err::rename(queries, &queries_path)?;
    }
    from_files([&base_path, &queries_path], &Data { normalise: workload.data.normalise, ..Data::default() })
}

fn from_hdf5(path: &Path, workload: &Workload) -> Result<Raw> {
    let dataset::hdf5::Hdf5 { base, queries, neighbours, metric, any_length } = dataset::hdf5::read(path)?;
    check_metric(workload, metric, &format!("as in `{}`", path.display()))?;
    let truth = neighbours.map(|truth| (truth, path.to_owned()));
    let any_length = any_length || workload.data.normalise;
    Ok(Raw { base, queries, paths: [path.to_owned(), path.to_owned()], truth, any_length })
}

impl Raw {
    /// Keeps the first rows and queries where the workload says so.
    fn cut(&mut self, data: &Data) {
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

    fn check(&mut self, metric: Metric) -> Result<()> {
        let [base_path, queries_path] = &self.paths;
        if self.base.dim() != self.queries.dim() {
            let (expected, got) = (self.base.dim(), self.queries.dim().to_string());
            let expected = format!("{expected} as in `{}`", base_path.display());
            let (path, field) = (queries_path.clone(), "d".to_owned());
            return Err(dataset::Error::Malformed { path, field, expected, got }.into());
        }
        for (path, matrix) in [(base_path, &mut self.base), (queries_path, &mut self.queries)] {
            match metric {
                Metric::Ip => drop(make_unit(path, matrix, self.any_length)?),
                Metric::L2 => require_finite(path, matrix)?,
            }
        }
        Ok(())
    }
}

/// Writes vectors as float32 `.npy` where they are not there yet; the path is absolute.
fn written(path: &Path, matrix: &Matrix) -> Result<PathBuf> {
    if !path.exists() {
        let part = path.with_extension("part");
        npy::write_vectors(&part, matrix)?;
        fs_err::rename(part, path)?;
    }
    Ok(fs_err::canonicalize(path)?)
}

fn key(metric: Metric, base: &Matrix, queries: &Matrix) -> String {
    let mut hash = Xxh3::new();
    hash.update(format!("{CACHE_VERSION} {} {} {}", metric.name(), base.dim(), base.len()).as_bytes());
    hash.update(base.values().as_bytes());
    hash.update(queries.values().as_bytes());
    format!("{:032x}", hash.digest128())
}

/// Given neighbours after a check, kept ones, or computed ones.
fn truth(raw: &Raw, workload: &Workload, dir: &Path, cancel: &Cancellation, note: &dyn Fn(&str)) -> Result<Neighbours> {
    if let Some((truth, path)) = &raw.truth {
        check_truth(raw, truth, path, workload)?;
        return Ok(truth.clone());
    }
    let depth = workload.k.max(100).min(raw.base.len());
    let path = dir.join(format!("truth-{depth}.ibin"));
    if path.exists() {
        let truth = read_neighbours(&path)?;
        check_truth(raw, &truth, &path, workload)?;
        return Ok(truth);
    }
    note(&format!("computing exact neighbours: {} queries, {} rows", raw.queries.len(), raw.base.len()));
    let found = exact_unless(&raw.base, &raw.queries, depth, workload.metric, cancel);
    let (truth, scores) = found?;
    let part = path.with_extension("part");
    write_neighbours(&part, &truth, &scores)?;
    fs_err::rename(part, path)?;
    Ok(truth)
}

/// Neighbours must be as many as queries, deep enough, ids of rows, and for a few queries as near as the exact ones.
fn check_truth(raw: &Raw, truth: &Neighbours, path: &Path, workload: &Workload) -> Result<()> {
    let fail = |field: &str, expected: String, got: String| {
        Err(dataset::Error::Malformed { path: path.to_owned(), field: field.to_owned(), expected, got }.into())
    };
    if truth.len() != raw.queries.len() {
        return fail("n", format!("{} lists, one per query", raw.queries.len()), truth.len().to_string());
    }
    let wanted = workload.k.min(raw.base.len());
    if truth.k() < wanted {
        return fail("k", format!("at least {wanted} neighbours per query"), truth.k().to_string());
    }
    if let Some(id) = truth.values().iter().find(|id| **id as usize >= raw.base.len()) {
        return fail("ids", format!("rows below {}", raw.base.len()), id.to_string());
    }
    let step = (raw.queries.len() / CHECKED).max(1);
    let sample: Vec<usize> = (0..raw.queries.len()).step_by(step).take(CHECKED).collect();
    let rows = sample.iter().flat_map(|query| raw.queries.row(*query)).copied().collect();
    let (found, _) = exact(&raw.base, &Matrix::new(raw.queries.dim(), rows), wanted, workload.metric);
    for (at, query) in sample.into_iter().enumerate() {
        let worst = |ids: &[u32]| {
            let score = |id: &u32| workload.metric.score(raw.queries.row(query), raw.base.row(*id as usize));
            ids.iter().take(wanted).map(score).fold(f64::INFINITY, f64::min)
        };
        let (given, best) = (worst(truth.row(query)), worst(found.row(at)));
        if (given - best).abs() > 1e-4 * best.abs().max(1.0) {
            return fail(
                &format!("query {query}"),
                format!("the nearest rows: {wanted} of them score at least {best:.6}"),
                format!("rows that score down to {given:.6}; are these the neighbours of other vectors?"),
            );
        }
    }
    Ok(())
}
