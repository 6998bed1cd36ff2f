//! Bounds the number of connections; those that may give way are closed in favour of new ones.
//!
//! Connections that do nothing cost their clients nothing, so a bound alone would let one client lock out the others.
//! Where no slot is free, the connections that have not held theirs for longest are closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Time for a connection that is closed to end by itself, as after the last bytes of a reply.
pub(super) const CLOSE_GRACE: Duration = Duration::from_millis(500);

/// Share of the connections that may give way that are closed at a time: one in N, and at least one.
const EVICTED_SHARE: usize = 16;

/// All connection slots of a server.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    gives_way: Option<Duration>,
    unheld: Arc<Mutex<UnheldSlots>>,
}

/// Slots that are not held, in the order in which they were released.
#[derive(Debug, Default)]
struct UnheldSlots {
    last_turn: u64,
    waiting: BTreeMap<u64, UnheldSlot>,
}

#[derive(Debug)]
struct UnheldSlot {
    /// When the connection may be closed.
    from: Instant,
    close: Arc<Notify>,
}

/// The slot of one connection, free when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    unheld: Arc<Mutex<UnheldSlots>>,
    /// Its number among those that are not held.
    turn: Mutex<Option<u64>>,
    close: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    /// A connection may be closed for a new one when it has not held its slot for the time `gives_way`; never, where
    /// there is none.
    pub(super) fn new(slots: usize, gives_way: Option<Duration>) -> Self {
        Self {
            free: Arc::new(Semaphore::new(slots)),
            gives_way,
            unheld: Arc::default(),
        }
    }

    /// Waits for a slot, and closes connections until there is one. `full` is called where none is free.
    pub(super) async fn take(&self, full: impl FnOnce()) -> ConnectionSlot {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return self.slot(permit);
        }
        full();
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
            unheld: Arc::clone(&self.unheld),
            turn: Mutex::default(),
            close: Arc::default(),
            _permit: permit,
        };
        if let Some(time) = self.gives_way {
            slot.release_at(Instant::now() + time);
        }
        slot
    }

    fn close_some(&self) {
        let (now, unheld) = (Instant::now(), lock(&self.unheld));
        let share = unheld.waiting.len().div_ceil(EVICTED_SHARE);
        for slot in unheld.waiting.values().take(share).filter(|slot| slot.from <= now) {
            slot.close.notify_one();
        }
    }
}

impl ConnectionSlot {
    /// Keeps the connection from being closed for a new one.
    pub(super) fn hold(&self) {
        let mut unheld = lock(&self.unheld);
        if let Some(turn) = lock(&self.turn).take() {
            unheld.waiting.remove(&turn);
        }
    }

    /// Lets the connection be closed for a new one.
    pub(super) fn release(&self) {
        self.release_at(Instant::now());
    }

    fn release_at(&self, from: Instant) {
        let mut unheld = lock(&self.unheld);
        unheld.last_turn += 1;
        let (turn, close) = (unheld.last_turn, Arc::clone(&self.close));
        unheld.waiting.insert(turn, UnheldSlot { from, close });
        *lock(&self.turn) = Some(turn);
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
        self.hold();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
