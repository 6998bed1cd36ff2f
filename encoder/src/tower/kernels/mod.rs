//! Kernels of our own, for one thread of the CPU: where torch's operators would pass over memory several times.
//!
//! | file | what |
//! |---|---|
//! | `memory.rs` | the values of a tensor as a slice |
//! | `checked.rs` | what the rest of the network calls: kernels where tensors and processor are as they need them |
//! | `register.rs` | 16 values at a time (AVX-512) |
//! | `attention.rs` | scores, softmax and contexts of one head at a time |
//! | `rounding.rs` | to int8 and back |
//! | `elsewhere.rs` | the calls on other processors: none can be used |
//!
//! Each is used where the processor has its instructions; torch's operators elsewhere, which are also its oracle in tests.

#[cfg(target_arch = "x86_64")]
mod attention;
#[cfg(target_arch = "x86_64")]
mod checked;
#[cfg(not(target_arch = "x86_64"))]
mod elsewhere;
mod memory;
#[cfg(target_arch = "x86_64")]
mod register;
#[cfg(target_arch = "x86_64")]
mod rounding;

#[cfg(target_arch = "x86_64")]
pub(super) use checked::{attend, can_attend, rounded, scaled};
#[cfg(not(target_arch = "x86_64"))]
pub(super) use elsewhere::{attend, can_attend, rounded, scaled};
pub(super) use memory::filled;

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
