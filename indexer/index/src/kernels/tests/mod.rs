//! Every instruction set of this machine against oracles in f64 and i64, whatever `DYAD_KERNELS` says.
//!
//! | file | contents |
//! |---|---|
//! | `data.rs` | rows to test with, and the lengths |
//! | `fast_scan.rs` | blocks of sketches |
//! | `float.rs` | inner products and distances of floats |
//! | `int8.rs` | inner products of integers |
//! | `sketch.rs` | sketches |
//! | `forced.rs` | a process in which `DYAD_KERNELS` names the set; prefetching |

mod data;
mod fast_scan;
mod float;
mod forced;
mod int8;
mod sketch;
