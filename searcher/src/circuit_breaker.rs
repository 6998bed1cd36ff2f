//! A circuit breaker (Nygard, Release It!, 2007): no request waits for an encoder service that does not answer.
//!
//! It is closed at first. Eight consecutive calls that were not answered within their time, which began over a second
//! or more, open it. While it is open, calls fail at once, and at most once a second one of them starts a probe, a call
//! of the searcher's own. An answer closes it, and so does a failure within a second: nobody waits for that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use dyad_proto::client::ClientError;

/// Consecutive late calls that open it.
const LATE: u32 = 8;
/// Least time between the beginnings of the first and the last of these: those that came together may have met one
/// pause.
const SILENCE: Duration = Duration::from_secs(1);
/// Between two probes while it is open.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest time of a probe.
pub(crate) const PROBE_TIME: Duration = Duration::from_secs(5);
/// A failure within it costs nobody time.
const PROMPT: Duration = Duration::from_secs(1);
/// After a probe begins, until its answer has closed the circuit.
const PROBED: Duration = Duration::from_millis(100);
/// A call that had less time than this, and this for each of its texts, says nothing of the service.
const LEAST_TIME: Duration = Duration::from_millis(100);
const LEAST_TIME_PER_TEXT: Duration = Duration::from_millis(5);

/// The circuit breaker of one service.
#[derive(Debug, Clone, Default)]
pub(crate) struct CircuitBreaker(Arc<Mutex<BreakerState>>);

#[derive(Debug, Default)]
struct BreakerState {
    /// The calls that were late since the last one that ended in time.
    late: u32,
    /// When the first and the last of these began.
    began: Option<(Instant, Instant)>,
    /// When the last call ended in time: those that began before it say nothing of the time after it.
    ended: Option<Instant>,
    /// When the next probe is due, where it is open.
    next_probe: Option<Instant>,
}

impl BreakerState {
    /// Whether a call may be made; else the time until the next probe, and whether one is due now.
    fn admit(&mut self, now: Instant) -> Result<(), (Duration, bool)> {
        let Some(due) = self.next_probe else { return Ok(()) };
        let is_due = now >= due;
        let next = if is_due { now + PAUSE } else { due };
        self.next_probe = Some(next);
        Err((next - now, is_due))
    }

    /// A call ended by itself, with an answer (a refusal is one) or without.
    fn end(&mut self, began: Instant, now: Instant, is_answer: bool) {
        if is_answer || now - began <= PROMPT {
            *self = Self {
                ended: Some(now),
                ..Self::default()
            };
        } else {
            self.be_late(began, now, Duration::ZERO);
        }
    }

    /// A call's time is over; it counts if that was at least `least`.
    fn be_late(&mut self, began: Instant, now: Instant, least: Duration) {
        if now - began < least || self.ended.is_some_and(|ended| began < ended) {
            return;
        }
        self.late = self.late.saturating_add(1);
        let (first, last) = self.began.unwrap_or((began, began));
        let (first, last) = (first.min(began), last.max(began));
        self.began = Some((first, last));
        if self.next_probe.is_none() && self.late >= LATE && last - first >= SILENCE {
            self.next_probe = Some(now + PAUSE);
        }
    }
}

/// A call that is under way: dropped at the end of its time it is late; dropped before, with its client, it says
/// nothing.
struct Call {
    breaker: CircuitBreaker,
    began: Instant,
    time: Duration,
    least: Duration,
    has_ended: bool,
}

impl Drop for Call {
    fn drop(&mut self) {
        let now = Instant::now();
        // Its time began a little before it.
        if !self.has_ended && now - self.began >= self.time.mul_f64(0.9) {
            self.breaker.state().be_late(self.began, now, self.least);
        }
    }
}

impl CircuitBreaker {
    fn state(&self) -> MutexGuard<'_, BreakerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time until the next probe, where it is open.
    pub(crate) fn is_open(&self) -> Option<Duration> {
        self.state()
            .next_probe
            .map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Makes a call with some texts that has some time. Where it is open, the call is not made, and the time until
    /// another may be is the error; `probe` is started, on a task of its own, where one is due.
    pub(crate) async fn call<R, P: Send>(
        &self,
        texts: usize,
        time: Duration,
        call: impl Future<Output = Result<R, ClientError>>,
        probe: impl Future<Output = Result<P, ClientError>> + Send + 'static,
    ) -> Result<Result<R, ClientError>, Duration> {
        let admitted = self.state().admit(Instant::now());
        let (next, is_due) = match admitted {
            Ok(()) => {
                let least = LEAST_TIME + LEAST_TIME_PER_TEXT.saturating_mul(u32::try_from(texts).unwrap_or(u32::MAX));
                return Ok(self.watch(time, least, call).await);
            }
            Err(open) => open,
        };
        if is_due {
            let breaker = self.clone();
            drop(tokio::spawn(async move {
                let probed = tokio::time::timeout(PROBE_TIME, breaker.watch(PROBE_TIME, LEAST_TIME, probe)).await;
                tracing::debug!(is_answered = matches!(probed, Ok(Ok(_))), "probe of an encoder service");
            }));
        }
        Err(next + PROBED)
    }

    async fn watch<R>(
        &self,
        time: Duration,
        least: Duration,
        call: impl Future<Output = Result<R, ClientError>>,
    ) -> Result<R, ClientError> {
        let mut watched = Call {
            breaker: self.clone(),
            began: Instant::now(),
            time,
            least,
            has_ended: false,
        };
        let result = call.await;
        watched.has_ended = true;
        let (began, now) = (watched.began, Instant::now());
        match &result {
            Err(ClientError::Deadline { .. }) => self.state().be_late(began, now, least),
            Ok(_) | Err(ClientError::Refused { .. } | ClientError::Contract { .. }) => {
                self.state().end(began, now, true);
            }
            Err(ClientError::Unreachable { .. } | ClientError::Broken { .. }) => self.state().end(began, now, false),
            // Nothing was sent.
            Err(_) => {}
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls that had this time.
    const TIME: u64 = 300;

    struct Clock(Instant);

    impl Clock {
        fn at(&self, ms: u64) -> Instant {
            self.0 + Duration::from_millis(ms)
        }

        /// A call that began then was given up; whether the circuit is open afterwards.
        fn late(&self, state: &mut BreakerState, began: u64) -> bool {
            state.be_late(self.at(began), self.at(began + TIME), LEAST_TIME);
            state.next_probe.is_some()
        }

        fn end(&self, state: &mut BreakerState, began: u64, ended: u64, is_answer: bool) {
            state.end(self.at(began), self.at(ended), is_answer);
        }
    }

    fn opened(clock: &Clock) -> BreakerState {
        let mut state = BreakerState::default();
        assert!((0..8).all(|call| clock.late(&mut state, call * 150) == (call == 7)));
        state
    }

    #[test]
    fn eight_late_calls_over_a_second_open_it_and_one_probe_a_second_is_due() {
        let (clock, mut state) = (Clock(Instant::now()), BreakerState::default());
        // Together, however many.
        assert!((0..100).all(|_| !clock.late(&mut state, 0)));
        assert!(!clock.late(&mut state, 999));
        assert_eq!(state.admit(clock.at(1_299)), Ok(()));
        assert!(clock.late(&mut state, 1_000));
        assert_eq!(state.admit(clock.at(2_299)), Err((Duration::from_millis(1), false)));
        let due: Vec<u64> = (2_300..6_000)
            .step_by(10)
            .filter(|ms| state.admit(clock.at(*ms)).unwrap_err().1)
            .collect();
        assert_eq!(due, [2_300, 3_300, 4_300, 5_300]);
        // Seven over a second do not, nor do calls with little time.
        let mut state = BreakerState::default();
        assert!((0..7).all(|call| !clock.late(&mut state, call * 1_000)));
        let mut state = BreakerState::default();
        (0..100u64).for_each(|call| state.be_late(clock.at(call * 100), clock.at(call * 100 + 99), LEAST_TIME));
        assert_eq!(state.admit(clock.at(20_000)), Ok(()));
    }

    #[test]
    fn what_ends_in_time_closes_it_and_what_began_before_does_not_count() {
        let clock = Clock(Instant::now());
        for is_answer in [true, false] {
            let mut state = opened(&clock);
            clock.end(&mut state, 2_500, 3_500, is_answer);
            assert_eq!(state.admit(clock.at(3_500)), Ok(()));
            assert!(
                (0..100).all(|call| !clock.late(&mut state, call * 35)),
                "they began before"
            );
            assert!(
                (0..8).all(|call| clock.late(&mut state, 3_500 + call * 150) == (call == 7)),
                "as at the start"
            );
        }
        // However long: an answer, but not a failure.
        for is_answer in [true, false] {
            let mut state = opened(&clock);
            clock.end(&mut state, 2_500, 3_501, is_answer);
            assert_eq!(state.next_probe.is_none(), is_answer);
        }
        let mut state = BreakerState::default();
        (0..100).for_each(|call| {
            assert!(!clock.late(&mut state, call * 1_000));
            if call % 5 == 0 {
                clock.end(&mut state, call * 1_000, call * 1_000 + 5_000, true);
            }
        });
        // Nobody there for long: as if it did not answer.
        let mut state = BreakerState::default();
        (0..8).for_each(|call| clock.end(&mut state, call * 150, call * 150 + 1_001, false));
        assert!(state.next_probe.is_some());
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_at_its_end_or_out_of_time_is_late_and_a_probe_closes_it() {
        let (breaker, time) = (CircuitBreaker::default(), Duration::from_millis(110));
        let never = || std::future::pending::<Result<(), ClientError>>();
        let deadline = || ClientError::Deadline {
            url: String::new(),
            reason: String::new(),
        };
        let began = Instant::now();
        // With its client, before its time.
        for _ in 0..100 {
            let left = breaker.call(1, Duration::from_hours(1), never(), never());
            assert!(tokio::time::timeout(Duration::from_millis(11), left).await.is_err());
        }
        assert!(breaker.is_open().is_none() && breaker.state().late == 0);
        for is_dropped in [true, false].into_iter().cycle() {
            if breaker.is_open().is_some() {
                break;
            }
            let call = async {
                std::thread::sleep(Duration::from_millis(110));
                if is_dropped { never().await } else { Err(deadline()) }
            };
            let made = tokio::time::timeout(Duration::from_millis(1), breaker.call(1, time, call, never())).await;
            assert!(if is_dropped {
                made.is_err()
            } else {
                matches!(made, Ok(Ok(Err(_))))
            });
            assert!(began.elapsed() < Duration::from_mins(1), "it never opens");
        }
        // The call is not made; the probe that is due is.
        let (probed, mut was_probed) = tokio::sync::mpsc::channel(1);
        while breaker.is_open().is_some() {
            let probed = probed.clone();
            let probe = async move {
                let _ = probed.try_send(());
                Ok::<_, ClientError>(())
            };
            let call = async { panic!("the circuit is open") };
            if let Ok(made) = breaker.call(1, time, call, probe).await {
                let (): () = made.unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
            tokio::task::yield_now().await;
            assert!(began.elapsed() < Duration::from_mins(1), "it never closes");
        }
        assert!(was_probed.try_recv().is_ok());
        assert!(
            breaker
                .call(1, time, async { Ok::<_, ClientError>(()) }, never())
                .await
                .unwrap()
                .is_ok()
        );
    }
}
