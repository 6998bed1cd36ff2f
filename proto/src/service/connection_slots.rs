//! Bounds the number of connections; those that may give way are closed in favour of new ones.
//!
//! Connections that do nothing cost their clients nothing, so a bound alone would let one client lock out the others.
//! Where no slot is free, the connections that have been without a claim to theirs for longest are closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Time for a connection that is closed to end by itself, as after the last bytes of a reply.
pub(super) const CLOSE_GRACE: Duration = Duration::from_millis(500);

/// Share of the connections that may give way that are closed at a time: one in N, and at least one.
const EVICTED_SHARE: usize = 16;

/// What a connection must have to keep its slot while others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotClaim {
    /// Nothing.
    None,
    /// A request in flight.
    Request,
    /// A call whose API key was accepted, within this time of the connection's start.
    Key(Duration),
}

/// All connection slots of a server.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    claim: SlotClaim,
    unclaimed: Arc<Mutex<UnclaimedSlots>>,
}

/// Connections that may give way, in the order in which they lost their claims.
#[derive(Debug, Default)]
struct UnclaimedSlots {
    last_turn: u64,
    waiting: BTreeMap<u64, UnclaimedSlot>,
}

#[derive(Debug)]
struct UnclaimedSlot {
    /// When the connection may be closed.
    from: Instant,
    close: Arc<Notify>,
}

/// The slot of one connection, released when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    claim: SlotClaim,
    unclaimed: Arc<Mutex<UnclaimedSlots>>,
    /// Its number among those that may give way; none while it has its claim.
    turn: Mutex<Option<u64>>,
    close: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    pub(super) fn new(slots: usize, claim: SlotClaim) -> Self {
        Self {
            free: Arc::new(Semaphore::new(slots)),
            claim,
            unclaimed: Arc::default(),
        }
    }

    /// A slot, where one is free.
    pub(super) fn try_take(&self) -> Option<ConnectionSlot> {
        Some(self.slot(Arc::clone(&self.free).try_acquire_owned().ok()?))
    }

    /// Waits for a slot, and closes connections that may give way until there is one.
    pub(super) async fn take(&self) -> ConnectionSlot {
        loop {
            self.close_some();
            let free = Arc::clone(&self.free).acquire_owned();
            if let Ok(Ok(permit)) = tokio::time::timeout(2 * CLOSE_GRACE, free).await {
                return self.slot(permit);
            }
        }
    }

    fn slot(&self, permit: OwnedSemaphorePermit) -> ConnectionSlot {
        let slot = ConnectionSlot {
            claim: self.claim,
            unclaimed: Arc::clone(&self.unclaimed),
            turn: Mutex::default(),
            close: Arc::default(),
            _permit: permit,
        };
        match self.claim {
            SlotClaim::None => {}
            SlotClaim::Request => slot.give_up(Instant::now()),
            SlotClaim::Key(within) => slot.give_up(Instant::now() + within),
        }
        slot
    }

    fn close_some(&self) {
        let (now, unclaimed) = (Instant::now(), lock(&self.unclaimed));
        let share = unclaimed.waiting.len().div_ceil(EVICTED_SHARE);
        for connection in unclaimed.waiting.values().take(share).filter(|one| one.from <= now) {
            connection.close.notify_one();
        }
    }
}

impl ConnectionSlot {
    /// Notes that a request has begun.
    pub(super) fn begin_request(&self) {
        if self.claim == SlotClaim::Request {
            self.keep();
        }
    }

    /// Notes that the connection's only request has ended.
    pub(super) fn end_request(&self) {
        if self.claim == SlotClaim::Request {
            self.give_up(Instant::now());
        }
    }

    /// Notes that an API key was accepted.
    pub(super) fn accept_key(&self) {
        if matches!(self.claim, SlotClaim::Key(_)) {
            self.keep();
        }
    }

    fn give_up(&self, from: Instant) {
        let mut unclaimed = lock(&self.unclaimed);
        unclaimed.last_turn += 1;
        let turn = unclaimed.last_turn;
        let close = Arc::clone(&self.close);
        unclaimed.waiting.insert(turn, UnclaimedSlot { from, close });
        *lock(&self.turn) = Some(turn);
    }

    fn keep(&self) {
        let mut unclaimed = lock(&self.unclaimed);
        if let Some(turn) = lock(&self.turn).take() {
            unclaimed.waiting.remove(&turn);
        }
    }

    /// Whether the connection may be closed for a new one.
    pub(super) fn gives_way(&self) -> bool {
        lock(&self.turn).is_some()
    }

    /// Completes when the connection is to be closed.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.keep();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
