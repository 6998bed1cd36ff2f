//! A worker of our own: requests from a reader, replies to a writer, one JSON object per line.
//!
//! A worker holds one engine, reads requests from stdin, answers on stdout and may write anything to stderr. A request
//! that fails is answered by `{"error": "..."}`, and the worker lives on. All protocols share:
//!
//! | op | reply |
//! |---|---|
//! | `describe` | [`EngineDescription`] |
//! | `memory` | [`WorkerMemory`]; with `settle` freed memory is given back first and a new peak begins |
//! | `quit` | `{}` or the end of the process |

use std::io::{BufRead, Write};
use std::time::Instant;

use anyhow::{Context as _, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An engine, as it describes itself; `M` is what a comparison wants to know besides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineDescription<M> {
    /// The name of the engine.
    pub engine: String,
    pub(crate) version: String,
    /// How it is called, for the record.
    pub(crate) settings: String,
    #[serde(flatten)]
    pub(crate) more: M,
}

impl<M> EngineDescription<M> {
    /// An engine of this binary; it is refused where it is none of `own`.
    pub(crate) fn of_own(engine: &str, own: &[&str], settings: String, more: M) -> anyhow::Result<Self> {
        ensure!(
            own.contains(&engine),
            "no engine `{engine}` in this binary; there are {}",
            own.join(", ")
        );
        Ok(Self {
            engine: engine.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            settings,
            more,
        })
    }
}

/// What was opened is ready.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct OpenedReply {
    /// Milliseconds from files to ready.
    pub(crate) open_ms: f64,
}

impl OpenedReply {
    /// The reply to a request whose work began then.
    pub(crate) fn since(started: Instant) -> Value {
        json!(Self {
            open_ms: started.elapsed().as_secs_f64() * 1e3
        })
    }
}

/// Memory of a worker, from `/proc/self/status`: `VmRSS` and `VmHWM`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WorkerMemory {
    pub(crate) rss_bytes: u64,
    pub(crate) peak_bytes: u64,
}

impl WorkerMemory {
    /// The memory of this process; with `settle` a new peak begins first.
    fn own(settle: bool) -> anyhow::Result<Self> {
        if settle {
            // Sets the peak back to what is resident now (man 5 proc).
            fs_err::write("/proc/self/clear_refs", "5")?;
        }
        Ok(Self {
            rss_bytes: own_bytes("VmRSS")?,
            peak_bytes: own_bytes("VmHWM")?,
        })
    }
}

/// A field of `/proc/self/status` in bytes: `VmRSS` (resident), `VmHWM` (its peak).
pub(super) fn own_bytes(field: &str) -> anyhow::Result<u64> {
    status_bytes("self", field).with_context(|| format!("/proc/self/status has no `{field}` in kB"))
}

/// A field of `/proc/PROCESS/status` in bytes; none where the process has ended, or has no such field.
pub(crate) fn status_bytes(process: &str, field: &str) -> Option<u64> {
    let status = fs_err::read_to_string(format!("/proc/{process}/status")).ok()?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// Answers requests until `quit` or the end of `input`; those that all protocols share by itself.
pub(crate) fn serve<R: DeserializeOwned>(
    input: impl BufRead,
    mut output: impl Write,
    described: &impl Serialize,
    mut answer: impl FnMut(R) -> anyhow::Result<Value>,
) -> anyhow::Result<()> {
    for line in input.lines() {
        let request = serde_json::from_str::<Value>(&line?).unwrap_or_default();
        let op = request["op"].as_str().unwrap_or_default().to_owned();
        let reply = match op.as_str() {
            "describe" => Ok(json!(described)),
            "memory" => WorkerMemory::own(request["settle"] == true).map(|memory| json!(memory)),
            "quit" => Ok(json!({})),
            _ => serde_json::from_value(request)
                .context("not a request of the protocol")
                .and_then(&mut answer),
        };
        let reply = reply.unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
        writeln!(output, "{reply}")?;
        output.flush()?;
        if op == "quit" {
            break;
        }
    }
    Ok(())
}
