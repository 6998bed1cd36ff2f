//! Synthetic data of any size that is as hard to search as embeddings are: clusters of very different sizes, each of
//! low intrinsic dimension, and files that are written without ever holding the set in memory.
//!
//! A row is `centre + spread * (patch) + noise`, scaled to unit length or to its own. The patch is a normal point in
//! the cluster's own `intrinsic` directions, whose lengths fall like `1 / sqrt(j)`, as the spectra of embeddings do.
//! Centres are themselves normal points in few shared directions, so that clusters have near and far neighbours, and
//! share a common mean, as text embeddings do.
//!
//! Row `i` depends on the parameters other than `n`, the seed and `i` alone. So a set can be written by any number of
//! threads, a smaller set is the beginning of a larger one, and the queries are the rows after the last one.

use std::io::Write as _;
use std::path::Path;

use dyad_files::npy::{self, NpyDtype};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus as Random;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::formats::{create_bin, write_values};
use super::matrix::VectorMetric;
use crate::error::{BenchError, BenchResult};

/// Directions that the centres are spread in.
const CENTRE_DIRECTIONS: usize = 96;
/// Length of the mean that all rows share, where a centre's own part has length 1.
const COMMON: f64 = 0.45;
/// Standard deviation of the logarithms of lengths, where these differ.
const LENGTH_SPREAD: f64 = 0.3;
/// Streams of the generator: below are rows, above the parts of the clusters.
const CLUSTER_STREAMS: u64 = 1 << 48;
/// Mean, width and largest of SIFT-like values.
const SIFT: (f64, f64, f64) = (16.0, 48.0, 218.0);
/// Bytes of rows that are made at once.
const PIECE_BYTES: usize = 16 << 20;

/// What the rows look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SyntheticKind {
    /// Unit vectors, as text embeddings are; for inner products.
    Clustered,
    /// Vectors like these in lengths that are log-normally distributed (sigma 0.3), as models trained by inner products
    /// make them; for these.
    ClusteredDot,
    /// Whole numbers from 0 to 218, many of them 0, as SIFT descriptors are; for Euclidean distance.
    SiftLike,
}

/// Parameters of a set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct SyntheticData {
    /// What the rows look like.
    #[arg(long, value_enum, default_value = "clustered")]
    pub kind: SyntheticKind,
    /// Rows.
    #[arg(long)]
    pub n: usize,
    /// Values per row.
    #[arg(long, default_value_t = 384)]
    pub dim: usize,
    /// Queries: rows of the same kind that are not in the set.
    #[arg(long, default_value_t = queries())]
    #[serde(default = "queries")]
    pub queries: usize,
    /// Clusters.
    #[arg(long, default_value_t = clusters())]
    #[serde(default = "clusters")]
    pub clusters: usize,
    /// Directions in which a cluster extends.
    #[arg(long, default_value_t = intrinsic())]
    #[serde(default = "intrinsic")]
    pub intrinsic: usize,
    /// Length of a cluster's extent, where its centre has length 1.
    #[arg(long, default_value_t = spread())]
    #[serde(default = "spread")]
    pub spread: f64,
    /// Length of the noise in all directions.
    #[arg(long, default_value_t = noise())]
    #[serde(default = "noise")]
    pub noise: f64,
    /// The i-th largest cluster has a share of rows like 1 / i to this power.
    #[arg(long, default_value_t = zipf())]
    #[serde(default = "zipf")]
    pub zipf: f64,
    /// Decides everything that is random.
    #[arg(long, default_value_t = 0)]
    #[serde(default)]
    pub seed: u64,
}

// Of the command line, and of keys that a workload does not name.
defaults! {
    queries: usize = 1_000;
    clusters: usize = 1_000;
    intrinsic: usize = 64;
    spread: f64 = 1.6;
    noise: f64 = 0.6;
    zipf: f64 = 0.9;
}

impl SyntheticData {
    /// The metric that rows of this kind are for.
    pub fn metric(&self) -> VectorMetric {
        match self.kind {
            SyntheticKind::Clustered => VectorMetric::Ip,
            SyntheticKind::ClusteredDot => VectorMetric::Dot,
            SyntheticKind::SiftLike => VectorMetric::L2,
        }
    }

    /// Refuses parameters that make no data.
    pub fn check(&self) -> Result<(), String> {
        let Self {
            n,
            dim,
            queries,
            clusters,
            intrinsic,
            spread,
            noise,
            zipf,
            ..
        } = *self;
        let counts = [
            ("n", n),
            ("dim", dim),
            ("queries", queries),
            ("clusters", clusters),
            ("intrinsic", intrinsic),
        ];
        let count = counts
            .iter()
            .find(|(_, value)| *value == 0 || u32::try_from(*value).is_err());
        let lengths = [("spread", spread), ("noise", noise), ("zipf", zipf)];
        let length = lengths.iter().find(|(_, value)| !(0.0..=100.0).contains(value));
        let count = count.map(|(field, got)| format!("`{field}`: expected 1 to 2^32 - 1, got {got}"));
        let wrong = count.or_else(|| length.map(|(field, got)| format!("`{field}`: expected 0 to 100, got {got}")));
        wrong.map_or(Ok(()), |wrong| Err(format!("synthetic data: {wrong}")))
    }

    /// Writes the rows to `base` and the queries to `queries`, each `.npy` (float32) or `.fbin`. The files are the same
    /// for every number of threads. `advance` hears of rows written, and may end the work.
    pub fn write(&self, base: &Path, queries: &Path, advance: &dyn Fn(usize) -> BenchResult<()>) -> BenchResult<()> {
        self.check().map_err(BenchError::Refused)?;
        let (clusters, dim, n) = (Clusters::new(self), self.dim, self.n as u64);
        for (path, rows) in [(base, 0..n), (queries, n..n + self.queries as u64)] {
            let count = (rows.end - rows.start) as usize;
            let mut out = match path.extension().and_then(|ending| ending.to_str()) {
                Some("npy") => npy::create(path, NpyDtype::F32, &[count, dim])?,
                Some("fbin") => create_bin(path, count, dim)?,
                other => {
                    return Err(BenchError::malformed(
                        path,
                        "ending",
                        ".npy or .fbin",
                        format!("{other:?}"),
                    ));
                }
            };
            let piece = (PIECE_BYTES / (4 * dim)).max(1) as u64;
            for start in rows.clone().step_by(piece as usize) {
                let count = piece.min(rows.end - start) as usize;
                let mut values = vec![0.0f32; count * dim];
                values
                    .par_chunks_mut(dim)
                    .enumerate()
                    .for_each(|(at, out)| clusters.fill(start + at as u64, out));
                write_values(&mut out, &values)?;
                advance(count)?;
            }
            out.flush()?;
        }
        Ok(())
    }
}

/// Everything that rows share.
struct Clusters<'a> {
    parameters: &'a SyntheticData,
    /// `[clusters, dim]`.
    centres: Vec<f32>,
    /// `[clusters, intrinsic, dim]`; already scaled.
    directions: Vec<f32>,
    /// Share of rows in the clusters up to each.
    cumulative: Vec<f64>,
}

impl<'a> Clusters<'a> {
    fn new(parameters: &'a SyntheticData) -> Self {
        let SyntheticData {
            dim,
            clusters,
            intrinsic,
            spread,
            zipf,
            seed,
            ..
        } = *parameters;
        let mut stream = CLUSTER_STREAMS;
        let mut next = || {
            stream += 1;
            stream_of(seed, stream)
        };
        let shared = directions(&mut next(), CENTRE_DIRECTIONS, dim, 1.0);
        let common = directions(&mut next(), 1, dim, COMMON);
        let (mut centres, mut own) = (
            Vec::with_capacity(clusters * dim),
            Vec::with_capacity(clusters * intrinsic * dim),
        );
        for _ in 0..clusters {
            let mut random = next();
            let mut centre = vec![0.0f32; dim];
            add_normal(&mut centre, &shared, &mut random);
            scale_to(&mut centre, 1.0);
            centre
                .iter_mut()
                .zip(&common)
                .for_each(|(value, common)| *value += common);
            scale_to(&mut centre, 1.0);
            centres.extend(centre);
            own.extend(directions(&mut random, intrinsic, dim, spread));
        }
        let weight = |rank: usize| 1.0 / ((rank + 1) as f64).powf(zipf);
        let total: f64 = (0..clusters).map(weight).sum();
        let cumulative = (0..clusters).scan(0.0, |sum, rank| {
            *sum += weight(rank) / total;
            Some(*sum)
        });
        Self {
            parameters,
            centres,
            directions: own,
            cumulative: cumulative.collect(),
        }
    }

    /// Samples the cluster of a row, 0 being the largest, from the row's own stream.
    fn sample(&self, random: &mut Random) -> usize {
        let at: f64 = random.random();
        self.cumulative
            .partition_point(|sum| *sum < at)
            .min(self.cumulative.len().saturating_sub(1))
    }

    /// Writes a row into `out`, which holds `dim` values. Any number makes a row; those from `n` on are queries.
    fn fill(&self, row: u64, out: &mut [f32]) {
        let SyntheticData {
            dim,
            intrinsic,
            spread,
            noise,
            kind,
            seed,
            ..
        } = *self.parameters;
        let mut random = stream_of(seed, row);
        let cluster = self.sample(&mut random);
        let own = cluster * intrinsic * dim..(cluster + 1) * intrinsic * dim;
        out.copy_from_slice(&self.centres[cluster * dim..(cluster + 1) * dim]);
        add_normal(out, &self.directions[own], &mut random);
        let each = noise / (dim as f64).sqrt();
        for value in out.iter_mut() {
            *value += (each * normal(&mut random)) as f32;
        }
        match kind {
            SyntheticKind::Clustered => scale_to(out, 1.0),
            SyntheticKind::ClusteredDot => scale_to(out, (LENGTH_SPREAD * normal(&mut random)).exp()),
            SyntheticKind::SiftLike => {
                let (mean, width, largest) = SIFT;
                // A row's expected length is that of its three parts together.
                let width = width * (dim as f64).sqrt() / (1.0 + spread.powi(2) + noise.powi(2)).sqrt();
                for value in out {
                    *value = (mean + width * f64::from(*value)).round().clamp(0.0, largest) as f32;
                }
            }
        }
    }
}

/// The generator of a stream under a seed: rows and parts of the clusters have one each, so that any number of threads
/// make the same.
fn stream_of(seed: u64, stream: u64) -> Random {
    Random::seed_from_u64(xxh3_64_with_seed(&stream.to_le_bytes(), seed))
}

fn normal(random: &mut Random) -> f64 {
    random.sample(StandardNormal)
}

/// `count` random directions whose lengths fall like `1 / sqrt(j)`; together they have length `total`.
fn directions(random: &mut Random, count: usize, dim: usize, total: f64) -> Vec<f32> {
    let norm: f64 = (1..=count).map(|j| 1.0 / j as f64).sum::<f64>().sqrt();
    let mut all = Vec::with_capacity(count * dim);
    for j in 1..=count {
        let mut direction: Vec<f32> = (0..dim).map(|_| normal(random) as f32).collect();
        scale_to(&mut direction, total / (norm * (j as f64).sqrt()));
        all.extend(direction);
    }
    all
}

/// Adds a normal point in the given directions.
fn add_normal(out: &mut [f32], directions: &[f32], random: &mut Random) {
    for direction in directions.chunks_exact(out.len()) {
        let length = normal(random) as f32;
        out.iter_mut()
            .zip(direction)
            .for_each(|(value, part)| *value += length * part);
    }
}

/// Scales a vector; one of length 0, which a random one has with probability 0, stays as it is.
fn scale_to(values: &mut [f32], length: f64) {
    let norm = values
        .iter()
        .map(|value| f64::from(*value) * f64::from(*value))
        .sum::<f64>()
        .sqrt();
    if norm > 0.0 {
        for value in values {
            *value = (f64::from(*value) * length / norm) as f32;
        }
    }
}

#[cfg(test)]
mod tests;
