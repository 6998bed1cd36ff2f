//! Logs to stderr: text, or JSON with `DYAD_LOG_FORMAT=json`; levels with `RUST_LOG`.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// Starts logging at `info`, or as `RUST_LOG` says. A second call changes nothing.
pub fn init_logs() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,tantivy=warn,hnsw_rs=warn"));
    let colours = std::io::stderr().is_terminal();
    let base = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colours);
    let json = std::env::var_os("DYAD_LOG_FORMAT").is_some_and(|format| format == "json");
    // It fails only where logging has been started already.
    let _ = if json { base.json().try_init() } else { base.with_target(false).try_init() };
}
