//! A service that is away: it gets no batches for a time, and then one, if it says that it is back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether a service is away. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Absence {
    /// How long a service that has failed gets no batches.
    time: Duration,
    state: Arc<Mutex<AbsenceState>>,
}

#[derive(Debug, Default)]
struct AbsenceState {
    away_until: Option<Instant>,
    answered: Option<Instant>,
}

/// Whether a batch goes to a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServicePresence {
    Present,
    /// It has been away for its time; this batch asks whether it is back, and others do not.
    Probe,
    Away,
}

impl Absence {
    pub(super) fn new(time: Duration) -> Self {
        Self {
            time,
            state: Arc::default(),
        }
    }

    pub(super) fn turn(&self, now: Instant) -> ServicePresence {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.away_until {
            None => ServicePresence::Present,
            Some(until) if now < until => ServicePresence::Away,
            Some(_) => {
                state.away_until = Some(now + self.time);
                ServicePresence::Probe
            }
        }
    }

    /// A batch that was sent at `sent` has failed: the service is away, unless it has answered another one since.
    pub(super) fn failed(&self, sent: Instant, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.answered.is_none_or(|answered| answered < sent) {
            state.away_until = Some(now + self.time);
        }
    }

    pub(super) fn answered(&self, now: Instant) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = AbsenceState {
            away_until: None,
            answered: Some(now),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_batch_a_minute_asks_whether_a_service_is_back() {
        let (absence, began) = (Absence::new(Duration::from_mins(1)), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(absence.turn(at(0)), ServicePresence::Present);
        absence.clone().failed(at(0), at(10));
        let turns = [10, 69, 70, 71, 129, 130].map(|seconds| absence.turn(at(seconds)));
        assert_eq!(
            turns,
            [
                ServicePresence::Away,
                ServicePresence::Away,
                ServicePresence::Probe,
                ServicePresence::Away,
                ServicePresence::Away,
                ServicePresence::Probe
            ]
        );
        absence.answered(at(131));
        assert_eq!(absence.turn(at(131)), ServicePresence::Present);
        absence.failed(at(130), at(132));
        assert_eq!(absence.turn(at(132)), ServicePresence::Present, "it has answered since");
        absence.failed(at(132), at(133));
        assert_eq!(absence.turn(at(133)), ServicePresence::Away);
    }
}
