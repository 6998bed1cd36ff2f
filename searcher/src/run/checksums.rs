//! Verifies the checksums of a generation's shards once, slowly, in the background: opening reads none of the bulk sections,
//! and a file may have been damaged by a copy.

use std::sync::{Arc, Weak};
use std::time::Duration;

use dyad_index::Snapshot;
use dyad_index::shard::DenseShard;

/// Pause after each MiB: at most 60 MiB a second are read, a small part of what disk and CPU can do.
const PAUSE: Duration = Duration::from_millis(16);

/// Reads the vectors, codes, links and keys of every shard that no generation before has had read, on a thread of its own.
/// Damage is logged, and reported by every search of the shard from then on. The thread holds one shard at a
/// time and not the generation, which can be closed meanwhile, and leaves out a shard that nobody else holds any more.
pub(super) fn check_in_background(snapshot: &Snapshot) {
    let shards: Vec<Weak<DenseShard>> = snapshot
        .shards()
        .iter()
        .filter(|shard| shard.dense.claim_check())
        .map(|shard| Arc::downgrade(&shard.dense))
        .collect();
    if shards.is_empty() {
        return;
    }
    let thread = std::thread::Builder::new().name("dyad-checksums".to_owned());
    if let Err(error) = thread.spawn(move || check(&shards, PAUSE)) {
        tracing::warn!("checksums of the generation are not verified: cannot start a thread: {error}");
    }
}

fn check(shards: &[Weak<DenseShard>], pause: Duration) {
    for shard in shards.iter().filter_map(Weak::upgrade) {
        let is_left = || {
            std::thread::sleep(pause);
            Arc::strong_count(&shard) == 1
        };
        match shard.check_sums(&is_left) {
            Ok(true) if shard.damage().is_none() => {
                tracing::info!("all checksums of `{}` are valid", shard.path().display());
            }
            Ok(_) => {}
            Err(error) => tracing::warn!("checksums of a shard are not verified: {error}"),
        }
    }
}
