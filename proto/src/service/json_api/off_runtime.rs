//! Work that takes long, on threads for computing.

use std::time::Instant;

use tokio::sync::oneshot;
use tonic::Status;

use super::refusal::HttpRefusal;

/// Work on up to this many bytes is done on the thread of its connection.
const SMALL: usize = 64 << 10;

/// Runs `work` on a thread for computing if it is of more than a little data. Where the client leaves or the deadline
/// passes, it is given up, but the data stays until a thread drops it: so does `held`, which comes back with the
/// result.
pub async fn off_the_runtime<T: Send + 'static, H: Send + 'static>(
    bytes: usize,
    deadline: Instant,
    held: H,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<(T, H), HttpRefusal> {
    if bytes <= SMALL {
        return Ok((work(), held));
    }
    let (done, result) = oneshot::channel();
    rayon::spawn(move || {
        // A panic would end the process: no one catches it in this pool. What `done` drops tells the caller.
        if !done.is_closed()
            && let Ok(made) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
        {
            _ = done.send((made, held));
        }
    });
    match tokio::time::timeout_at(deadline.into(), result).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(_)) => Err(Status::internal("the request's work was lost; the log says why").into()),
        Err(_) => Err(Status::deadline_exceeded("the deadline passed before the JSON was read or written").into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use axum::http::StatusCode;
    use axum::response::IntoResponse as _;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_of_that_request() {
        let minute = Instant::now() + Duration::from_mins(1);
        let failed = off_the_runtime(SMALL + 1, minute, (), || -> u32 { panic!("on purpose") })
            .await
            .unwrap_err();
        assert_eq!(failed.into_response().status(), StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[tokio::test]
    async fn work_that_is_given_up_keeps_what_it_holds_until_its_data_is_dropped() {
        // All threads are busy.
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let wait = Arc::new(std::sync::Mutex::new(wait));
        for _ in 0..rayon::current_num_threads() {
            let wait = Arc::clone(&wait);
            rayon::spawn(move || assert!(wait.lock().unwrap().recv().is_err()));
        }
        let places = Arc::new(Semaphore::new(3));
        let place = || Arc::clone(&places).try_acquire_owned().unwrap();
        let minute = Instant::now() + Duration::from_mins(1);
        let soon = Instant::now() + Duration::from_millis(20);
        let work = || panic!("nobody waits for it");
        let late = off_the_runtime(SMALL + 1, soon, place(), work).await.unwrap_err();
        assert_eq!(late.into_response().status(), StatusCode::GATEWAY_TIMEOUT);
        let left = off_the_runtime(SMALL + 1, minute, place(), work);
        assert!(tokio::time::timeout(Duration::from_millis(20), left).await.is_err());
        let mut waited_for = Box::pin(off_the_runtime(SMALL + 1, minute, place(), || 7));
        assert!(
            tokio::time::timeout(Duration::from_millis(20), &mut waited_for)
                .await
                .is_err()
        );
        assert_eq!(places.available_permits(), 0);
        drop(release);
        let (seven, held) = waited_for.await.unwrap();
        let both = tokio::time::timeout(Duration::from_mins(1), places.acquire_many(2)).await;
        assert_eq!(
            (seven, held.num_permits(), both.unwrap().unwrap().num_permits()),
            (7, 1, 2)
        );
        assert_eq!(off_the_runtime(SMALL, soon, (), || 8).await.unwrap().0, 8);
    }
}
