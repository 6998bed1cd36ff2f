//! Kernels for AVX-512 (F, BW, VL, VNNI, VPOPCNTDQ).
//!
//! | file | contents |
//! |---|---|
//! | `fast_scan.rs` | blocks of sketches by tables in registers |
//! | `float.rs` | inner product and squared distance over f32, inner product with f16 |
//! | `int8.rs` | inner product of int8 and u8 by VNNI |
//! | `sketch.rs` | sketches by VPOPCNTDQ, eight ids at a time |
//!
//! The remainder of a row is read under a mask, so that every length takes the same path.

mod fast_scan;
mod float;
mod int8;
mod sketch;

pub(super) use fast_scan::{fast_scan, not_below, transpose};
pub(super) use float::{dot, dot_f16, squared_l2};
pub(super) use int8::{dot_i8, dot_i8_x4};
pub(super) use sketch::sketch;
