//! A service that is away: it gets no batches for a time, and then one that asks first whether it is back.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A service that has failed with all attempts of a batch gets the next one after this time, if it says by then which model it has.
const AWAY: Duration = Duration::from_mins(1);

/// Until when a service is away, if it is.
#[derive(Debug, Clone, Default)]
pub(super) struct Absence(Arc<Mutex<Option<Instant>>>);

/// Whether a batch goes to a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Present,
    /// It has been away for its time; this batch asks whether it is back, and others do not.
    Probe,
    Away,
}

impl Absence {
    pub(super) fn turn(&self, now: Instant) -> Turn {
        let mut until = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match *until {
            None => Turn::Present,
            Some(until) if now < until => Turn::Away,
            Some(_) => {
                *until = Some(now + AWAY);
                Turn::Probe
            }
        }
    }

    pub(super) fn begin(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now + AWAY);
    }

    pub(super) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_batch_a_minute_asks_whether_a_service_is_back() {
        let (absence, now) = (Absence::default(), Instant::now());
        assert_eq!(absence.turn(now), Turn::Present);
        absence.clone().begin(now);
        let turns = [0, 59, 60, 61, 119, 120].map(|seconds| absence.turn(now + Duration::from_secs(seconds)));
        assert_eq!(turns, [Turn::Away, Turn::Away, Turn::Probe, Turn::Away, Turn::Away, Turn::Probe]);
        absence.end();
        assert_eq!(absence.turn(now), Turn::Present);
    }
}
