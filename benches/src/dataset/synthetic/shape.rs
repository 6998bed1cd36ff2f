//! Clusters, their directions, and one row from its number.
//!
//! A row is `centre + spread * (patch) + noise`, scaled to unit length. The patch is a normal point in the cluster's own
//! `intrinsic` directions, whose lengths fall like `1 / sqrt(j)`, as the spectra of embeddings do. Centres are themselves
//! normal points in few shared directions, so that clusters have near and far neighbours, and share a common mean, as text
//! embeddings do.

use rand::{RngExt as _, SeedableRng as _};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus as Random;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Kind, Synthetic};

/// Directions that the centres are spread in.
const CENTRE_DIRECTIONS: usize = 96;
/// Length of the mean that all rows share, where a centre's own part has length 1.
const COMMON: f64 = 0.45;
/// Streams of the generator: below are rows, above the parts of the shape.
const SHAPE_STREAMS: u64 = 1 << 48;
/// Mean and width of a SIFT-like value before it is cut to 0..=218.
const SIFT: (f64, f64, f64) = (16.0, 48.0, 218.0);

/// Everything that rows share.
#[derive(Debug, Clone)]
pub struct Shape {
    parameters: Synthetic,
    /// `[clusters, dim]`.
    centres: Vec<f32>,
    /// `[clusters, intrinsic, dim]`; already scaled.
    directions: Vec<f32>,
    /// Share of rows in the clusters up to each.
    cumulative: Vec<f64>,
}

impl Shape {
    /// Samples the clusters.
    pub fn new(parameters: &Synthetic) -> Self {
        let Synthetic { dim, clusters, intrinsic, seed, .. } = *parameters;
        let mut stream = SHAPE_STREAMS;
        let mut next = || {
            stream += 1;
            stream_of(seed, stream)
        };
        let shared = directions(&mut next(), CENTRE_DIRECTIONS, dim, 1.0);
        let common = directions(&mut next(), 1, dim, COMMON);
        let mut centres = Vec::with_capacity(clusters * dim);
        let mut own = Vec::with_capacity(clusters * intrinsic * dim);
        for _ in 0..clusters {
            let mut random = next();
            let mut centre = vec![0.0f32; dim];
            add_normal(&mut centre, &shared, &mut random);
            scale_to(&mut centre, 1.0);
            for (value, common) in centre.iter_mut().zip(&common) {
                *value += common;
            }
            scale_to(&mut centre, 1.0);
            centres.extend(centre);
            own.extend(directions(&mut random, intrinsic, dim, parameters.spread));
        }
        let weight = |rank: usize| 1.0 / ((rank + 1) as f64).powf(parameters.zipf);
        let total: f64 = (0..clusters).map(weight).sum();
        let cumulative = (0..clusters).scan(0.0, |sum, rank| {
            *sum += weight(rank) / total;
            Some(*sum)
        });
        Self { parameters: *parameters, centres, directions: own, cumulative: cumulative.collect() }
    }

    /// The cluster of a row: 0 is the largest.
    pub fn cluster_of(&self, row: u64) -> usize {
        self.sample_cluster(&mut stream_of(self.parameters.seed, row))
    }

    fn sample_cluster(&self, random: &mut Random) -> usize {
        let at: f64 = random.random();
        self.cumulative.partition_point(|sum| *sum < at).min(self.cumulative.len().saturating_sub(1))
    }

    /// Writes row `row` into `out`, which holds `dim` values. Any number makes a row; those from `n` on are queries.
    pub fn fill(&self, row: u64, out: &mut [f32]) {
        let Synthetic { dim, intrinsic, noise, kind, seed, .. } = self.parameters;
        let mut random = stream_of(seed, row);
        let cluster = self.sample_cluster(&mut random);
        let own = cluster * intrinsic * dim..(cluster + 1) * intrinsic * dim;
        out.copy_from_slice(&self.centres[cluster * dim..(cluster + 1) * dim]);
        add_normal(out, &self.directions[own], &mut random);
        let noise = noise / (dim as f64).sqrt();
        for value in out.iter_mut() {
            *value += (noise * normal(&mut random)) as f32;
        }
        match kind {
            Kind::Clustered => scale_to(out, 1.0),
            Kind::SiftLike => {
                let (mean, width, largest) = SIFT;
                // A row's expected length is that of its three parts together.
                let length = (1.0 + self.parameters.spread.powi(2) + self.parameters.noise.powi(2)).sqrt();
                let width = width * (dim as f64).sqrt() / length;
                for value in out {
                    *value = (mean + width * f64::from(*value)).round().clamp(0.0, largest) as f32;
                }
            }
        }
    }
}

/// The generator of a stream under a seed: rows and parts of the shape have one each, so that any number of threads make the same.
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
        for (value, part) in out.iter_mut().zip(direction) {
            *value += length * part;
        }
    }
}

fn scale_to(values: &mut [f32], length: f64) {
    let norm = values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt();
    // A random vector has length 0 with probability 0; it would stay as it is.
    if norm > 0.0 {
        for value in values {
            *value = (f64::from(*value) * length / norm) as f32;
        }
    }
}
