//! Records that travel with an index: which model made its vectors, and how its graph was built.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::kernels::kernels;

/// How vectors are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Inner product of unit vectors; larger is nearer. What our models make.
    Cosine,
    /// Inner product of vectors of any length; larger is nearer. For models that were trained by it, whose vectors'
    /// lengths count.
    Dot,
    /// Euclidean distance of vectors of any length; nearer is better. Scores are minus half its square.
    L2,
}

impl std::fmt::Display for Metric {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cosine => "cosine",
            Self::Dot => "dot",
            Self::L2 => "l2",
        })
    }
}

impl Metric {
    /// Score of two vectors: the inner product, or minus half the squared distance. NaN where `row` is empty.
    pub fn score(self, query: &[f32], row: &[f32]) -> f32 {
        if row.is_empty() {
            return f32::NAN;
        }
        match self {
            Self::Cosine | Self::Dot => (kernels().dot)(query, row),
            Self::L2 => -0.5 * (kernels().squared_l2)(query, row),
        }
    }
}

/// The model that made the vectors of an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRecord {
    /// Name for display.
    pub name: String,
    /// SHA-256 (hex) over all that decides a vector: weights, tokenizer, pooling, projection, prompts, lengths.
    pub fingerprint: String,
    /// Values per vector.
    pub dim: usize,
    /// Values of the model's own vectors, where only the first `dim` of them are kept (see [`crate::matryoshka`]).
    /// Absent where all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_dim: Option<usize>,
    /// How vectors are compared.
    pub metric: Metric,
    /// Longest input in tokens.
    pub max_tokens: usize,
}

impl ModelRecord {
    /// A model as a service or a file describes it. Models make unit vectors: another metric than `cosine`, or
    /// `METRIC_COSINE` as the wire names it, is refused.
    pub fn of_unit_vectors(
        name: String,
        fingerprint: String,
        dim: usize,
        metric: &str,
        max_tokens: usize,
    ) -> Result<Self, Error> {
        if !matches!(metric, "cosine" | "METRIC_COSINE") {
            return Err(Error::ModelMetric {
                model: name,
                got: metric.to_owned(),
            });
        }
        Ok(Self {
            name,
            fingerprint,
            dim,
            full_dim: None,
            metric: Metric::Cosine,
            max_tokens,
        })
    }

    /// Whether vectors of both may be compared: it is one model, of whose values both keep as many.
    pub fn same_space(&self, other: &Self) -> bool {
        self.dim == other.dim && self.same_model(other)
    }

    /// Whether it is one model, however many of its values are kept: the fingerprint, the dimension of its own vectors
    /// and the metric say so. The name is for people, and depends on the folder of the model.
    pub fn same_model(&self, other: &Self) -> bool {
        (&self.fingerprint, self.own_dim(), self.metric) == (&other.fingerprint, other.own_dim(), other.metric)
    }
}

/// How a shard's graph was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildRecord {
    /// Name of the graph builder.
    pub builder: String,
    /// Links per node on the upper layers; twice as many on layer 0.
    pub m: usize,
    /// Beam width while inserting.
    pub ef_construction: usize,
    /// Seed of every random choice.
    pub seed: u64,
    /// Threads that inserted; only 1 is reproducible.
    pub threads: usize,
    /// Program and version.
    pub tool: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_models_of_unit_vectors_are_taken() {
        let of = |metric: &str| ModelRecord::of_unit_vectors("m".into(), "f00d".into(), 5, metric, 64);
        for metric in ["cosine", "METRIC_COSINE"] {
            let record = of(metric).unwrap();
            assert_eq!((record.dim, record.metric, record.max_tokens), (5, Metric::Cosine, 64));
        }
        for metric in ["METRIC_L2", "METRIC_UNSPECIFIED", "l2", "ip", ""] {
            let error = of(metric).unwrap_err().to_string();
            assert!(
                error.contains(&format!(
                    "model `m`: expected vectors compared by `cosine`, got `{metric}`"
                )),
                "{error}"
            );
        }
    }
}
