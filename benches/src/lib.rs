//! Measurements of dyad and of its peers, all of them on what is really run: the served system, the written files.
//!
//! | module | what lives there |
//! |---|---|
//! | [`quality`] | a served system's answers against judgements: runs, metrics, encoder loss apart from ANN loss |
//! | [`cli`] | `dyad-bench quality` and `metrics` |
//!
//! Beside the crate, `peers/` holds the Python programs whose figures ours are compared with.
#![forbid(unsafe_code)]

pub mod cli;
pub mod quality;
