//! Bounds the number of connections; idle ones are closed in favour of new ones.
//!
//! Idle connections cost their clients nothing, so a bound alone would let one client lock out the others. Where no
//! slot is free, the connections that have been idle longest are closed; a request in flight is never cut off.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// Time for a connection that is closed to end by itself, as after the last bytes of a reply.
pub(super) const CLOSE_GRACE: Duration = Duration::from_millis(500);

/// Share of the idle connections that are closed at a time: one in N, and at least one.
const EVICTED_SHARE: usize = 16;

/// All connection slots of a server.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSlots {
    free: Arc<Semaphore>,
    idle: Arc<Mutex<Idle>>,
}

/// Idle connections, in the order in which they became idle.
#[derive(Debug, Default)]
struct Idle {
    turn: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// The slot of one connection, released when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    idle: Arc<Mutex<Idle>>,
    /// Its number among the idle ones; none while it has a request.
    turn: Mutex<Option<u64>>,
    close: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl ConnectionSlots {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(slots)),
            idle: Arc::default(),
        }
    }

    /// Waits for a slot, and closes idle connections where none is free.
    pub(super) async fn take(&self) -> ConnectionSlot {
        loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                return ConnectionSlot::new(Arc::clone(&self.idle), permit);
            }
            self.end_idle();
            let free = Arc::clone(&self.free).acquire_owned();
            if let Ok(Ok(permit)) = tokio::time::timeout(2 * CLOSE_GRACE, free).await {
                return ConnectionSlot::new(Arc::clone(&self.idle), permit);
            }
        }
    }

    fn end_idle(&self) {
        let idle = lock(&self.idle);
        for connection in idle.waiting.values().take(idle.waiting.len().div_ceil(EVICTED_SHARE)) {
            connection.notify_one();
        }
    }
}

impl ConnectionSlot {
    fn new(idle: Arc<Mutex<Idle>>, permit: OwnedSemaphorePermit) -> Self {
        let slot = Self {
            idle,
            turn: Mutex::default(),
            close: Arc::default(),
            _permit: permit,
        };
        slot.set_idle();
        slot
    }

    /// Marks the connection as idle.
    pub(super) fn set_idle(&self) {
        let mut idle = lock(&self.idle);
        idle.turn += 1;
        let turn = idle.turn;
        idle.waiting.insert(turn, Arc::clone(&self.close));
        *lock(&self.turn) = Some(turn);
    }

    /// Marks the connection as having a request.
    pub(super) fn set_busy(&self) {
        let mut idle = lock(&self.idle);
        if let Some(turn) = lock(&self.turn).take() {
            idle.waiting.remove(&turn);
        }
    }

    /// Whether the connection is idle.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.turn).is_some()
    }

    /// Completes when the connection is to be closed.
    pub(super) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.set_busy();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
