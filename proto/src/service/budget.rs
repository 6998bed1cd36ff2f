//! A memory budget shared by requests, of which no single one can take all.

use std::time::Instant;

use crate::admission::{AdmissionLimit, Admitted, NotAdmitted};

/// Bytes that count as the beginning of a request or a reply.
const BEGINNING: usize = 64 << 10;
const KIB: usize = 1024;

/// Separate budgets for beginnings and for the rest, so that small requests pass while large ones wait.
#[derive(Debug, Clone)]
pub struct ByteBudget {
    beginnings: AdmissionLimit,
    rest: AdmissionLimit,
}

impl ByteBudget {
    /// `beginnings` bytes for the first 64 KiB of every request, and `rest` bytes for all that follows them.
    pub fn new(beginnings: usize, rest: usize) -> Self {
        Self {
            beginnings: AdmissionLimit::new(beginnings / KIB),
            rest: AdmissionLimit::new(rest / KIB),
        }
    }

    /// Waits until `bytes` are free, and holds them; first come, first served.
    pub async fn reserve(&self, bytes: usize, deadline: Instant) -> Result<HeldBytes, NotAdmitted> {
        let [beginning, rest] = parts(bytes);
        Ok(HeldBytes {
            beginning: self.beginnings.admit(beginning, deadline).await?,
            rest: self.rest.admit(rest, deadline).await?,
        })
    }
}

/// KiB of the beginning, and of the rest.
fn parts(bytes: usize) -> [usize; 2] {
    [
        bytes.min(BEGINNING).div_ceil(KIB),
        bytes.saturating_sub(BEGINNING).div_ceil(KIB),
    ]
}

/// Bytes of a budget that one request holds; released when dropped.
#[derive(Debug, Default)]
pub struct HeldBytes {
    beginning: Admitted,
    rest: Admitted,
}

impl HeldBytes {
    /// Holds at least `bytes`. False where the budget does not suffice.
    #[must_use]
    pub fn raise_to(&mut self, bytes: usize, budget: &ByteBudget) -> bool {
        let [beginning, rest] = parts(bytes);
        self.beginning.raise_to(beginning, &budget.beginnings).is_ok() && self.rest.raise_to(rest, &budget.rest).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ones_leave_room_for_small_ones_and_give_back_what_they_held() {
        let budget = ByteBudget::new(256 << 10, 1 << 20);
        let (mut large, mut other, mut small) = (HeldBytes::default(), HeldBytes::default(), HeldBytes::default());
        assert!(large.raise_to(500 << 10, &budget) && large.raise_to(1 << 20, &budget));
        assert!(large.raise_to(10, &budget), "holds more already");
        assert!(!other.raise_to(200 << 10, &budget));
        assert!(other.raise_to(128 << 10, &budget) && small.raise_to(60 << 10, &budget));
        assert!(!HeldBytes::default().raise_to(usize::MAX, &budget));
        drop(large);
        assert!(other.raise_to(1 << 20, &budget));
    }
}
