//! Cancellation of a request's work: its deadline has passed, or its client has left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dyad_index::{Cancel, SearchHits};
use dyad_proto::admission::NotAdmitted;

use super::threads::let_others;
use crate::error::{Error, Result};

/// Polled by the work of one request.
#[derive(Debug)]
pub(in crate::run) struct SearchCancellation {
    dropped: AtomicBool,
    deadline: Instant,
    time: Duration,
}

/// Guard that cancels the work when it is dropped, as when the future that waits for the answer is.
#[derive(Debug)]
pub(in crate::run) struct CancelOnDrop(Arc<SearchCancellation>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.dropped.store(true, Ordering::Relaxed);
    }
}

impl Cancel for SearchCancellation {
    fn is_cancelled(&self) -> bool {
        let now = Instant::now();
        let_others(now);
        self.dropped.load(Ordering::Relaxed) || now >= self.deadline
    }
}

impl SearchCancellation {
    /// For work that may take `time` from `started`.
    pub(in crate::run) fn with_deadline(started: Instant, time: Duration) -> (Arc<Self>, CancelOnDrop) {
        let cancel = Arc::new(Self {
            dropped: AtomicBool::new(false),
            deadline: started + time,
            time,
        });
        (Arc::clone(&cancel), CancelOnDrop(cancel))
    }

    /// When the time is up.
    pub(in crate::run) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The time that is left.
    pub(in crate::run) fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// The error of work that was cancelled.
    pub(in crate::run) fn deadline_error(&self) -> Error {
        Error::Deadline(self.time)
    }

    /// The error of work that was not admitted before its deadline.
    pub(in crate::run) fn not_admitted(&self, error: NotAdmitted) -> Error {
        match error {
            NotAdmitted::Late => self.deadline_error(),
            // Neither is asked for more than there is, nor are limits closed.
            NotAdmitted::Full | NotAdmitted::TooLarge | NotAdmitted::Closed => Error::Internal,
        }
    }

    /// The error, where the work is cancelled already.
    pub(in crate::run) fn check(&self) -> Result<()> {
        if self.is_cancelled() {
            Err(self.deadline_error())
        } else {
            Ok(())
        }
    }

    /// The hits of a complete search; the error of a cancelled one, whose hits are never an answer.
    pub(in crate::run) fn complete<H>(&self, hits: SearchHits<H>) -> Result<SearchHits<H>> {
        if hits.is_cancelled() {
            Err(self.deadline_error())
        } else {
            Ok(hits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_cancelled_by_a_dropped_guard_and_by_its_deadline() {
        let hour = Duration::from_hours(1);
        let (cancel, guard) = SearchCancellation::with_deadline(Instant::now(), hour);
        assert!(!cancel.is_cancelled() && cancel.check().is_ok());
        assert_eq!(
            cancel.complete(SearchHits::<u8>::default()).unwrap(),
            SearchHits::default()
        );
        assert!(matches!(cancel.complete(SearchHits::<u8>::cancelled()), Err(Error::Deadline(time)) if time == hour));
        drop(guard);
        assert!(cancel.is_cancelled() && cancel.check().is_err());
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), Duration::ZERO);
        assert!(cancel.is_cancelled());
    }
}
