//! Measurements of dyad and of its peers, all of them on what is really run: the served system, the written files.
//!
//! | module | contents |
//! |---|---|
//! | [`quality`] | a served system's answers against judgements: runs, metrics, encoder loss apart from ANN loss |
//! | [`dataset`] | vectors and exact neighbours: read, synthesized, computed |
//! | [`ann`] | approximate search against its peers, at equal recall |
//! | [`load`] | latency and throughput of a served index and of the layers below it |
//! | [`encode`] | texts to vectors against its peers |
//! | [`train_step`] | a step of training against its peers |
//! | `reproduce` | the papers' findings on real data |
//! | [`harness`] | what every comparison with peers is made of |
//! | [`error`] | what can go wrong |
//! | [`cli`] | `dyad-bench` and its commands |
//!
//! Next to the crate, `peers/` holds the Python programs whose figures ours are compared with.
#![deny(unsafe_code)]

/// Functions that give the values of keys that a workload does not name.
macro_rules! defaults {
    ($($key:ident: $kind:ty = $value:expr;)*) => {
        $(fn $key() -> $kind {
            $value
        })*
    };
}
pub mod ann;
pub mod cli;
pub mod dataset;
pub mod encode;
pub mod error;
pub mod harness;
pub mod load;
pub mod quality;
#[cfg(feature = "torch")]
mod reproduce;
pub mod train_step;
