//! What is known of a shape and of an engine there; and what the machine can do, a large matrix product with the same threads
//! between the passes of the engines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::model::ModelSize;
use super::protocol::Request;
use crate::dataset::Matrix;
use crate::harness::{Result, Worker};

/// The peers' engine that multiplies, and embeds nothing.
pub(super) const LIMIT: &str = "matmul";

/// GFLOP/s per number type, one value per pass.
pub(super) type Gflops = BTreeMap<String, Vec<f64>>;

/// Its worker.
#[derive(Debug)]
pub(super) struct Limit {
    pub(super) worker: Worker,
    pub(super) device: String,
    pub(super) threads: usize,
    pub(super) deadline: Duration,
    pub(super) dtypes: Vec<String>,
}

/// A product of two large square matrices, the fastest of several.
#[derive(Debug, Deserialize)]
struct Multiplied {
    gflops: f64,
}

impl Limit {
    /// One more value of each number type.
    pub(super) fn measure(&mut self, gflops: &mut Gflops) -> Result<()> {
        for dtype in &self.dtypes {
            let (device, threads) = (self.device.clone(), self.threads);
            let request = Request::Matmul { dtype: dtype.clone(), device, threads };
            let multiplied: Multiplied = self.worker.ask(&request, self.deadline)?;
            let value = self.worker.above_zero("matmul", "GFLOP/s above 0", multiplied.gflops)?;
            gflops.entry(dtype.clone()).or_default().push(value);
        }
        Ok(())
    }
}

/// An engine at a shape.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// The settings that it chose, in words.
    pub(super) tuned: String,
    /// Tokens that its linear layers saw, padding counted; where it knows.
    pub(super) computed_tokens: Option<u64>,
    /// Smallest cosine between its vectors and those of the first engine.
    pub smallest_cosine: f64,
}

/// Texts to vectors, at one shape.
#[derive(Debug, Default)]
pub struct Encode {
    pub(super) size: ModelSize,
    pub(super) texts: usize,
    /// Tokens of all texts, special tokens counted.
    pub(super) tokens: u64,
    /// Longest input of the model as it was opened.
    pub(super) max_tokens: usize,
    /// Floating-point operations of all texts without padding.
    pub(super) flops: f64,
    /// GFLOP/s of a large matrix product per number type, one value per pass.
    pub(super) limits: Gflops,
    /// The model directory that engines open.
    pub(super) model: PathBuf,
    pub(super) scratch: PathBuf,
    /// The first engine's vectors.
    pub(super) first: Option<Matrix>,
    pub(super) limit: Option<Limit>,
}
