//! stub
pub mod progress;
