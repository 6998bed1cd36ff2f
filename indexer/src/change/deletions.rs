//! Shards of a generation without some of their documents.

use dyad_index::manifest::MinRecall;
use dyad_index::search::NodeSet;
use dyad_index::snapshot::Shard;
use dyad_index::{Deletions, Snapshot};
use rayon::prelude::*;

use crate::control::{JobControl, Unit};
use crate::error::Error;
use crate::graph_build::certify_live;
use crate::publish::{DraftShard, ShardFiles};

/// Live nodes with these keys, ascending, one list per shard.
pub(super) fn locate<K: AsRef<str> + Sync>(base: &Snapshot, keys: &[K]) -> Result<Vec<Vec<u32>>, Error> {
    let find = |key: &K| base.find(key.as_ref());
    let found: Vec<Option<(usize, u32)>> = keys.par_iter().map(find).collect::<Result<_, dyad_index::Error>>()?;
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

/// The shards of a generation without these live nodes, one list per shard. A shard of which nothing is left is left out.
pub(super) fn without<'a>(
    base: &Snapshot,
    nodes: &[Vec<u32>],
    control: JobControl<'_>,
) -> Result<Vec<DraftShard<'a>>, Error> {
    let mut shards = Vec::with_capacity(base.shards().len());
    let total = nodes.iter().map(Vec::len).sum::<usize>() as u64;
    if total > 0 {
        control.progress.begin("delete", Unit::Documents, Some(total));
    }
    for ((entry, shard), nodes) in super::shards(base).zip(nodes) {
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
        shards.push(DraftShard { files: ShardFiles::Kept(entry.clone()), deletions, updates: None });
    }
    if total > 0 {
        control.progress.finish();
    }
    Ok(shards)
}

/// The deletions of a shard once these live nodes, ascending and not all that there are, are deleted too. An error where it
/// is then searched worse than the index must be.
pub(super) fn delete_nodes(
    id: &str,
    shard: &Shard,
    nodes: &[u32],
    min_recall: Option<MinRecall>,
    control: JobControl<'_>,
) -> Result<Deletions, Error> {
    let mut live = shard.live().cloned().unwrap_or_else(|| {
        let mut all = NodeSet::new(shard.dense.len());
        all.extend(0..shard.dense.len() as u32);
        all
    });
    for node in nodes {
        live.remove(*node);
    }
    let before = shard.deletions.as_ref().map(|deletions| deletions.terms.clone()).unwrap_or_default();
    let cancelled = || control.cancel.is_cancelled();
    let terms = shard.text.terms_of(nodes, &before, &cancelled)?.ok_or(Error::Cancelled)?;
    let certificate = certify_live(&shard.dense, &live, control)?;
    if let Some(MinRecall { recall: target, ef }) = min_recall {
        let point = certificate.recall.iter().find(|point| point.ef == ef);
        let recall = point.map_or(0.0, |point| point.recall_at_10);
        if recall < target {
            return Err(Error::BelowKept { shard: id.to_owned(), recall, target, ef });
        }
    }
    Ok(Deletions { live, terms, certificate })
}
