//! One step for every engine in turn. Who fails leaves; the others go on.

use super::error::{Error, Result};

/// Does a step for every seat, beginning with another one each turn, so that none always follows the same one.
///
/// Seats that fail are taken out and given back with their errors, in the order of the seats.
pub fn in_turn<S>(seats: &mut Vec<S>, turn: usize, mut step: impl FnMut(&mut S) -> Result<()>) -> Vec<(S, Error)> {
    let mut failed = Vec::new();
    let count = seats.len();
    for position in 0..count {
        let at = (position + turn) % count;
        if let Some(seat) = seats.get_mut(at)
            && let Err(error) = step(seat)
        {
            failed.push((at, error));
        }
    }
    failed.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let mut out: Vec<(S, Error)> = failed.into_iter().map(|(at, error)| (seats.remove(at), error)).collect();
    out.reverse();
    out
}

/// Engines that failed, and why.
#[derive(Debug, Clone, Default)]
pub struct Failures(Vec<(String, String)>);

impl Failures {
    /// Notes an engine's failure; an interrupt is nobody's failure and ends the run.
    pub fn push(&mut self, engine: &str, error: Error, note: &dyn Fn(&str)) -> Result<()> {
        if matches!(error, Error::Interrupted) {
            return Err(error);
        }
        note(&format!("{engine} failed: {error}"));
        self.0.push((engine.to_owned(), error.to_string()));
        Ok(())
    }

    /// Whether an engine is among them.
    pub fn has(&self, engine: &str) -> bool {
        self.0.iter().any(|(name, _)| name == engine)
    }

    /// Names and errors in the order of the failures.
    pub fn into_vec(self) -> Vec<(String, String)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_seat_begins_each_turn_and_those_that_fail_leave() {
        let mut seats = vec!["a", "b", "c", "d"];
        let mut order = Vec::new();
        let failed = in_turn(&mut seats, 2, |seat| {
            order.push(*seat);
            if *seat == "d" || *seat == "b" { Err(Error::Interrupted) } else { Ok(()) }
        });
        assert_eq!(order, ["c", "d", "a", "b"]);
        assert_eq!(failed.iter().map(|(seat, _)| *seat).collect::<Vec<_>>(), ["b", "d"]);
        assert_eq!(seats, ["a", "c"]);
        assert!(in_turn(&mut Vec::<u8>::new(), 3, |_| Ok(())).is_empty());
    }

    #[test]
    fn an_interrupt_is_nobodys_failure() {
        let mut failures = Failures::default();
        assert!(failures.push("a", Error::Interrupted, &|_| {}).is_err());
        let error = Error::Refused { engine: "b".to_owned(), op: "open", message: "no".to_owned() };
        failures.push("b", error, &|_| {}).unwrap();
        assert!(failures.has("b") && !failures.has("a"));
        assert_eq!(failures.into_vec(), [("b".to_owned(), "b: `open`: no".to_owned())]);
    }
}
