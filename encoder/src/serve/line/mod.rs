//! Who is taken into the queue: a request that can be answered in its time. Pure data: times are passed in.
//!
//! What cannot be answered before its deadline is refused when it comes, not after it has waited for nothing: under
//! overload the queue stays as short as the deadlines are, and all that is embedded is of use. The estimate counts the
//! tokens of the batches under way, of what is embedded first, of the request, and of one more batch of each runner,
//! since a batch is answered when all of it is embedded; at the measured rate, with a margin.

use std::time::{Duration, Instant};

use super::error::EncodeError;
use super::queue::{Cut, RequestQueue};
use super::rate::Rates;
use crate::tokenize::Budget;

/// An estimate has to fit this often into the time that is left: rates vary, and the reply takes time too.
const MARGIN: f64 = 1.5;

/// Tokens of the batches of many runners: fewer cost more each.
const SMALLEST_BATCH: usize = 256;

/// A batch that a runner of the model is at.
#[derive(Debug, Clone, Copy)]
struct RunningBatch {
    tokens: usize,
    /// Tokens that waited when it was cut, its own included.
    backlog: usize,
    since: Instant,
    /// [`WaitingLine::busy`] when it began.
    busy: Duration,
}

/// The queue, the batches under way, and how fast batches are done.
#[derive(Debug)]
pub(crate) struct WaitingLine<R> {
    queue: RequestQueue<R>,
    rates: Rates,
    /// By runner.
    running: Vec<Option<RunningBatch>>,
    /// Time that runners were busy, summed over them, until `seen`.
    busy: Duration,
    seen: Option<Instant>,
    /// Of a batch of one of the runners.
    budget: Budget,
}

impl<R: Clone> WaitingLine<R> {
    pub(crate) fn new(budget: Budget) -> Self {
        let (queue, rates) = (RequestQueue::new(), Rates::default());
        Self {
            queue,
            rates,
            running: vec![None],
            busy: Duration::ZERO,
            seen: None,
            budget,
        }
    }

    /// How many batches the model may be at, 1 until it is told. Each is as much smaller, since a runner has as much
    /// less of the machine: what waits for one waits no longer.
    pub(crate) fn set_runners(&mut self, runners: usize) {
        self.running = vec![None; runners];
        let tokens = (self.budget.tokens / runners.max(1))
            .max(SMALLEST_BATCH)
            .min(self.budget.tokens);
        self.budget = Budget { tokens, ..self.budget };
    }

    /// There are no more than that, after all.
    pub(crate) fn limit_runners(&mut self, runners: usize) {
        self.running.truncate(runners);
    }

    /// Batches that the model is at.
    fn at_once(&self) -> usize {
        self.running.iter().flatten().count()
    }

    /// The waiting requests.
    pub(crate) fn queue(&mut self) -> &mut RequestQueue<R> {
        &mut self.queue
    }

    #[cfg(test)]
    pub(crate) fn measure(&mut self, backlog: usize, tokens: usize, spent: Duration) {
        self.rates.measure(backlog, tokens, 1.0, spent);
    }

    /// Whether a request of this number of tokens can be answered before its deadline. Nobody is refused while a runner
    /// is idle and nothing waits, or before it was seen at work.
    pub(crate) fn in_time(&self, tokens: usize, deadline: Instant, now: Instant) -> Result<(), EncodeError> {
        // Who is late already is told so in his turn.
        let left = deadline.saturating_duration_since(now);
        if left.is_zero() || (self.queue.is_empty() && self.at_once() < self.running.len()) {
            return Ok(());
        }
        let Some(rate) = self.rates.at(self.queue.tokens().saturating_add(tokens)) else {
            return Ok(());
        };
        let of_each = rate.per_second / self.at_once().max(1) as f64;
        let left_of = |running: &RunningBatch| {
            let done = now.saturating_duration_since(running.since).as_secs_f64() * of_each;
            (running.tokens as f64 - done).max(0.0)
        };
        let running: f64 = self.running.iter().flatten().map(left_of).sum();
        let ahead = running + self.queue.ahead(tokens, self.budget) as f64;
        let last = rate.batch * self.running.len() as f64;
        let wait = (ahead + tokens as f64 + last) / rate.per_second.max(f64::MIN_POSITIVE);
        let wait = Duration::try_from_secs_f64(wait * MARGIN).unwrap_or(Duration::MAX);
        if wait <= left {
            return Ok(());
        }
        Err(EncodeError::Overloaded {
            ahead: ahead as usize,
            wait,
            left,
        })
    }

    /// Cuts the next batch, which this runner begins now.
    pub(crate) fn begin(&mut self, runner: usize, now: Instant) -> Option<Cut<R>> {
        let backlog = self.queue.tokens();
        let cut = self.queue.cut(self.budget)?;
        let busy = self.busy_until(now);
        if let Some(running) = self.running.get_mut(runner) {
            *running = Some(RunningBatch {
                tokens: cut.tokens(),
                backlog,
                since: now,
                busy,
            });
        }
        Some(cut)
    }

    /// The batch that this runner began has ended; one that failed says nothing of the rate.
    pub(crate) fn end(&mut self, runner: usize, now: Instant, embedded: bool) {
        let until = self.busy_until(now);
        if let Some(RunningBatch {
            tokens,
            backlog,
            since,
            busy,
        }) = self.running.get_mut(runner).and_then(Option::take)
            && embedded
        {
            let spent = now.saturating_duration_since(since);
            let at_once = until.saturating_sub(busy).as_secs_f64() / spent.as_secs_f64().max(1e-6);
            self.rates.measure(backlog, tokens, at_once.max(1.0), spent);
        }
    }

    /// Time that runners were busy, summed over them.
    fn busy_until(&mut self, now: Instant) -> Duration {
        let since = self
            .seen
            .map_or(Duration::ZERO, |seen| now.saturating_duration_since(seen));
        self.busy += since * u32::try_from(self.at_once()).unwrap_or(u32::MAX);
        self.seen = Some(self.seen.map_or(now, |seen| seen.max(now)));
        self.busy
    }
}

#[cfg(test)]
mod tests;
