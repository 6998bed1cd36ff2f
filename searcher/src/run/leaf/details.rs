//! What fusion and groups need of the hits of some shards, besides their scores.

use std::collections::{BTreeMap, BTreeSet};

use dyad_index::hybrid::{bounded_bm25, bounded_dense, exactness, hits_of_both};
use dyad_index::lexical::Weighed;
use dyad_index::snapshot::DocumentHit;
use dyad_proto::v1;

use super::super::stages::rank::field_value;
use super::call::LeafPart;
use crate::error::Result;

/// The shard's number in the manifest.
fn number(part: &LeafPart, hit: &DocumentHit) -> u32 {
    part.snapshot.numbers().get(hit.shard).copied().unwrap_or_default() as u32
}

/// Both scores of each of these hits, from 0 to 1, and how exactly it has the words of the question.
pub(super) fn bounded_scores(
    part: &LeafPart,
    dense: Option<&v1::LeafDenseSearch>,
    weighed: &Weighed<'_>,
    hits: &[DocumentHit],
) -> Result<Vec<v1::LeafBoundedScores>> {
    let LeafPart { snapshot, cancel, .. } = part;
    let hits = hits_of_both(hits, &[]);
    let by_vector: BTreeMap<(usize, u32), f32> = match dense {
        Some(dense) => bounded_dense(snapshot, &dense.vector, &hits)
            .into_iter()
            .map(|hit| ((hit.shard, hit.node), hit.score))
            .collect(),
        None => BTreeMap::new(),
    };
    let late = || cancel.deadline_error();
    let bounded = bounded_bm25(snapshot, weighed, None, hits, &**cancel)?.ok_or_else(late)?;
    let exact = exactness(snapshot, weighed, &bounded, &**cancel)?.ok_or_else(late)?;
    let scores = |(hit, exactness): (&DocumentHit, f32)| v1::LeafBoundedScores {
        shard: number(part, hit),
        node: hit.node,
        dense: by_vector.get(&(hit.shard, hit.node)).copied(),
        bm25: hit.score,
        exactness,
    };
    Ok(bounded.iter().zip(exact).map(scores).collect())
}

/// The value of a field of each of these hits, where it has one; none where the field has no name.
pub(super) fn group_values<'h>(
    part: &LeafPart,
    field: &str,
    hits: impl Iterator<Item = &'h DocumentHit>,
) -> Result<Vec<v1::LeafGroupValue>> {
    if field.is_empty() {
        return Ok(Vec::new());
    }
    let places: BTreeSet<(usize, u32)> = hits.map(|hit| (hit.shard, hit.node)).collect();
    let mut values = Vec::new();
    for (shard, node) in places {
        part.cancel.check()?;
        if let Some(value) = part.snapshot.document(shard, node)?.value(field) {
            let hit = DocumentHit {
                score: 0.0,
                shard,
                node,
            };
            values.push(v1::LeafGroupValue {
                shard: number(part, &hit),
                node,
                value: Some(field_value(value)),
            });
        }
    }
    Ok(values)
}
