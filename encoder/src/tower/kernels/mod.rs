//! Kernels of our own for the CPU: where torch's operators would pass over memory several times.
//!
//! | file | what |
//! |---|---|
//! | `memory.rs` | the values of a tensor as a slice |
//! | `checked.rs` | what the rest of the network calls: kernels where tensors and processor are as they need them |
//! | `register.rs` | 16 values at a time (AVX-512) |
//! | `product.rs` | rows times a weight that stays, in f32 |
//! | `activation.rs` | what follows a product |
//! | `attention.rs` | scores, softmax and contexts of one head at a time |
//! | `norm.rs` | layer normalisation of a sum |
//! | `rounding.rs` | to int8 and back |
//! | `threads.rs` | threads of a network's own, among which they share the work of a batch |
//! | `elsewhere.rs` | the calls on other processors: none can be used |
//!
//! Each is used where the processor has its instructions; torch's operators elsewhere, which are also its oracle in tests.

#[cfg(target_arch = "x86_64")]
mod activation;
#[cfg(target_arch = "x86_64")]
mod attention;
#[cfg(target_arch = "x86_64")]
mod checked;
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
mod memory;
#[cfg(target_arch = "x86_64")]
mod norm;
#[cfg(target_arch = "x86_64")]
mod product;
#[cfg(target_arch = "x86_64")]
mod register;
#[cfg(target_arch = "x86_64")]
mod rounding;
mod threads;

#[cfg(target_arch = "x86_64")]
pub(super) use checked::{
    attend, can_attend, can_multiply, laid_out, multiply, multiply_twice, normalised, rounded, scaled,
};
#[cfg(not(target_arch = "x86_64"))]
pub(super) use elsewhere::{
    Panels, attend, can_attend, can_multiply, laid_out, multiply, multiply_twice, normalised, rounded, scaled,
};
pub(super) use memory::filled;
#[cfg(target_arch = "x86_64")]
pub(super) use product::Panels;
pub(crate) use threads::Cores;

/// The largest magnitude in int8; -128 is left out, so that both signs reach as far.
pub(super) const LARGEST: f32 = 127.0;
/// Below it a row counts as zeros.
pub(super) const SMALLEST: f32 = 1e-30;

/// Heads of one attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    pub(super) count: usize,
    /// Values of a query, a key and a value.
    pub(super) size: usize,
    /// What scores are multiplied with.
    pub(super) scale: f32,
}
