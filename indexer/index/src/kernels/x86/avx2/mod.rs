//! Kernels for AVX2 (with FMA and F16C, which nearly every processor with AVX2 has).
//!
//! | file | contents |
//! |---|---|
//! | `fast_scan.rs` | blocks of sketches by tables in registers |
//! | `float.rs` | inner product and squared distance over f32, inner product with f16, rotation |
//! | `int8.rs` | inner product of int8 and u8, widened to 16 bits |
//! | `sketch.rs` | sketches by tables of half bytes |
//!
//! The remainder of a row is padded with zeros, so that every length takes the same path.

mod fast_scan;
mod float;
mod int8;
mod sketch;

pub(super) use fast_scan::{fast_scan, not_below, transpose};
pub(super) use float::{dot, dot_f16, rotate, squared_l2};
pub(super) use int8::{dot_i8, dot_i8_x4};
pub(super) use sketch::sketch;
