//! Sizes and choices of the cross-encoder branch.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The encoder whose token vectors the cross-encoder branch reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CrossBranchEncoder {
    /// Those of its own encoder, initialised from the same pretrained one.
    #[default]
    Separate,
    /// Those of the dual encoder.
    Shared,
}

/// From token vectors to one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Aggregator {
    /// The mean.
    Mean,
    /// Multi-hop self-attention (Lin et al. 2017): as many weighted means as `hops`, side by side.
    MultiHop {
        /// Values between its two maps.
        inner: usize,
        /// Weighted means.
        hops: usize,
    },
}

/// Settings of the cross-encoder branch. The default is the paper's where it says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct CrossSettings {
    /// The source of the token vectors.
    pub encoder: CrossBranchEncoder,
    /// Attention heads; they have to divide the size of a token vector.
    pub heads: usize,
    /// Width of the feed-forward block; absent for four times a token vector.
    pub feed_forward: Option<usize>,
    /// How token vectors become one vector.
    pub aggregator: Aggregator,
    /// One set of maps for the question's and the answer's side: equations 2 to 4 name no side. Two sets, initialised
    /// independently, give large and wrong scores at the start.
    pub one_side: bool,
    /// Seed of the random initialisation; the run's where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Default for CrossSettings {
    fn default() -> Self {
        Self {
            encoder: CrossBranchEncoder::Separate,
            heads: 12,
            feed_forward: None,
            aggregator: Aggregator::MultiHop { inner: 128, hops: 4 },
            one_side: true,
            seed: None,
        }
    }
}

impl CrossSettings {
    /// Refuses sizes that cannot be, for token vectors of `size` values.
    pub(super) fn check(&self, size: usize) -> Result<(), Error> {
        if self.heads == 0 || !size.is_multiple_of(self.heads) {
            return Err(Error::Setting {
                setting: "heads",
                expected: format!("a divisor of the {size} values of a token vector"),
                got: self.heads.to_string(),
            });
        }
        let mut sizes = vec![("feed-forward", self.feed_forward.unwrap_or(size))];
        if let Aggregator::MultiHop { inner, hops } = self.aggregator {
            sizes.extend([("inner", inner), ("hops", hops)]);
        }
        match sizes.into_iter().find(|(_, size)| *size == 0) {
            None => Ok(()),
            Some((setting, _)) => Err(Error::Setting {
                setting,
                expected: "at least 1".to_owned(),
                got: "0".to_owned(),
            }),
        }
    }
}
