//! Connections that cannot be taken: a pause, and a line in the log now and then.

use std::io;
use std::time::{Duration, Instant};

/// Pause after the system refused a connection for want of something, such as file handles.
const PAUSE: Duration = Duration::from_millis(100);
/// Time between two warnings.
const QUIET: Duration = Duration::from_secs(10);

/// What an accept loop remembers of its failures.
#[derive(Debug, Default)]
pub(super) struct Failures {
    warned: Option<Instant>,
}

impl Failures {
    /// A connection that the client gave up before it was taken needs no pause; whatever else it is may last.
    pub(super) async fn pause_after(&mut self, error: &io::Error, what: &str) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            self.warn(&format!("cannot take a {what} connection: {error}"));
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Logs, unless it did so moments ago.
    pub(super) fn warn(&mut self, message: &str) {
        if self.warned.is_none_or(|warned| warned.elapsed() >= QUIET) {
            tracing::warn!("{message}");
            self.warned = Some(Instant::now());
        }
    }
}
