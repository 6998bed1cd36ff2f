//! How two vectors are compared.

use serde::{Deserialize, Serialize};

/// How vectors are compared; the larger score is the nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Inner product of unit vectors.
    Ip,
    /// Minus the squared Euclidean distance.
    L2,
}

impl Metric {
    /// Its name in workloads and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ip => "ip",
            Self::L2 => "l2",
        }
    }

    /// The score in f64: what recall is judged by.
    pub fn score(self, left: &[f32], right: &[f32]) -> f64 {
        let pairs = left.iter().zip(right).map(|(left, right)| (f64::from(*left), f64::from(*right)));
        match self {
            Self::Ip => pairs.map(|(left, right)| left * right).sum(),
            Self::L2 => -pairs.map(|(left, right)| (left - right) * (left - right)).sum::<f64>(),
        }
    }
}
