//! What became of the requests of a pass: latencies of answers and refusals, and the first answer to each question.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

use super::arrivals::AskedQuestion;
use crate::error::{BenchError, BenchResult};

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
/// Highest share of requests without an answer at a rate that passes, and in a window that is good.
pub(super) const FAILED_SHARE: f64 = 0.001;
/// Longest latency that is told from longer ones: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Longest latency of a window that is told from longer ones: a minute, more than any deadline that says something
/// about an overload.
const LONGEST_IN_WINDOW_NS: u64 = 60_000_000_000;
/// Length of the windows that show how latency goes on over time.
pub(super) const WINDOW: Duration = Duration::from_millis(500);

/// What an engine replies.
#[derive(Debug)]
pub(super) enum LoadReply {
    /// Keys, best first.
    Answered(Vec<String>),
    /// Refused, late or broken: the class of the error.
    Failed(Cow<'static, str>),
}

/// A call of `count` requests that failed as a whole.
pub(super) fn failed(count: usize, class: impl Into<Cow<'static, str>>) -> Vec<LoadReply> {
    let class = class.into();
    (0..count).map(|_| LoadReply::Failed(class.clone())).collect()
}

/// When a request was meant to be sent, and when it was; from the beginning of the pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct SentAt {
    pub(super) intended: Duration,
    pub(super) sent: Duration,
}

/// Nanoseconds, with three significant digits.
pub(super) type Latencies = Histogram<u64>;

/// Latencies of one class: from the intended start, so that a wait in front of a busy server counts, and from the real
/// one.
#[derive(Debug)]
pub(super) struct ReplyClass {
    pub(super) intended: Latencies,
    pub(super) service: Latencies,
}

/// The requests that were meant to be sent within one [`WINDOW`].
#[derive(Debug, Clone)]
pub(super) struct TallyWindow {
    pub(super) requests: u64,
    /// Latencies of the answered ones, from the intended start.
    pub(super) answers: Latencies,
}

impl TallyWindow {
    /// Milliseconds at a quantile of its answers; none without answers.
    pub(super) fn milliseconds(&self, quantile: f64) -> Option<f64> {
        (!self.answers.is_empty()).then(|| milliseconds(&self.answers, quantile))
    }

    /// Whether more than [`FAILED_SHARE`] of its requests have no answer.
    pub(super) fn fails(&self) -> bool {
        (self.requests - self.answers.len().min(self.requests)) as f64 > FAILED_SHARE * self.requests as f64
    }
}

/// The requests of a pass that count: those meant to be sent after the warm-up.
#[derive(Debug)]
pub(super) struct RequestTally {
    warm_up: Duration,
    deadline: Duration,
    pub(super) classes: BTreeMap<Cow<'static, str>, ReplyClass>,
    /// Answers within the deadline from their intended start.
    pub(super) in_time: u64,
    /// Processor time of this process and of the server, where they were measured.
    pub(super) cpu_seconds: Vec<Option<f64>>,
    /// Windows by the intended start of their requests; none unless they were asked for.
    pub(super) windows: Vec<TallyWindow>,
    /// Latencies of a class without requests.
    empty: Latencies,
    /// Questions per kind.
    questions: usize,
    /// The first answer to each question of each kind.
    answers: Vec<Option<Vec<String>>>,
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A histogram; latencies above its bound count as that.
fn latencies(longest_ns: u64, digits: u8) -> BenchResult<Latencies> {
    Histogram::new_with_max(longest_ns, digits)
        .map_err(|error| BenchError::Refused(format!("a histogram of {digits} digits: {error}")))
}

impl RequestTally {
    pub(super) fn new(warm_up: Duration, deadline: Duration, kinds: usize, questions: usize) -> BenchResult<Self> {
        Ok(Self {
            warm_up,
            deadline,
            classes: BTreeMap::new(),
            in_time: 0,
            cpu_seconds: Vec::new(),
            windows: Vec::new(),
            empty: latencies(LONGEST_NS, 3)?,
            questions,
            answers: vec![None; kinds * questions],
        })
    }

    /// A tally with a window for every part of the measured time.
    pub(super) fn with_windows(mut self, measured: Duration) -> BenchResult<Self> {
        let window = TallyWindow {
            requests: 0,
            answers: latencies(LONGEST_IN_WINDOW_NS, 2)?,
        };
        self.windows = vec![window; measured.as_nanos().div_ceil(WINDOW.as_nanos()) as usize];
        Ok(self)
    }

    fn window(&mut self, intended: Duration) -> Option<&mut TallyWindow> {
        let into = intended.checked_sub(self.warm_up)?;
        self.windows.get_mut((into.as_nanos() / WINDOW.as_nanos()) as usize)
    }

    /// Counts requests that are due, whatever becomes of them.
    pub(super) fn expect(&mut self, requests: usize, intended: Duration) {
        if let Some(window) = self.window(intended) {
            window.requests += requests as u64;
        }
    }

    /// Counts a reply that came `now`, from the beginning of the pass.
    pub(super) fn record(
        &mut self,
        ask: AskedQuestion,
        SentAt { intended, sent }: SentAt,
        now: Duration,
        reply: LoadReply,
    ) {
        if intended < self.warm_up {
            return;
        }
        let latency = now.saturating_sub(intended);
        let class = match &reply {
            LoadReply::Answered(_) => Cow::Borrowed(ANSWERED),
            LoadReply::Failed(class) => class.clone(),
        };
        let (class, empty) = (self.classes.entry(class), &self.empty);
        let class = class.or_insert_with(|| ReplyClass {
            intended: empty.clone(),
            service: empty.clone(),
        });
        class.intended.saturating_record(nanoseconds(latency));
        class.service.saturating_record(nanoseconds(now.saturating_sub(sent)));
        let LoadReply::Answered(keys) = reply else { return };
        self.in_time += u64::from(latency <= self.deadline);
        if let Some(window) = self.window(intended) {
            window.answers.saturating_record(nanoseconds(latency));
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
        if asked == 0 {
            1.0
        } else {
            (asked - self.count(ANSWERED)) as f64 / asked as f64
        }
    }

    /// Milliseconds at a quantile, of the latencies of answers from their intended start; none without answers.
    pub(super) fn milliseconds(&self, quantile: f64) -> Option<f64> {
        self.classes
            .get(ANSWERED)
            .map(|class| milliseconds(&class.intended, quantile))
    }

    /// The answers, each with what was asked.
    pub(super) fn answers(&self) -> impl Iterator<Item = (AskedQuestion, &[String])> {
        let ask = |at: usize| AskedQuestion {
            kind: at / self.questions,
            question: at % self.questions,
        };
        self.answers
            .iter()
            .enumerate()
            .filter_map(move |(at, answer)| Some((ask(at), answer.as_deref()?)))
    }
}

/// Milliseconds at a quantile.
pub(super) fn milliseconds(latencies: &Latencies, quantile: f64) -> f64 {
    latencies.value_at_quantile(quantile) as f64 / 1e6
}
