//! How a dyad index is made and kept.

pub mod build;
pub mod error;
pub mod job;
