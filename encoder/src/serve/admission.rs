//! How much may wait, and who is refused: a budget of tokens over everything that is not answered yet.
//!
//! A text is first charged what it can have at most (a token takes at least one byte, and the model cuts at its longest
//! input), so that nothing unbounded is tokenized; afterwards what it has.

use std::time::Instant;

use dyad_proto::admission::{AdmissionLimit, Admitted, NotAdmitted};

use super::error::EncodeError;

/// Special tokens around a text, generously.
const SPECIAL_TOKENS: usize = 8;

/// Tokens that texts can have at most; `contents` is that of each without prompt and special tokens.
pub(crate) fn at_most(contents: &[usize], prompt_bytes: usize, max_tokens: usize) -> usize {
    contents
        .iter()
        .map(|content| (content + prompt_bytes + SPECIAL_TOKENS).min(max_tokens))
        .sum()
}

/// The most tokens that may wait or be embedded at once.
#[derive(Debug, Clone)]
pub(crate) struct EncodeAdmission(AdmissionLimit);

impl EncodeAdmission {
    pub(crate) fn new(limit: u32) -> Self {
        Self(AdmissionLimit::new(limit as usize))
    }

    /// Admits now or refuses.
    pub(crate) fn try_admit(&self, tokens: usize) -> Result<Admitted, EncodeError> {
        self.0.try_admit(tokens).map_err(|error| self.refusal(error, tokens))
    }

    /// Admits when there is room, until a deadline.
    pub(crate) async fn admit(&self, tokens: usize, deadline: Instant) -> Result<Admitted, EncodeError> {
        let admitted = self.0.admit(tokens, deadline).await;
        admitted.map_err(|error| self.refusal(error, tokens))
    }

    /// Gives back all but `tokens`, or takes what is missing; refused where that is not free.
    pub(crate) fn fit(&self, admitted: &mut Admitted, tokens: usize) -> Result<(), EncodeError> {
        admitted.lower_to(tokens);
        admitted.raise_to(tokens, &self.0).map_err(|error| match error {
            NotAdmitted::TooLarge => self.refusal(error, tokens),
            _ => self.refusal(error, tokens - admitted.amount()),
        })
    }

    /// Tokens admitted and not answered, and the limit.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.0.taken(), self.0.limit())
    }

    /// From now on everyone is told that the model has stopped.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    fn refusal(&self, error: NotAdmitted, needed: usize) -> EncodeError {
        let (waiting, limit) = self.load();
        match error {
            NotAdmitted::TooLarge => EncodeError::TooLarge { needed, limit },
            NotAdmitted::Closed => EncodeError::Stopped,
            NotAdmitted::Full | NotAdmitted::Late => EncodeError::QueueFull { needed, waiting, limit },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_charged_their_bytes_up_to_the_longest_input() {
        assert_eq!(at_most(&[2, 1000], 3, 256), (2 + 3 + SPECIAL_TOKENS) + 256);
    }

    #[test]
    fn a_full_queue_refuses_and_room_comes_back() {
        let admission = EncodeAdmission::new(100);
        let mut first = admission.try_admit(80).unwrap();
        let message = admission.try_admit(30).unwrap_err().to_string();
        assert!(
            message.contains("80") && message.contains("100") && message.contains("--queue-tokens"),
            "{message}"
        );
        admission.fit(&mut first, 70).unwrap();
        let second = admission.try_admit(30).unwrap();
        assert!(admission.fit(&mut first, 71).is_err());
        assert!(admission.try_admit(1).is_err());
        drop((first, second));
        assert!(admission.try_admit(100).is_ok());
    }

    #[test]
    fn what_can_never_fit_is_refused_for_good() {
        let admission = EncodeAdmission::new(100);
        assert!(matches!(
            admission.try_admit(101),
            Err(EncodeError::TooLarge {
                needed: 101,
                limit: 100
            })
        ));
        admission.close();
        assert!(matches!(admission.try_admit(1), Err(EncodeError::Stopped)));
    }
}
