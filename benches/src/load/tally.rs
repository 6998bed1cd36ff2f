//! What became of the requests of a pass: latencies of answers and refusals, and the first answer to each question.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::arrivals::Ask;
use crate::error::{Error, Result};

/// The class of answers.
pub(super) const ANSWERED: &str = "answered";
/// The class of requests that a full server refuses.
pub(super) const REFUSED: &str = "ResourceExhausted";
/// The class of answers with a part missing.
pub(super) const DEGRADED: &str = "degraded";
/// The class of requests that were never sent, because too many were under way.
pub(super) const NOT_SENT: &str = "not sent";
/// The class of requests that were still under way when the wait for them ended.
pub(super) const UNANSWERED: &str = "unanswered";
/// Longest latency that is told from longer ones: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Length of the windows that show how latency goes on over time.
pub(super) const WINDOW: Duration = Duration::from_millis(500);

/// What an engine replies.
#[derive(Debug)]
pub(super) enum Reply {
    /// Keys, best first.
    Answered(Vec<String>),
    /// Refused, late or broken: the class of the error.
    Failed(Cow<'static, str>),
}

/// A call of `count` requests that failed as a whole.
pub(super) fn failed(count: usize, class: impl Into<Cow<'static, str>>) -> Vec<Reply> {
    let class = class.into();
    (0..count).map(|_| Reply::Failed(class.clone())).collect()
}

/// When a request was meant to be sent, and when it was; from the beginning of the pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) intended: Duration,
    pub(super) sent: Duration,
}

/// Nanoseconds, with three significant digits.
pub(super) type Latencies = Histogram<u64>;

/// Latencies of one class: from the intended start, so that a wait in front of a busy server counts, and from the real one.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) intended: Latencies,
    pub(super) service: Latencies,
}

/// The requests of a pass that count: those meant to be sent after the warm-up.
#[derive(Debug)]
pub(super) struct Tally {
    warm_up: Duration,
    deadline: Duration,
    pub(super) classes: BTreeMap<Cow<'static, str>, Class>,
    /// Answers within the deadline from their intended start.
    pub(super) in_time: u64,
    /// Processor time of this process and of the server, where they were measured.
    pub(super) cpu_seconds: Vec<Option<f64>>,
    /// Latencies of answers by the [`WINDOW`] of their intended start.
    pub(super) windows: Vec<Latencies>,
    /// Of a class, and of a window.
    empty: [Latencies; 2],
    /// Questions per kind.
    questions: usize,
    /// The first answer to each question of each kind.
    answers: Vec<Option<Vec<String>>>,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A histogram; latencies above its bound count as that.
fn latencies(digits: u8) -> Result<Latencies> {
    Histogram::new_with_max(LONGEST_NS, digits)
        .map_err(|error| Error::Refused(format!("a histogram of {digits} digits: {error}")))
}

impl Tally {
    pub(super) fn new(warm_up: Duration, deadline: Duration, kinds: usize, questions: usize) -> Result<Self> {
        Ok(Self {
            warm_up,
            deadline,
            classes: BTreeMap::new(),
            in_time: 0,
            cpu_seconds: Vec::new(),
            windows: Vec::new(),
            empty: [latencies(3)?, latencies(2)?],
            questions,
            answers: vec![None; kinds * questions],
        })
    }

    /// Counts a reply that came `now`, from the beginning of the pass.
    pub(super) fn record(&mut self, ask: Ask, Sent { intended, sent }: Sent, now: Duration, reply: Reply) {
        let Some(into) = intended.checked_sub(self.warm_up) else { return };
        let latency = now.saturating_sub(intended);
        let class = match &reply {
            Reply::Answered(_) => Cow::Borrowed(ANSWERED),
            Reply::Failed(class) => class.clone(),
        };
        let [empty, empty_window] = &self.empty;
        let class = self.classes.entry(class);
        let class = class.or_insert_with(|| Class { intended: empty.clone(), service: empty.clone() });
        class.intended.saturating_record(nanoseconds(latency));
        class.service.saturating_record(nanoseconds(now.saturating_sub(sent)));
        let Reply::Answered(keys) = reply else { return };
        self.in_time += u64::from(latency <= self.deadline);
        let window = (into.as_nanos() / WINDOW.as_nanos()) as usize;
        while self.windows.len() <= window {
            self.windows.push(empty_window.clone());
        }
        if let Some(window) = self.windows.get_mut(window) {
            window.saturating_record(nanoseconds(latency));
        }
        let place = (ask.question < self.questions).then(|| ask.kind * self.questions + ask.question);
        if let Some(answer) = place.and_then(|place| self.answers.get_mut(place)) {
            answer.get_or_insert(keys);
        }
    }

    /// Requests of a class.
    pub(super) fn count(&self, class: &str) -> u64 {
        self.classes.get(class).map_or(0, |class| class.intended.len())
    }

    pub(super) fn asked(&self) -> u64 {
        self.classes.values().map(|class| class.intended.len()).sum()
    }

    /// Those that were not answered, as a share; 1 where nothing was asked.
    pub(super) fn failed_share(&self) -> f64 {
        let asked = self.asked();
        if asked == 0 { 1.0 } else { (asked - self.count(ANSWERED)) as f64 / asked as f64 }
    }

    /// Milliseconds at a quantile, of the latencies of answers from their intended start; none without answers.
    pub(super) fn milliseconds(&self, quantile: f64) -> Option<f64> {
        self.classes.get(ANSWERED).map(|class| milliseconds(&class.intended, quantile))
    }

    /// The answers, each with what was asked.
    pub(super) fn answers(&self) -> impl Iterator<Item = (Ask, &[String])> {
        let ask = |at: usize| Ask { kind: at / self.questions, question: at % self.questions };
        self.answers.iter().enumerate().filter_map(move |(at, answer)| Some((ask(at), answer.as_deref()?)))
    }
}

/// Milliseconds at a quantile.
pub(super) fn milliseconds(latencies: &Latencies, quantile: f64) -> f64 {
    latencies.value_at_quantile(quantile) as f64 / 1e6
}
