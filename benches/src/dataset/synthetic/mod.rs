//! Synthetic data of any size that is as hard to search as embeddings are: clusters of very different sizes, each of low
//! intrinsic dimension.
//!
//! | file | contents |
//! |---|---|
//! | `shape.rs` | clusters, their directions, one row from its number |
//! | `write.rs` | all rows as a stream into files |
//!
//! Row `i` depends on the parameters other than `n`, the seed and `i` alone. So a set can be written by any number of threads,
//! a smaller set is the beginning of a larger one, and the queries are the rows after the last one.

mod shape;
mod write;

pub use shape::Shape;
pub use write::write;

use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::matrix::Metric;

/// What the rows look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Unit vectors, as text embeddings are; for inner products.
    Clustered,
    /// Whole numbers from 0 to 218, many of them 0, as SIFT descriptors are; for Euclidean distance.
    SiftLike,
}

/// Parameters of a set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Synthetic {
    /// What the rows look like.
    #[arg(long, value_enum, default_value = "clustered")]
    pub kind: Kind,
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

impl Synthetic {
    /// The metric that rows of this kind are for.
    pub fn metric(&self) -> Metric {
        match self.kind {
            Kind::Clustered => Metric::Ip,
            Kind::SiftLike => Metric::L2,
        }
    }

    /// Refuses parameters that make no data.
    pub fn check(&self) -> Result<()> {
        let fail = |field, expected: &str, got: String| Error::Parameter { field, expected: expected.to_owned(), got };
        let counts = [
            ("n", self.n),
            ("dim", self.dim),
            ("queries", self.queries),
            ("clusters", self.clusters),
            ("intrinsic", self.intrinsic),
        ];
        for (field, value) in counts {
            if value == 0 || u32::try_from(value).is_err() {
                return Err(fail(field, "1 to 2^32 - 1", value.to_string()));
            }
        }
        for (field, value) in [("spread", self.spread), ("noise", self.noise), ("zipf", self.zipf)] {
            if !(0.0..=100.0).contains(&value) {
                return Err(fail(field, "0 to 100", value.to_string()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
