//! What workers of several protocols answer, and what the harness refuses of it.

use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{Error, Result};
use super::process::{Request, Worker};
use super::status::own_bytes;

/// Requests that go over alike in these protocols.
#[derive(Debug, Serialize)]
#[serde(tag = "op", rename_all = "snake_case")]
enum Shared {
    Describe,
    Memory { settle: bool },
}

impl Request for Shared {
    fn op(&self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Memory { .. } => "memory",
        }
    }
}

/// What was opened is ready.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    /// Milliseconds from files to ready.
    pub open_ms: f64,
}

impl Opened {
    /// Just now.
    pub fn since(started: Instant) -> Self {
        Self { open_ms: started.elapsed().as_secs_f64() * 1e3 }
    }
}

/// Memory of a worker, from `/proc/self/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// `VmRSS`.
    pub rss_bytes: u64,
    /// `VmHWM`.
    pub peak_bytes: u64,
}

impl Memory {
    /// Of this process; with `settle` the peak begins anew first.
    pub fn own(settle: bool) -> anyhow::Result<Self> {
        if settle {
            // Sets the peak back to what is resident now (man 5 proc).
            fs_err::write("/proc/self/clear_refs", "5")?;
        }
        Ok(Self { rss_bytes: own_bytes("VmRSS")?, peak_bytes: own_bytes("VmHWM")? })
    }
}

impl Worker {
    /// What an engine says of itself; `name` is its name there. One that answers to another name is refused.
    pub fn describe<T: DeserializeOwned>(&mut self, deadline: Duration, name: fn(&T) -> &str) -> Result<T> {
        let described: T = self.ask(&Shared::Describe, deadline)?;
        if name(&described) != self.engine() {
            return Err(self.unexpected("describe", self.engine(), name(&described)));
        }
        Ok(described)
    }

    /// Its memory; with `settle` freed memory is given back first and the peak begins anew.
    pub fn memory(&mut self, settle: bool, deadline: Duration) -> Result<Memory> {
        self.ask(&Shared::Memory { settle }, deadline)
    }

    /// A figure of a reply, refused in the words of `expected` where it is not above 0.
    pub fn above_zero(&self, op: &'static str, expected: &str, got: f64) -> Result<f64> {
        if got.is_finite() && got > 0.0 { Ok(got) } else { Err(self.unexpected(op, expected, got.to_string())) }
    }

    /// The error of a reply that the protocol does not allow.
    pub fn unexpected(&self, op: &'static str, expected: impl Into<String>, got: impl Into<String>) -> Error {
        Error::Reply { engine: self.engine().to_owned(), op, expected: expected.into(), got: got.into() }
    }
}
