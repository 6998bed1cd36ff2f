//! Keys of an index: each is live in one shard.

use super::findings::{BETWEEN_CHECKS, Findings, MAX_LISTED};
use super::shard::VerifiedShard;
use dyad_files::Cancel;

/// In every generation each key is live in at most one shard.
pub(super) fn compare_shards(shards: &[VerifiedShard], cancel: &dyn Cancel, findings: &mut Findings) {
    let pairs = shards
        .iter()
        .enumerate()
        .flat_map(|(at, one)| shards.iter().skip(at + 1).map(move |other| (one, other)));
    let mut repeated = 0;
    for (one, other) in pairs {
        let (few, many) = if one.dense.len() < other.dense.len() {
            (one, other)
        } else {
            (other, one)
        };
        let keys = few.dense.keys();
        for node in (0..few.dense.len() as u32).filter(|node| few.is_live(*node)) {
            if node.is_multiple_of(BETWEEN_CHECKS) && cancel.is_cancelled() {
                findings.stopped = true;
                return;
            }
            if many.has(keys.key(node)) {
                repeated += 1;
                if repeated <= MAX_LISTED {
                    findings.note(format!(
                        "key `{}` is live in the shards {} and {}",
                        keys.key(node),
                        one.id,
                        other.id
                    ));
                }
            }
        }
    }
    if repeated > MAX_LISTED {
        findings.note(format!("{repeated} keys are live in more than one shard"));
    }
}
