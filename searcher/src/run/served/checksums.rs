//! Verifies the checksums of generations' shards once, slowly, in the background: opening reads none of the bulk
//! sections, and a file may have been damaged by a copy.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use dyad_index::Snapshot;
use dyad_index::shard::DenseShard;

/// Pause after each MiB: at most 60 MiB a second are read, a small part of what disk and CPU can do.
const PAUSE: Duration = Duration::from_millis(16);

/// The shards whose checksums are to be verified, of all indexes: one after another, on a thread that ends when there
/// are no more.
#[derive(Debug, Default)]
pub(in crate::run) struct Checksums(Arc<Mutex<WaitingShard>>);

/// One entry for each shard that was open when the last generation came and is still to be read: who claims it is the
/// only one.
#[derive(Debug, Default)]
struct WaitingShard {
    shards: VecDeque<Weak<DenseShard>>,
    has_thread: bool,
}

impl Checksums {
    /// Reads the vectors, codes, links and keys of every shard that no generation before has had read, later. Damage is
    /// logged, and reported by every search of the shard from then on. The thread holds one shard at a time and not the
    /// generation, which can be closed meanwhile, and leaves out a shard that nobody else holds any more.
    pub(in crate::run) fn check_in_background(&self, snapshot: &Snapshot) {
        let claimed = snapshot.shards().iter().filter(|shard| shard.dense.claim_check());
        let mut waiting = lock(&self.0);
        waiting.shards.retain(|shard| shard.strong_count() > 0);
        waiting.shards.extend(claimed.map(|shard| Arc::downgrade(&shard.dense)));
        if waiting.has_thread || waiting.shards.is_empty() {
            return;
        }
        let (thread, all) = (
            std::thread::Builder::new().name("dyad-checksums".to_owned()),
            Arc::clone(&self.0),
        );
        match thread.spawn(move || check_all(&all, PAUSE)) {
            Ok(_) => waiting.has_thread = true,
            Err(error) => {
                tracing::warn!("checksums of the generation are not verified: cannot start a thread: {error}");
                waiting.shards.clear();
            }
        }
    }
}

fn lock(waiting: &Mutex<WaitingShard>) -> MutexGuard<'_, WaitingShard> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check_all(waiting: &Mutex<WaitingShard>, pause: Duration) {
    let mut valid = 0;
    loop {
        let next = {
            let mut waiting = lock(waiting);
            let next = waiting.shards.pop_front();
            waiting.has_thread = next.is_some();
            next
        };
        match next {
            Some(shard) => valid += usize::from(shard.upgrade().is_some_and(|shard| check(&shard, pause))),
            None => return tracing::info!(shards = valid, "all checksums of these shards are valid"),
        }
    }
}

/// Whether a shard was read to its end, and is as it was written.
fn check(shard: &Arc<DenseShard>, pause: Duration) -> bool {
    let is_left = || {
        std::thread::sleep(pause);
        Arc::strong_count(shard) == 1
    };
    match shard.check_sums(&is_left) {
        Ok(done) => done && shard.damage().is_none(),
        Err(error) => {
            tracing::warn!("checksums of a shard are not verified: {error}");
            false
        }
    }
}
