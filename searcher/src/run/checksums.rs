//! The checksums of a generation, compared once after it was opened, little by little: opening reads none of the bulk
//! sections, and a file that was copied may have lost bytes on the way.

use std::sync::Arc;
use std::time::Duration;

use dyad_index::Snapshot;

/// Between two mebibytes: 60 of them a second, which a disk of thousands does not notice, nor a processor that sums gigabytes.
const PAUSE: Duration = Duration::from_millis(16);

/// Reads every shard's vectors, codes, links and keys on a thread of its own. What is wrong is told in the log, and by every
/// search of the shard from then on. Ends early once nobody else holds the snapshot.
pub(super) fn check_in_background(snapshot: &Arc<Snapshot>) {
    let snapshot = Arc::clone(snapshot);
    let thread = std::thread::Builder::new().name("dyad-checksums".to_owned());
    if let Err(error) = thread.spawn(move || check(&snapshot, PAUSE)) {
        tracing::warn!("checksums of the generation are not compared: no thread could be started: {error}");
    }
}

fn check(snapshot: &Arc<Snapshot>, pause: Duration) {
    let is_left = || {
        std::thread::sleep(pause);
        Arc::strong_count(snapshot) == 1
    };
    for shard in snapshot.shards() {
        match shard.dense.check_sums(&is_left) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => tracing::warn!("checksums of a shard are not compared: {error}"),
        }
    }
    if snapshot.damage().is_none() {
        tracing::info!(generation = snapshot.manifest().generation, "every checksum holds");
    }
}
