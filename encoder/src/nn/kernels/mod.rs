//! Kernels of our own for the CPU: where torch's operators would pass over memory several times.
//!
//! | file | what |
//! |---|---|
//! | `memory.rs` | the values of a tensor as a slice |
//! | `dispatch.rs` | the calls: kernels where tensors and processor are as they need them |
//! | `simd.rs` | 16 values at a time (AVX-512) |
//! | `panels.rs` | a weight that stays, and how threads share its products |
//! | `product.rs`, `product_int8.rs` | rows times such a weight, in f32 and in int8 |
//! | `tiles.rs` | the sizes that both have in common |
//! | `activation.rs` | what follows a product |
//! | `attention.rs` | scores, softmax and contexts of one head at a time |
//! | `rotary.rs` | rotation of queries and keys by their positions, after their norms |
//! | `gate.rs` | one half of a block's values, activated, times the other |
//! | `norm.rs` | layer normalisation of a sum, and by root mean square |
//! | `quantize.rs` | rows to int8 |
//! | `fallback.rs` | the calls on other processors: none can be used |
//!
//! Each is used where the processor has its instructions; torch's operators elsewhere, which are also its oracle in
//! tests.

#[cfg(target_arch = "x86_64")]
mod activation;
#[cfg(target_arch = "x86_64")]
mod attention;
#[cfg(target_arch = "x86_64")]
mod dispatch;
#[cfg(not(target_arch = "x86_64"))]
mod fallback;
#[cfg(target_arch = "x86_64")]
mod gate;
mod memory;
#[cfg(target_arch = "x86_64")]
mod norm;
#[cfg(target_arch = "x86_64")]
mod panels;
#[cfg(target_arch = "x86_64")]
mod product;
#[cfg(target_arch = "x86_64")]
mod product_int8;
#[cfg(target_arch = "x86_64")]
mod quantize;
#[cfg(target_arch = "x86_64")]
mod rotary;
#[cfg(target_arch = "x86_64")]
mod simd;
#[cfg(target_arch = "x86_64")]
mod tiles;

#[cfg(target_arch = "x86_64")]
pub(super) use dispatch::{
    add_norm, attend, can_attend, can_multiply, fused_mlp, gate, multiply, pack_weights, root_mean_square, rotate,
};
#[cfg(not(target_arch = "x86_64"))]
pub(super) use fallback::{
    FallbackPanels as WeightPanels, add_norm, attend, can_attend, can_multiply, fused_mlp, gate, multiply,
    pack_weights, root_mean_square, rotate,
};
pub(super) use memory::filled;
#[cfg(target_arch = "x86_64")]
pub(super) use panels::WeightPanels;

use crate::config::AttentionReach;

/// The largest magnitude in int8; -128 is left out, so that both signs reach as far.
pub(super) const LARGEST: f32 = 127.0;
/// Below it a row counts as zeros.
pub(super) const SMALLEST: f32 = 1e-30;

/// Heads of one attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) count: usize,
    /// Heads of keys and values, each for as many of queries.
    pub(super) keys: usize,
    /// Values of a query, a key and a value.
    pub(super) size: usize,
    /// Factor of the scores.
    pub(super) scale: f32,
    /// The keys that a query attends to.
    pub(super) reach: AttentionReach,
}

impl Heads {
    /// Values of the queries, keys and values of a token.
    pub(super) fn width(self) -> usize {
        (self.count + 2 * self.keys) * self.size
    }
}
