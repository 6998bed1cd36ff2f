//! CPU work off the I/O threads: rayon threads do it, a semaphore bounds how much of it is admitted.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::stop::Stop;
use crate::error::{Error, Result};

/// Admission, and the way to rayon.
#[derive(Debug)]
pub(super) struct Pool {
    admitted: Arc<Semaphore>,
    limit: usize,
}

impl Pool {
    pub(super) fn new(limit: usize) -> Self {
        Self { admitted: Arc::new(Semaphore::new(limit)), limit }
    }

    /// Admits `requests` at once, or says that the searcher is full. They count until the permit is dropped.
    pub(super) fn admit(&self, requests: usize) -> Result<OwnedSemaphorePermit> {
        // A batch larger than the limit takes all of it, so that it can run when nothing else does.
        let permits = requests.clamp(1, self.limit) as u32;
        Arc::clone(&self.admitted).try_acquire_many_owned(permits).map_err(|_| Error::Busy { limit: self.limit })
    }
}

/// Starts work on a rayon thread; the receiver gets its result.
pub(super) fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> oneshot::Receiver<T> {
    let (done, result) = oneshot::channel();
    rayon::spawn(move || {
        // A caller that went away does not need the work done.
        if !done.is_closed() {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            if let Ok(value) = outcome {
                let _ = done.send(value);
            }
        }
    });
    result
}

/// Waits for spawned work until the deadline.
pub(super) async fn finish<T>(result: oneshot::Receiver<T>, stop: &Stop) -> Result<T> {
    match tokio::time::timeout_at(stop.deadline().into(), result).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(Error::Internal),
        Err(_) => Err(Error::Deadline(stop.time())),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn admission_is_bounded_and_comes_back() {
        let pool = Pool::new(3);
        let first = pool.admit(2).unwrap();
        assert!(matches!(pool.admit(2), Err(Error::Busy { limit: 3 })));
        drop(first);
        let all = pool.admit(500).unwrap();
        assert!(pool.admit(1).is_err());
        drop(all);
        assert!(pool.admit(3).is_ok());
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_deadline_holds() {
        let (stop, _waiting) = Stop::after(Instant::now(), Duration::from_secs(5));
        let failed = finish(spawn(|| -> u32 { panic!("on purpose") }), &stop).await;
        assert!(matches!(failed, Err(Error::Internal)));
        assert_eq!(finish(spawn(|| 7), &stop).await.unwrap(), 7);
        let (stop, _waiting) = Stop::after(Instant::now(), Duration::from_millis(10));
        let slow = spawn(|| std::thread::sleep(Duration::from_millis(200)));
        let late = finish(slow, &stop).await;
        assert!(matches!(late, Err(Error::Deadline(_))));
    }
}
