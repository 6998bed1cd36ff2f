//! Fusion of several rankings into one.
//!
//! | file | contents |
//! |---|---|
//! | `rrf.rs` | reciprocal rank fusion |

mod rrf;

pub use rrf::{DEFAULT_RRF_K, Placement, rrf};
