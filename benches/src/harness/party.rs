//! Engines in their seats, and one step for each in turn. Who fails leaves; the others go on. Only an interrupt ends the run.

use super::error::{Error, Result};

/// One engine's part in a run.
pub trait Seat {
    /// The engine's name.
    fn engine(&self) -> &str;
}

/// The engines that are still measured, and those that failed.
pub(crate) struct Party<'a, S> {
    seats: Vec<S>,
    failures: Vec<(String, String)>,
    note: &'a dyn Fn(&str),
}

impl<'a, S: Seat> Party<'a, S> {
    /// Nobody yet; `note` hears who fails.
    pub(crate) fn new(note: &'a dyn Fn(&str)) -> Self {
        Self { seats: Vec::new(), failures: Vec::new(), note }
    }

    /// Takes an engine in, or notes why it cannot be.
    pub(crate) fn admit(&mut self, engine: &str, seat: Result<S>) -> Result<()> {
        seat.map(|seat| self.seats.push(seat)).or_else(|error| self.fail(engine, error))
    }

    /// Those that have not failed.
    pub(crate) fn seats(&self) -> &[S] {
        &self.seats
    }

    /// Does a step for every seat, beginning with another one each turn, so that none always follows the same one.
    pub(crate) fn each(&mut self, turn: usize, mut step: impl FnMut(&mut S) -> Result<()>) -> Result<()> {
        let mut failed = Vec::new();
        let count = self.seats.len();
        for position in 0..count {
            let at = (position + turn) % count;
            if let Some(seat) = self.seats.get_mut(at)
                && let Err(error) = step(seat)
            {
                failed.push((at, error));
            }
        }
        failed.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        let left: Vec<(S, Error)> = failed.into_iter().map(|(at, error)| (self.seats.remove(at), error)).collect();
        for (seat, error) in left.into_iter().rev() {
            let engine = seat.engine().to_owned();
            drop(seat);
            self.fail(&engine, error)?;
        }
        Ok(())
    }

    /// Notes an engine's failure; an interrupt is nobody's failure and ends the run.
    pub(crate) fn fail(&mut self, engine: &str, error: Error) -> Result<()> {
        if matches!(error, Error::Interrupted) {
            return Err(error);
        }
        (self.note)(&format!("{engine} failed: {error}"));
        self.failures.push((engine.to_owned(), error.to_string()));
        Ok(())
    }

    /// Whether an engine is among those that failed.
    pub(crate) fn has_failed(&self, engine: &str) -> bool {
        self.failures.iter().any(|(name, _)| name == engine)
    }

    /// What each engine measured; then names and errors in the order of the failures.
    pub(crate) fn close<E>(self, close: impl Fn(S) -> E) -> (Vec<E>, Vec<(String, String)>) {
        (self.seats.into_iter().map(close).collect(), self.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Seat for &str {
        fn engine(&self) -> &str {
            self
        }
    }

    fn refused(engine: &str) -> Error {
        Error::Refused { engine: engine.to_owned(), op: "open", message: "no".to_owned() }
    }

    #[test]
    fn another_seat_begins_each_turn_and_those_that_fail_leave() {
        let mut party = Party::new(&|_| {});
        party.each(3, |_| Err(Error::Interrupted)).unwrap();
        for engine in ["a", "b", "c", "d"] {
            party.admit(engine, Ok(engine)).unwrap();
        }
        let mut order = Vec::new();
        let step = |seat: &mut &'static str| {
            order.push(*seat);
            if *seat == "d" || *seat == "b" { Err(refused(seat)) } else { Ok(()) }
        };
        party.each(2, step).unwrap();
        assert_eq!(order, ["c", "d", "a", "b"]);
        let (seats, failed) = party.close(|seat| seat);
        assert_eq!(failed.iter().map(|(engine, _)| engine.as_str()).collect::<Vec<_>>(), ["b", "d"]);
        assert_eq!(seats, ["a", "c"]);
    }

    #[test]
    fn an_interrupt_is_nobodys_failure() {
        let mut party: Party<'_, &str> = Party::new(&|_| {});
        assert!(party.fail("a", Error::Interrupted).is_err());
        party.admit("b", Err(refused("b"))).unwrap();
        assert!(party.has_failed("b") && !party.has_failed("a"));
        assert_eq!(party.close(|seat| seat).1, [("b".to_owned(), "b: `open`: no".to_owned())]);
    }
}
