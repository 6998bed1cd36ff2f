//! Failures to accept connections: a pause, and a rate-limited warning.

use std::io;
use std::time::{Duration, Instant};

/// Pause after a failure for lack of resources, such as file handles.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Minimum time between two warnings.
const WARNING_PAUSE: Duration = Duration::from_secs(10);

/// The failures of an accept loop.
#[derive(Debug, Default)]
pub(super) struct Failures {
    warned: Option<Instant>,
}

impl Failures {
    /// Pauses after a failure, unless the client has aborted the connection: other causes may persist.
    pub(super) async fn pause_after(&mut self, error: &io::Error, what: &str) {
        use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
        if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
            self.warn(&format!(
                "cannot accept a {what} connection: {error}. If file handles are exhausted, raise `ulimit -n`"
            ));
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }

    /// Logs a warning, at most one in [`WARNING_PAUSE`].
    pub(super) fn warn(&mut self, message: &str) {
        if self.is_due(Instant::now()) {
            tracing::warn!("{message}");
        }
    }

    /// Whether to warn now: at once, then after [`WARNING_PAUSE`].
    fn is_due(&mut self, now: Instant) -> bool {
        let due = self
            .warned
            .is_none_or(|last| now.saturating_duration_since(last) >= WARNING_PAUSE);
        if due {
            self.warned = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trouble_that_lasts_is_told_now_and_then() {
        let (start, mut failures) = (Instant::now(), Failures::default());
        let told = (0..250_u32)
            .filter(|tenth| failures.is_due(start + ACCEPT_PAUSE * *tenth))
            .collect::<Vec<_>>();
        assert_eq!(told, [0, 100, 200]);
    }
}
