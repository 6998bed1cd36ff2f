//! Places for connections: bounded, and those that wait for a request give way to new ones.
//!
//! Connections that send nothing cost their clients nothing, so a bound alone lets anyone shut the others out. Where no place
//! is free, those that have waited longest for a request are ended; a request under way is never cut off.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How long a connection that gives way may take to end by itself, as with the last bytes of a reply.
pub(super) const GIVE_WAY: Duration = Duration::from_millis(500);

/// Connections that are ended at once: one in N of all, and one at least.
const SHARE: usize = 16;

/// All places of a server.
#[derive(Debug, Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    idle: Arc<Mutex<Idle>>,
}

/// Connections that wait for a request, in the order in which they began to.
#[derive(Debug, Default)]
struct Idle {
    turn: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    idle: Arc<Mutex<Idle>>,
    /// Its place among the idle; none while it has a request.
    turn: Mutex<Option<u64>>,
    give_way: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(places: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(places)), idle: Arc::default() }
    }

    /// Waits for a place, and makes those give way that only hold one.
    pub(super) async fn take(&self) -> Place {
        loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                return Place::new(Arc::clone(&self.idle), permit);
            }
            self.end_idle();
            let free = Arc::clone(&self.free).acquire_owned();
            if let Ok(Ok(permit)) = tokio::time::timeout(2 * GIVE_WAY, free).await {
                return Place::new(Arc::clone(&self.idle), permit);
            }
        }
    }

    fn end_idle(&self) {
        let idle = lock(&self.idle);
        for connection in idle.waiting.values().take(idle.waiting.len().div_ceil(SHARE)) {
            connection.notify_one();
        }
    }
}

impl Place {
    fn new(idle: Arc<Mutex<Idle>>, permit: OwnedSemaphorePermit) -> Self {
        let place = Self { idle, turn: Mutex::default(), give_way: Arc::default(), _permit: permit };
        place.waits();
        place
    }

    /// It waits for a request from now on.
    pub(super) fn waits(&self) {
        let mut idle = lock(&self.idle);
        idle.turn += 1;
        let turn = idle.turn;
        idle.waiting.insert(turn, Arc::clone(&self.give_way));
        *lock(&self.turn) = Some(turn);
    }

    /// It has a request.
    pub(super) fn is_busy(&self) {
        let mut idle = lock(&self.idle);
        if let Some(turn) = lock(&self.turn).take() {
            idle.waiting.remove(&turn);
        }
    }

    /// Whether it waits for a request.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.turn).is_some()
    }

    /// Completes when it is to give way.
    pub(super) async fn gives_way(&self) {
        self.give_way.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.is_busy();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
