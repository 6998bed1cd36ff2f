//! stub
pub mod build;
pub mod error;
pub mod job;
