//! Deadlines and retries of a call: which failures are retried, and when.

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use tonic::{Code, Request, Response, Status, Streaming};

use super::credentials::Credentials;
use super::error::{ClientError, pushback};

/// Configuration of a client.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Longest time for one connection attempt.
    pub connect_timeout: Duration,
    /// Deadline of one call, sent to the server as `grpc-timeout`.
    pub call_timeout: Duration,
    /// Attempts per call, the first one included.
    pub attempts: u32,
    /// Wait before the second attempt; doubles from there.
    pub first_wait: Duration,
    /// Longest wait between two attempts, and longest time that a server may ask for before it.
    pub longest_wait: Duration,
    /// Whether a server that is full (`RESOURCE_EXHAUSTED`) is retried. Callers with little time do without.
    pub retry_when_full: bool,
    /// What it shows to servers, and trusts.
    pub credentials: Credentials,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_mins(1),
            attempts: 5,
            first_wait: Duration::from_millis(100),
            longest_wait: Duration::from_secs(5),
            retry_when_full: true,
            credentials: Credentials::default(),
        }
    }
}

impl ClientConfig {
    /// Of calls that a question waits for, which has no time for long back-offs: few attempts, close together.
    pub fn for_questions(credentials: Credentials) -> Self {
        Self {
            attempts: 3,
            first_wait: Duration::from_millis(50),
            longest_wait: Duration::from_millis(500),
            retry_when_full: false,
            credentials,
            ..Self::default()
        }
    }
}

/// Transient failures: a server that restarts, a connection that ends before the call was sent, or one that is full and
/// does not rule out a retry.
fn passes(status: &Status, config: &ClientConfig) -> bool {
    let told_not_to = pushback(status).is_some_and(|millis| millis < 0);
    match status.code() {
        Code::Unavailable => !told_not_to,
        Code::Cancelled => was_not_sent(status),
        Code::ResourceExhausted => config.retry_when_full && !told_not_to,
        _ => false,
    }
}

/// Whether the connection ended, as at its age, before the call was sent.
fn was_not_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_canceled)
        {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Whether a server has certainly done nothing about a call: it says itself when to send it again, or was never sent
/// the call. A connection that is lost, or a status that a proxy or tonic has made of HTTP's, leaves open what the
/// server has done.
fn was_not_made(status: &Status) -> bool {
    let mut cause = status.source();
    let is_of_server = pushback(status).is_some();
    while let Some(error) = cause {
        if error.is::<tonic::ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    is_of_server || was_not_sent(status)
}

/// Wait before attempt `attempt` (from 1): doubles from `first` up to `longest`, of which `jitter` in [0, 1) takes up
/// to half.
fn wait(attempt: u32, first: Duration, longest: Duration, jitter: f64) -> Duration {
    let full = first
        .saturating_mul(1 << attempt.saturating_sub(1).min(16))
        .min(longest);
    full.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
}

/// The same after the time that the server asks for: clients that were refused together do not come back together.
fn wait_after(refusal: &Status, attempt: u32, config: &ClientConfig, jitter: f64) -> Duration {
    let asked = Duration::from_millis(pushback(refusal).map_or(0, i64::unsigned_abs)).min(config.longest_wait);
    asked + wait(attempt, config.first_wait, config.longest_wait, jitter)
}

/// A number in [0, 1) that differs between processes and calls; enough to keep clients from retrying in step.
fn jitter() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    (RandomState::new().hash_one(0u8) >> 11) as f64 / (1u64 << 53) as f64
}

/// Longest time after an attempt's deadline for the server's or the transport's own error, which says more.
const GRACE: Duration = Duration::from_millis(500);

/// Runs a call until it succeeds, fails for good, or the attempts are used up. Each attempt has `time`: the transport's
/// own timeout covers neither the connection before the call nor the body of its reply.
pub(super) async fn retry<T, F>(
    config: &ClientConfig,
    url: &str,
    time: Duration,
    call: impl FnMut() -> F,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, Status>>,
{
    retry_if(passes, config, url, time, call).await
}

/// The same for calls that change something, which are not repeated where the server may have made the change: by then
/// others may have changed the same again.
pub(super) async fn retry_unmade<T, F>(
    config: &ClientConfig,
    url: &str,
    time: Duration,
    call: impl FnMut() -> F,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, Status>>,
{
    retry_if(
        |status, config| passes(status, config) && was_not_made(status),
        config,
        url,
        time,
        call,
    )
    .await
}

async fn retry_if<T, F>(
    passes: impl Fn(&Status, &ClientConfig) -> bool,
    config: &ClientConfig,
    url: &str,
    time: Duration,
    mut call: impl FnMut() -> F,
) -> Result<T, ClientError>
where
    F: Future<Output = Result<T, Status>>,
{
    let mut attempt = 1;
    loop {
        let called = tokio::time::timeout(time.saturating_add(GRACE), call()).await;
        match called.unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("no reply within {time:.1?}")))) {
            Ok(value) => return Ok(value),
            Err(status) if passes(&status, config) && attempt < config.attempts => {
                let wait = wait_after(&status, attempt, config, jitter());
                tracing::debug!(url, attempt, ?wait, code = ?status.code(), "trying again");
                tokio::time::sleep(wait).await;
                attempt += 1;
            }
            Err(status) => return Err(ClientError::from_status(url, attempt, &status)),
        }
    }
}

/// The longest deadline that is sent; the header has no room for some durations.
pub(super) const LONGEST: Duration = Duration::from_hours(24);

/// Begins a call of many requests and replies, once. The server gets the deadline; the call ends here where it has not
/// begun by then.
pub(super) async fn begin<Q, R>(
    url: &str,
    requests: Q,
    deadline: Duration,
    call: impl AsyncFnOnce(Request<Q>) -> Result<Response<Streaming<R>>, Status>,
) -> Result<Streaming<R>, ClientError> {
    let mut request = Request::new(requests);
    request.set_timeout(deadline.min(LONGEST));
    let begun = tokio::time::timeout(deadline.saturating_add(GRACE), call(request)).await;
    begun
        .unwrap_or_else(|_| Err(Status::deadline_exceeded(format!("not begun within {deadline:.1?}"))))
        .map(Response::into_inner)
        .map_err(|status| ClientError::from_status(url, 1, &status))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pushback::RETRY_PUSHBACK;

    #[test]
    fn waits_double_up_to_the_longest() {
        let wait = |attempt| wait(attempt, Duration::from_millis(100), Duration::from_secs(1), 0.0).as_millis();
        assert_eq!([1, 2, 3, 4, 5, 99].map(wait), [100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn jitter_takes_up_to_half() {
        for _ in 0..100 {
            let wait = wait(1, Duration::from_millis(100), Duration::from_secs(1), jitter()).as_millis();
            assert!((50..=100).contains(&wait), "{wait}");
        }
    }

    #[test]
    fn the_time_that_a_server_asks_for_is_the_least() {
        let mut busy = Status::resource_exhausted("full");
        let wait = |busy: &Status, jitter| wait_after(busy, 1, &ClientConfig::default(), jitter).as_millis();
        assert_eq!([wait(&busy, 0.0), wait(&busy, 1.0)], [100, 50]);
        busy.metadata_mut().insert(RETRY_PUSHBACK, 1500.into());
        assert_eq!([wait(&busy, 0.0), wait(&busy, 1.0)], [1600, 1550]);
        busy.metadata_mut().insert(RETRY_PUSHBACK, i64::MAX.into());
        assert_eq!(wait(&busy, 0.0), 5100);
    }

    #[tokio::test]
    async fn only_passing_failures_are_tried_again() {
        let config = ClientConfig {
            attempts: 3,
            first_wait: Duration::from_millis(1),
            ..ClientConfig::default()
        };
        for (code, tries) in [
            (Code::Unavailable, 3),
            (Code::ResourceExhausted, 3),
            (Code::InvalidArgument, 1),
        ] {
            let mut calls = 0;
            let result: Result<(), _> = retry(&config, "http://x", Duration::from_mins(1), || {
                calls += 1;
                async move { Err(Status::new(code, "no")) }
            })
            .await;
            assert!(result.is_err());
            assert_eq!(calls, tries, "{code:?}");
        }
    }

    #[tokio::test]
    async fn a_call_that_its_connection_has_not_sent_is_sent_again() {
        let (ours, _theirs) = tokio::io::duplex(1 << 16);
        let (executor, ours) = (hyper_util::rt::TokioExecutor::new(), hyper_util::rt::TokioIo::new(ours));
        let (mut sender, connection) = hyper::client::conn::http2::handshake::<_, _, tonic::body::Body>(executor, ours)
            .await
            .unwrap();
        drop(connection);
        let request = hyper::Request::new(tonic::body::Body::empty());
        let not_sent = Status::from_error(Box::new(sender.send_request(request).await.unwrap_err()));
        assert_eq!(not_sent.code(), Code::Cancelled, "{not_sent}");
        assert!(passes(&not_sent, &ClientConfig::default()));
        assert!(!passes(&Status::cancelled("by the server"), &ClientConfig::default()));
        assert!(was_not_made(&not_sent));
    }

    #[tokio::test]
    async fn a_change_that_the_server_may_have_made_is_not_sent_again() {
        let lost = || {
            let mut status = Status::unavailable("connection reset");
            status.set_source(std::sync::Arc::new(std::io::Error::from(
                std::io::ErrorKind::ConnectionReset,
            )));
            status
        };
        let refused = || {
            let refusal = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            Status::from_error(Box::new(tonic::ConnectError(Box::new(refusal))))
        };
        // As tonic makes it of HTTP's status 502, and a proxy by itself.
        let of_proxy = || Status::unavailable("grpc-status header missing, mapped from HTTP status code 502");
        let of_server = || {
            let mut status = Status::unavailable("about to end; nothing was changed");
            status.metadata_mut().insert(RETRY_PUSHBACK, 0.into());
            status
        };
        let config = ClientConfig {
            attempts: 3,
            first_wait: Duration::from_millis(1),
            ..ClientConfig::default()
        };
        let cases: [(&dyn Fn() -> Status, usize, usize); 4] =
            [(&lost, 3, 1), (&of_proxy, 3, 1), (&refused, 3, 3), (&of_server, 3, 3)];
        for (failure, reads, changes) in cases {
            let (mut calls, time) = (0, Duration::from_mins(1));
            let mut call = || {
                calls += 1;
                let failure = failure();
                async move { Err::<(), _>(failure) }
            };
            assert!(retry(&config, "http://x", time, &mut call).await.is_err());
            assert!(retry_unmade(&config, "http://x", time, &mut call).await.is_err());
            assert_eq!(calls, reads + changes, "{}", failure());
        }
    }

    #[tokio::test]
    async fn a_full_server_is_asked_again_when_it_says_so() {
        let tries = async |config: &ClientConfig, pushback: &'static str| {
            let (mut calls, began) = (0, std::time::Instant::now());
            let result: Result<(), _> = retry(config, "http://x", Duration::from_mins(1), || {
                calls += 1;
                async move {
                    let mut status = Status::resource_exhausted("full");
                    status.metadata_mut().insert(RETRY_PUSHBACK, pushback.parse().unwrap());
                    Err(status)
                }
            })
            .await;
            assert!(result.is_err());
            (calls, began.elapsed() >= Duration::from_millis(30))
        };
        let config = ClientConfig {
            attempts: 2,
            first_wait: Duration::from_millis(1),
            ..ClientConfig::default()
        };
        assert_eq!(tries(&config, "30").await, (2, true));
        assert_eq!(tries(&config, "-1").await.0, 1, "never");
        let once = ClientConfig {
            retry_when_full: false,
            ..config
        };
        assert_eq!(tries(&once, "30").await.0, 1);
    }
}
