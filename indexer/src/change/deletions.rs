//! Shards of a generation without some of their documents.

use dyad_index::deletions::DeletedTerms;
use dyad_index::ground_truth::NearestNodes;
use dyad_index::manifest::MinRecall;
use dyad_index::search::NodeSet;
use dyad_index::snapshot::Shard;
use dyad_index::{Certificate, Deletions, Snapshot};
use rayon::prelude::*;

use crate::control::{JobControl, Unit};
use crate::draft::DraftShard;
use crate::error::Error;
use crate::graph_build::{certify_live, stored_ground_truth};

/// Share of the documents among which recall was measured that may be deleted before it is measured again.
const MAX_DELETED_SINCE: f64 = 0.01;
/// What recall may have lost by them before it is measured again.
const MAX_LOST_SINCE: f64 = 0.01;

/// Live nodes with these keys, ascending, one list per shard.
pub(super) fn locate<K: AsRef<str> + Sync>(base: &Snapshot, keys: &[K]) -> Result<Vec<Vec<u32>>, Error> {
    locate_by(base, keys, |key| Ok(base.find(key)?))
}

/// The same of those that `find` finds.
pub(super) fn locate_by<K: AsRef<str> + Sync>(
    base: &Snapshot,
    keys: &[K],
    find: impl Fn(&str) -> Result<Option<(usize, u32)>, Error> + Sync,
) -> Result<Vec<Vec<u32>>, Error> {
    let find = |key: &K| find(key.as_ref());
    let found: Vec<Option<(usize, u32)>> = keys.par_iter().map(find).collect::<Result<_, Error>>()?;
    let mut nodes = vec![Vec::new(); base.shards().len()];
    add(&mut nodes, found.into_iter().flatten().collect());
    Ok(nodes)
}

/// Adds live nodes to the lists of [`locate`].
pub(super) fn add(nodes: &mut [Vec<u32>], more: Vec<(usize, u32)>) {
    for (shard, node) in more {
        if let Some(nodes) = nodes.get_mut(shard) {
            nodes.push(node);
        }
    }
    for nodes in nodes {
        nodes.sort_unstable();
        nodes.dedup();
    }
}

/// The shards of a generation without these live nodes, one list per shard. A shard of which nothing is left is left
/// out.
pub(super) fn draft_without(
    base: &Snapshot,
    nodes: &[Vec<u32>],
    control: JobControl<'_>,
) -> Result<Vec<DraftShard>, Error> {
    let mut shards = Vec::with_capacity(base.shards().len());
    let total = nodes.iter().map(Vec::len).sum::<usize>() as u64;
    if total > 0 {
        control.progress.begin("delete", Unit::Documents, Some(total));
    }
    for ((entry, shard), nodes) in base.entries().zip(nodes) {
        let deletions = if nodes.is_empty() {
            None
        } else if nodes.len() == shard.len() {
            control.progress.advance(nodes.len() as u64);
            continue;
        } else {
            let deletions = delete_nodes(&entry.id, shard, nodes, base.manifest().min_recall, control)?;
            control.progress.advance(nodes.len() as u64);
            Some(deletions)
        };
        shards.push(DraftShard {
            deletions,
            ..DraftShard::kept(entry)
        });
    }
    if total > 0 {
        control.progress.finish();
    }
    Ok(shards)
}

/// The deletions of a shard once these live nodes, ascending and not all that there are, are deleted too. An error
/// where it is then searched worse than the index must be.
pub(super) fn delete_nodes(
    id: &str,
    shard: &Shard,
    nodes: &[u32],
    min_recall: Option<MinRecall>,
    control: JobControl<'_>,
) -> Result<Deletions, Error> {
    let mut live = shard.live().cloned().unwrap_or_else(|| NodeSet::all(shard.dense.len()));
    for node in nodes {
        live.remove(*node);
    }
    let none = DeletedTerms::default();
    let before = shard.deletions.as_ref().map_or(&none, |deletions| &deletions.terms);
    let terms = shard
        .text
        .terms_of(nodes, before, control.cancel)?
        .ok_or(Error::Cancelled)?;
    let certificate = if let Some(certificate) = still_valid(shard, &live, nodes.len(), min_recall)? {
        certificate
    } else {
        let truth = stored_ground_truth(&shard.dense, &shard.ground_truth_path())?;
        certify_live(&shard.dense, &truth, &live, control)?
    };
    if let Some(MinRecall { recall: target, ef }) = min_recall {
        let recall = certificate.least_recall(ef).unwrap_or(0.0);
        if recall < target {
            return Err(Error::BelowKept {
                shard: id.to_owned(),
                recall,
                target,
                ef,
            });
        }
    }
    Ok(Deletions {
        live,
        terms,
        certificate,
    })
}

/// The certificate of a shard, for fewer live nodes than it has: `deleted` fewer. None where recall must be measured
/// again: too many were deleted since it was measured, or so near to its questions that recall may have fallen by too
/// much, or below what the index must keep.
fn still_valid(
    shard: &Shard,
    live: &NodeSet,
    deleted: usize,
    min_recall: Option<MinRecall>,
) -> Result<Option<Certificate>, Error> {
    let certificate = shard.certificate();
    let since = certificate.vectors.saturating_sub(live.len() as u64);
    if since as f64 > MAX_DELETED_SINCE * certificate.vectors as f64 {
        return Ok(None);
    }
    let path = shard.ground_truth_path();
    // Shards of earlier releases do not have what their questions should find.
    if !path.exists() {
        return Ok(None);
    }
    let nearest = NearestNodes::open(&path, shard.dense.meta().model.dim, shard.dense.len())?;
    let lost_since = certificate.lost_since + nearest.most_lost(|node| shard.is_live(node), live, deleted);
    let certificate = Certificate {
        lost_since,
        ..certificate.clone()
    };
    let keeps = |MinRecall { recall, ef }| certificate.least_recall(ef).is_some_and(|least| least >= recall);
    Ok((lost_since <= MAX_LOST_SINCE && min_recall.is_none_or(keeps)).then_some(certificate))
}
