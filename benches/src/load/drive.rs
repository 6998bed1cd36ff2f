//! One pass: requests sent at their times whatever the engine does (open loop), or by clients that wait for their
//! replies (closed loop).

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dyad_command::JobCancellation;

use super::arrivals::{ArrivalTimes, AskedQuestion, RequestMix};
use super::tally::{LoadReply, NOT_SENT, RequestTally, SentAt, UNANSWERED, failed};
use crate::error::{BenchResult, check};

/// Time between two looks at the cancellation.
const TICK: Duration = Duration::from_millis(20);
/// Time after their deadline for replies that are still to come.
const DRAIN: Duration = Duration::from_secs(20);
/// Slack of the thread that sends, in place of the kernel's 50 microseconds, which every latency would have on top.
const TIMER_SLACK: Option<NonZeroU64> = NonZeroU64::new(1_000);

/// Receives the replies of a call, one to each of its requests.
pub(super) type ReplyReceiver = Box<dyn FnOnce(Vec<LoadReply>) + Send>;

/// The process that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnsweringProcess {
    /// This one, which also asks.
    Own,
    /// A server that was started here.
    Server(u32),
    /// A server elsewhere.
    Unknown,
}

/// What is measured.
pub(super) trait LoadTarget: Send + Sync {
    /// Begins a call with these requests, and returns at once; `done` is called later, on any thread.
    fn start(&self, asks: &[AskedQuestion], done: ReplyReceiver);

    /// Whose memory and processor time the answers take.
    fn process(&self) -> AnsweringProcess;

    /// Requests of a call.
    fn batch(&self) -> usize {
        1
    }
}

/// What all passes share.
#[derive(Debug, Clone)]
pub(super) struct LoadPass {
    /// Requests meant to be sent before do not count.
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
    /// Time for each request.
    pub(super) deadline: Duration,
    /// Requests that may be under way.
    pub(super) max_in_flight: usize,
    pub(super) kinds: usize,
    pub(super) questions: usize,
    /// Whether the tally is to have windows.
    pub(super) has_windows: bool,
    pub(super) cancel: JobCancellation,
}

/// A pass that is under way.
pub(super) struct RunningPass {
    start: Instant,
    pass: LoadPass,
    in_flight: AtomicUsize,
    tally: Mutex<RequestTally>,
    mix: Mutex<RequestMix>,
}

impl RunningPass {
    fn new(pass: &LoadPass, mix: RequestMix) -> BenchResult<Arc<Self>> {
        let tally = Mutex::new(pass.tally()?);
        let (in_flight, mix) = (AtomicUsize::new(0), Mutex::new(mix));
        Ok(Arc::new(Self {
            start: Instant::now(),
            pass: pass.clone(),
            in_flight,
            tally,
            mix,
        }))
    }

    fn record(&self, asks: &[AskedQuestion], sent: SentAt, replies: Vec<LoadReply>) {
        let now = self.start.elapsed();
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        for (ask, reply) in asks.iter().zip(replies) {
            tally.record(*ask, sent, now, reply);
        }
    }

    /// The requests of the next call.
    fn asks(&self, count: usize) -> Vec<AskedQuestion> {
        let mut mix = self.mix.lock().unwrap_or_else(PoisonError::into_inner);
        (0..count).map(|_| mix.next()).collect()
    }

    /// Makes a call that was meant to be made at `intended`, and then calls `after`.
    fn send(
        self: &Arc<Self>,
        target: &dyn LoadTarget,
        asks: &[AskedQuestion],
        intended: Option<Duration>,
        after: impl FnOnce() + Send + 'static,
    ) {
        let (running, sent, of_call) = (Arc::clone(self), self.start.elapsed(), asks.to_vec());
        let sent = SentAt {
            intended: intended.unwrap_or(sent),
            sent,
        };
        let done = move |replies| {
            running.record(&of_call, sent, replies);
            after();
            running.in_flight.fetch_sub(of_call.len(), Ordering::SeqCst);
        };
        self.in_flight.fetch_add(asks.len(), Ordering::SeqCst);
        target.start(asks, Box::new(done));
    }

    /// Waits until a time of the pass.
    fn sleep_until(&self, time: Duration) -> BenchResult<()> {
        loop {
            check(&self.pass.cancel)?;
            let left = time.saturating_sub(self.start.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(TICK));
        }
    }

    /// Waits for the replies to what is under way, and counts those that do not come.
    pub(super) fn finish(&self) -> BenchResult<RequestTally> {
        let until = self.start.elapsed() + self.pass.deadline + DRAIN;
        while self.in_flight.load(Ordering::SeqCst) > 0 && self.start.elapsed() < until {
            check(&self.pass.cancel)?;
            thread::sleep(Duration::from_millis(1));
        }
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.start.elapsed();
        for _ in 0..self.in_flight.load(Ordering::SeqCst) {
            let (ask, sent) = (
                AskedQuestion { kind: 0, question: 0 },
                SentAt {
                    intended: now,
                    sent: now,
                },
            );
            tally.record(ask, sent, now, LoadReply::Failed(UNANSWERED.into()));
        }
        Ok(std::mem::replace(&mut tally, self.pass.tally()?))
    }
}

impl LoadPass {
    pub(super) fn tally(&self) -> BenchResult<RequestTally> {
        let tally = RequestTally::new(self.warm_up, self.deadline, self.kinds, self.questions)?;
        if self.has_windows {
            tally.with_windows(self.measured)
        } else {
            Ok(tally)
        }
    }

    /// Makes calls at `times`. One that is due while too many requests are under way is not made, and its requests
    /// count as failed.
    pub(super) fn open(
        &self,
        target: &dyn LoadTarget,
        times: ArrivalTimes,
        mix: RequestMix,
    ) -> BenchResult<RequestTally> {
        self.send_all(target, times, mix)?.finish()
    }

    /// The same, without the wait for the last replies.
    pub(super) fn send_all(
        &self,
        target: &dyn LoadTarget,
        times: ArrivalTimes,
        mix: RequestMix,
    ) -> BenchResult<Arc<RunningPass>> {
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(TIMER_SLACK);
        let running = RunningPass::new(self, mix)?;
        let end = self.warm_up + self.measured;
        for intended in times.take_while(|time| *time < end) {
            running.sleep_until(intended)?;
            let asks = running.asks(target.batch());
            if self.has_windows {
                // Here, so that also those that are never answered count in their window.
                running
                    .tally
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .expect(asks.len(), intended);
            }
            if running.in_flight.load(Ordering::SeqCst) + asks.len() <= self.max_in_flight {
                running.send(target, &asks, Some(intended), || ());
            } else {
                let sent = SentAt {
                    intended,
                    sent: running.start.elapsed(),
                };
                running.record(&asks, sent, failed(asks.len(), NOT_SENT));
            }
        }
        Ok(running)
    }

    /// Lets `clients` make one call after the other, each as soon as it has the reply to the one before.
    pub(super) fn closed(
        &self,
        target: &Arc<dyn LoadTarget>,
        clients: usize,
        mix: RequestMix,
    ) -> BenchResult<RequestTally> {
        let running = RunningPass::new(self, mix)?;
        for _ in 0..clients {
            ask_on(&running, target);
        }
        running.sleep_until(self.warm_up + self.measured)?;
        running.finish()
    }
}

/// The next call of a client, and so on until the end of the pass.
fn ask_on(running: &Arc<RunningPass>, target: &Arc<dyn LoadTarget>) {
    if running.start.elapsed() >= running.pass.warm_up + running.pass.measured {
        return;
    }
    let (next, again) = (Arc::clone(running), Arc::clone(target));
    running.send(target.as_ref(), &running.asks(target.batch()), None, move || {
        ask_on(&next, &again);
    });
}
