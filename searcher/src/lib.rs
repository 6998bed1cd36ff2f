//! The searcher: plans a request, embeds the question, searches vectors and text, fuses the rankings, reads the stored
//! fields.
//!
//! | module | contents |
//! |---|---|
//! | `circuit_breaker` | no request waits for an encoder service that does not answer |
//! | [`error`] | errors, and the gRPC status of each |
//! | [`leaves`] | the leaves of a root: what they hold, and which of them is asked |
//! | [`memory`] | the memory that there is, and what indexes need of it |
//! | [`metrics`] | what is counted, for Prometheus |
//! | [`mirrors`] | indexes of object stores, mirrored into directories |
//! | [`question`] | the question tower: in this process (feature `torch`) or an encoder service |
//! | [`plan`] | a request as pure data: stages and depths |
//! | [`reranker`] | the cross encoder that scores the best hits again |
//! | [`fusion`] | two rankings into one, and how to learn that |
//! | `slow_log` | how many slow requests have a line in the log |
//! | [`run`] | execution of plans: bounded thread pools, deadlines, degraded answers |
//! | [`service`] | gRPC: thin conversions around [`run::Engine`] |
//! | [`cli`] | `dyad-searcher serve`, `learn`, `query`, `explain`, `get`, `admin` |

#![forbid(unsafe_code)]

mod circuit_breaker;
pub mod cli;
pub mod error;
mod error_status;
pub mod fusion;
pub mod leaves;
pub mod memory;
pub mod metrics;
pub mod mirrors;
pub mod plan;
pub mod question;
pub mod reranker;
pub mod run;
pub mod service;
mod slow_log;

pub use error::{Error, Result};
pub use run::Engine;
