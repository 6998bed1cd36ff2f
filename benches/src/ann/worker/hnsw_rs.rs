//! The crate `hnsw_rs` as a peer: its own build, its own search, its own files.
//!
//! Inner products go through our f32 kernels, which are faster than the crate's default build; squared distances are
//! computed by a loop that the compiler vectorises.

use std::path::Path;
use std::time::Instant;

use ::hnsw_rs::api::AnnT as _;
use ::hnsw_rs::hnsw::Hnsw;
use ::hnsw_rs::hnswio::HnswIo;
use ::hnsw_rs::prelude::Distance;
use anyhow::{Context as _, ensure};
use dyad_index::kernels;

use super::engine::{AnnEngine, QuerySettings, SearchableIndex, described};
use crate::ann::protocol::{AnnDescription, IndexBuild};
use crate::dataset::{Matrix, VectorMetric};

/// Layers, as the crate's own examples choose them.
const MAX_LAYERS: usize = 16;
/// Points that one thread inserts before others join: parallel insertion into a tiny graph makes orphans.
const SERIAL_START: usize = 1_024;
/// Largest M; above it the crate ends the process.
const MAX_M: usize = 256;
/// Name of its files.
const BASENAME: &str = "hnsw";
/// Metric and dimension, which the crate's files do not give away before they are loaded.
const SHAPE_FILE: &str = "shape.json";

/// The engine.
pub(super) struct HnswRsEngine;

/// A distance as the crate wants it: not negative.
#[derive(Debug, Clone, Copy)]
struct Gap(VectorMetric);

impl Distance<f32> for Gap {
    fn eval(&self, left: &[f32], right: &[f32]) -> f32 {
        match self.0 {
            VectorMetric::Ip | VectorMetric::Dot => (1.0 - kernels::dot(left, right)).max(0.0),
            VectorMetric::L2 => squared(left, right),
        }
    }
}

fn squared(left: &[f32], right: &[f32]) -> f32 {
    let ((left, left_rest), (right, right_rest)) = (left.as_chunks::<16>(), right.as_chunks::<16>());
    let mut sums = [0.0f32; 16];
    for (left, right) in left.iter().zip(right) {
        for (sum, (left, right)) in sums.iter_mut().zip(left.iter().zip(right)) {
            *sum += (left - right) * (left - right);
        }
    }
    let rest = left_rest
        .iter()
        .zip(right_rest)
        .map(|(left, right)| (left - right) * (left - right));
    sums.iter().sum::<f32>() + rest.sum::<f32>()
}

impl AnnEngine for HnswRsEngine {
    fn describe(&self) -> AnnDescription {
        let settings = "f32, parallel_insert_slice, search; inner products by our f32 kernels".to_owned();
        let sweep = vec![10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 384, 512];
        described("hnsw_rs", "0.3", settings, sweep)
    }

    fn build(&self, job: &IndexBuild, base: &Matrix) -> anyhow::Result<f64> {
        ensure!((2..=MAX_M).contains(&job.m), "m: expected 2 to {MAX_M}, got {}", job.m);
        ensure!(
            job.metric != VectorMetric::Dot,
            "metric: expected ip or l2 (distances are not negative here), got dot"
        );
        ensure!(job.ef_construction > 0, "ef_construction: expected at least 1, got 0");
        let rows: Vec<(&[f32], usize)> = base.rows().zip(0..).collect();
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(job.threads)
            .build()
            .context("build threads")?;
        let started = Instant::now();
        let hnsw = Hnsw::new(job.m, rows.len(), MAX_LAYERS, job.ef_construction, Gap(job.metric));
        let serial = if job.threads == 1 {
            rows.len()
        } else {
            SERIAL_START.min(rows.len())
        };
        for row in &rows[..serial] {
            hnsw.insert(*row);
        }
        let rest = rows[serial..].to_vec();
        if !rest.is_empty() {
            pool.install(|| hnsw.parallel_insert_slice(&rest));
        }
        let build_s = started.elapsed().as_secs_f64();
        hnsw.file_dump(&job.dir, BASENAME)?;
        let shape = serde_json::to_string(&(job.metric, base.dim()))?;
        fs_err::write(job.dir.join(SHAPE_FILE), shape)?;
        Ok(build_s)
    }

    fn open(&self, dir: &Path) -> anyhow::Result<Box<dyn SearchableIndex>> {
        let (metric, dim): (VectorMetric, usize) = serde_json::from_slice(&fs_err::read(dir.join(SHAPE_FILE))?)?;
        // The graph borrows from its loader, and both live as long as the worker.
        let loader: &'static HnswIo = Box::leak(Box::new(HnswIo::new(dir, BASENAME)));
        let mut hnsw: Hnsw<'static, f32, Gap> = loader.load_hnsw_with_dist(Gap(metric))?;
        hnsw.set_searching_mode(true);
        Ok(Box::new(OpenHnswRs { hnsw, dim }))
    }
}

struct OpenHnswRs {
    hnsw: Hnsw<'static, f32, Gap>,
    dim: usize,
}

impl SearchableIndex for OpenHnswRs {
    fn dim(&self) -> usize {
        self.dim
    }

    fn search(&self, query: &[f32], how: QuerySettings, out: &mut [i32]) {
        for (hit, out) in self
            .hnsw
            .search(query, out.len(), how.value.max(out.len()))
            .iter()
            .zip(out)
        {
            *out = hit.d_id as i32;
        }
    }
}
