//! How exactly hits have the words of a question.

use dyad_files::Cancel;

use crate::error::Result;
use crate::lexical::Weighed;
use crate::snapshot::{DocumentHit, Snapshot};

/// Of each hit, in their order, [`super::Bm25Ranking::exactness`]; none where the work was cancelled.
pub fn exactness(
    snapshot: &Snapshot,
    weighed: &Weighed<'_>,
    hits: &[DocumentHit],
    cancel: &dyn Cancel,
) -> Result<Option<Vec<f32>>> {
    let mut of_hits = vec![0.0; hits.len()];
    for (number, shard) in snapshot.shards().iter().enumerate() {
        let own = hits.iter().enumerate().filter(|(_, hit)| hit.shard == number);
        let mut placed: Vec<(u32, usize)> = own.map(|(at, hit)| (hit.node, at)).collect();
        if placed.is_empty() {
            continue;
        }
        placed.sort_unstable();
        let nodes: Vec<u32> = placed.iter().map(|(node, _)| *node).collect();
        let Some(exactness) = weighed.exactness(&shard.text, &nodes, cancel)? else {
            return Ok(None);
        };
        for ((_, at), exactness) in placed.into_iter().zip(exactness) {
            if let Some(of_hit) = of_hits.get_mut(at) {
                *of_hit = exactness;
            }
        }
    }
    Ok(Some(of_hits))
}
