//! What a run measured.

use std::collections::BTreeMap;

use serde::Serialize;

use super::model::ModelSize;
use super::protocol::Described;
use super::workload::Workload;
use crate::harness::{Conditions, OURS, Passes, Shaped as _, median};

/// One engine at one shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineAtShape {
    /// Itself in words.
    pub described: Described,
    /// The settings that it chose, in words.
    pub tuned: String,
    /// Over all texts.
    #[serde(flatten)]
    pub passes: Passes,
    /// Tokens that its linear layers saw, padding counted; where it knows.
    pub computed_tokens: Option<u64>,
    /// Smallest cosine between its vectors and those of the first engine.
    pub smallest_cosine: f64,
}

impl EngineAtShape {
    /// The number type whose products limit it: int8 is compared with f32, which it is to beat.
    pub fn limited_by(&self) -> &str {
        if self.described.dtype == "bf16" { "bf16" } else { "f32" }
    }
}

/// One shape.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShapeRun {
    /// Its name.
    pub name: String,
    /// Texts.
    pub texts: usize,
    /// Tokens of all texts, special tokens counted.
    pub tokens: u64,
    /// Longest input of the model as it was opened.
    pub max_tokens: usize,
    /// Floating-point operations of all texts without padding.
    pub flops: f64,
    /// GFLOP/s of a large matrix product per number type, one value per pass.
    pub limits: BTreeMap<String, Vec<f64>>,
    /// Engines that were measured, in the order asked.
    pub engines: Vec<EngineAtShape>,
    /// Engines that failed, and why.
    pub failures: Vec<(String, String)>,
}

impl ShapeRun {
    /// One engine by name.
    pub fn engine(&self, name: &str) -> Option<&EngineAtShape> {
        self.engines.iter().find(|run| run.described.engine == name)
    }

    /// Texts per second of the median pass.
    pub fn texts_per_s(&self, run: &EngineAtShape) -> f64 {
        self.texts as f64 / run.passes.median_s()
    }

    /// Real tokens per second of the median pass.
    pub fn tokens_per_s(&self, run: &EngineAtShape) -> f64 {
        self.tokens as f64 / run.passes.median_s()
    }

    /// Share of padding in what the linear layers saw.
    pub fn padding_share(&self, run: &EngineAtShape) -> Option<f64> {
        let computed = run.computed_tokens.filter(|&computed| computed >= self.tokens && computed > 0)?;
        Some((computed - self.tokens) as f64 / computed as f64)
    }

    /// GFLOP/s, counted per real token.
    pub fn gflops(&self, run: &EngineAtShape) -> f64 {
        self.flops / run.passes.median_s() / 1e9
    }

    /// GFLOP/s over the machine's.
    pub fn share_of_limit(&self, run: &EngineAtShape) -> Option<f64> {
        let limit = median(self.limits.get(run.limited_by())?).filter(|limit| *limit > 0.0)?;
        Some(self.gflops(run) / limit)
    }

    /// Texts per second of one engine over another's.
    pub fn ratio(&self, ours: &str, peer: &str) -> Option<f64> {
        Some(self.texts_per_s(self.engine(ours)?) / self.texts_per_s(self.engine(peer)?))
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// What was measured, where and when.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// Sizes of the model.
    pub size: ModelSize,
    /// In the workload's order.
    pub shapes: Vec<ShapeRun>,
}

impl Measured {
    /// Engines of ours and peers among those asked for, in that order.
    pub fn sides(&self) -> (Vec<&str>, Vec<&str>) {
        let (mut ours, peers): (Vec<&str>, Vec<&str>) =
            self.conditions.asked.iter().map(String::as_str).partition(|name| Workload::is_ours(name));
        // The one that `ratios` speaks of comes first.
        ours.sort_by_key(|name| *name != OURS);
        (ours, peers)
    }

    /// GFLOP/s of a large matrix product of a number type: the median over all passes.
    pub fn limit(&self, dtype: &str) -> Option<f64> {
        let all: Vec<f64> = self.shapes.iter().filter_map(|shape| shape.limits.get(dtype)).flatten().copied().collect();
        median(&all)
    }

    /// Engines that were asked for and failed somewhere, as `engine at shape`.
    pub fn failed(&self) -> Vec<String> {
        self.conditions.failed(self.shapes.iter().map(|shape| (&shape.name, &shape.failures)))
    }
}
