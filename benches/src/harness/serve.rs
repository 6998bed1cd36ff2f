//! A worker of our own: requests from a reader, replies to a writer, one JSON object per line.

use std::io::{BufRead, Write};

use anyhow::Context as _;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::process::Request;

/// Answers requests until `quit` or the end of `input`. A request that fails is answered by `{"error": "..."}`.
pub fn serve<R: Request + DeserializeOwned>(
    input: impl BufRead,
    mut output: impl Write,
    mut answer: impl FnMut(R) -> anyhow::Result<Value>,
) -> anyhow::Result<()> {
    for line in input.lines() {
        let line = line?;
        let request: Result<R, _> = serde_json::from_str(&line);
        let last = request.as_ref().is_ok_and(|request| request.op() == "quit");
        let reply = request.context("not a request of the protocol").and_then(&mut answer);
        let reply = reply.unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
        writeln!(output, "{reply}")?;
        output.flush()?;
        if last {
            break;
        }
    }
    Ok(())
}
