//! Encoders whose positions rotate queries and keys (RoPE, Su et al. 2021): sizes from `config.json`, and the names and
//! shapes of their tensors.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | sizes and constants |
//! | `family.rs` | the families, and how they differ |
//! | `read.rs` | `config.json` of each family |
//! | `frequencies.rs` | the frequencies of the rotations |
//! | `head.rs` | the heads that score a pair of texts |
//! | `names.rs` | names of tensors, and their shapes |

mod config;
mod family;
mod frequencies;
mod head;
mod names;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use config::{AttentionReach, RotaryConfig};
pub(crate) use family::{FeedForwardGate, NormOrder, RotaryFamily};
pub(crate) use frequencies::RopeFrequencies;
