//! Verifies the checksums of a generation once, slowly, in the background: opening reads none of the bulk sections, and a
//! file may have been damaged by a copy.

use std::sync::Arc;
use std::time::Duration;

use dyad_index::Snapshot;

/// Pause after each MiB: at most 60 MiB a second are read, a small part of what disk and CPU can do.
const PAUSE: Duration = Duration::from_millis(16);

/// Reads every shard's vectors, codes, links and keys on a thread of its own. Damage is logged, and reported by every search
/// of the shard from then on. Ends early once it is the last holder of the snapshot.
pub(super) fn check_in_background(snapshot: &Arc<Snapshot>) {
    let snapshot = Arc::clone(snapshot);
    let thread = std::thread::Builder::new().name("dyad-checksums".to_owned());
    if let Err(error) = thread.spawn(move || check(&snapshot, PAUSE)) {
        tracing::warn!("checksums of the generation are not verified: cannot start a thread: {error}");
    }
}

fn check(snapshot: &Arc<Snapshot>, pause: Duration) {
    let is_left = || {
        std::thread::sleep(pause);
        Arc::strong_count(snapshot) == 1
    };
    // Those that other generations have in common have been read with them.
    for shard in snapshot.shards().iter().filter(|shard| !shard.dense.sums_are_checked()) {
        match shard.dense.check_sums(&is_left) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => tracing::warn!("checksums of a shard are not verified: {error}"),
        }
    }
    if snapshot.damage().is_none() {
        tracing::info!(generation = snapshot.manifest().generation, "all checksums are valid");
    }
}
