//! Explains why a document is, or is not, among the hits of a search: the search is run by its own plan, and the document's exact
//! place in each ranking is computed by reading every vector and every matching document.

use dyad_index::lexical::{Question, Weighed};
use dyad_index::search::{ExactRows as _, NodeSet};
use dyad_index::snapshot::{DenseParams, Hit, Shard, Snapshot};
use rayon::prelude::*;

use super::batch::{Allowed, Batch, BatchItem, PartResults, Vector};
use super::cancellation::Cancellation;
use crate::error::{Error, Result};
use crate::fusion::Placement;
use crate::plan::{Mode, Plan};

/// A document's placements for a search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Explanation {
    /// Among the hits of the search; absent where the document is none of them.
    pub hit: Option<Placement>,
    /// Why it is none of them.
    pub reasons: Vec<String>,
    /// Whether the filter allows it.
    pub allowed: bool,
    /// Among all documents that are allowed, by inner product; absent where no vectors are compared.
    pub dense_exact: Option<Placement>,
    /// Among the hits of the dense ranking.
    pub dense: Option<Placement>,
    /// Among all documents that are allowed, by BM25; absent where no term matches.
    pub bm25: Option<Placement>,
    /// BM25 term by term, as JSON; empty where no term matches.
    pub bm25_json: String,
    /// The question's terms after analysis.
    pub terms: Vec<String>,
    /// Hits that each ranking was to give.
    pub depth: u32,
    /// Beam width, 0 where no graph is searched.
    pub ef: u32,
}

/// Explains one document for a batch of one question whose vector is there.
pub(super) fn explain(batch: &Batch, key: &str) -> Result<Explanation> {
    let (snapshot, cancel) = (&*batch.snapshot, &*batch.cancel);
    cancel.check()?;
    let absent = || Error::NoDocument(key.to_owned());
    let (shard, node) = snapshot.find(key)?.ok_or_else(absent)?;
    let own = snapshot.shards().get(shard).ok_or_else(absent)?;
    let allowed = batch.run()?;
    let (Some(item), Some(found)) = (batch.items.first(), batch.found.first()) else { return Err(Error::Internal) };
    let vector = batch.vectors.get().and_then(|all| all.first());
    let plan = &item.plan;

    let mut told = Explanation {
        allowed: nodes(&allowed, shard, own).is_none_or(|nodes| nodes.contains(node)),
        depth: plan.dense.map_or(plan.text_depth.unwrap_or_default(), |params| params.k) as u32,
        ef: plan.ef(),
        ..Explanation::default()
    };
    if let Some(values) = vector.and_then(|vector| vector.values.as_deref()) {
        let score = own.dense.rows().score(node, values, snapshot.manifest().model.metric);
        let ahead = |(at, shard): (usize, &Shard)| {
            shard.dense.ahead_of(values, (score, key), nodes(&allowed, at, shard), cancel)
        };
        let ahead: Option<u64> = snapshot.shards().par_iter().enumerate().map(ahead).sum();
        let rank = ahead.ok_or_else(|| cancel.deadline_error())? as u32 + 1;
        told.dense_exact = Some(Placement { rank, score });
    }
    let question = Question::new(&item.query);
    told.terms = question.terms().to_vec();
    let weighed = question.weigh(snapshot.statistics(), cancel)?.ok_or_else(|| cancel.deadline_error())?;
    if let Some((_, json)) = weighed.explain(&own.text, node)? {
        told.bm25 = Some(by_bm25(snapshot, &weighed, &allowed, (shard, node, key), cancel)?);
        told.bm25_json = json;
    }
    let is_it = |hit: &Hit| (hit.shard, hit.node) == (shard, node);
    place_in_rankings(&mut told, plan, found, snapshot, is_it);
    if told.hit.is_none() {
        told.reasons.extend(reasons(&told, item, vector));
    }
    Ok(told)
}

/// The nodes of a shard that can be hits; all where absent.
fn nodes<'a>(allowed: &'a Allowed, at: usize, shard: &'a Shard) -> Option<&'a NodeSet> {
    allowed.as_ref().and_then(|all| all.get(at)).or(shard.live())
}

/// The place of the document for which `is_it` is true among the hits of each ranking; or why the whole ranking has it and the
/// reply has not.
fn place_in_rankings(
    told: &mut Explanation,
    plan: &Plan,
    found: &PartResults,
    snapshot: &Snapshot,
    is_it: impl Fn(&Hit) -> bool,
) {
    let none = Default::default();
    let (dense, text) = (&found.dense.get().unwrap_or(&none).0.hits, &found.text.get().unwrap_or(&none).0.hits);
    let place = |ranking: &[Hit]| {
        let found = (1..).zip(ranking).find(|(_, hit)| is_it(hit));
        found.map(|(rank, hit)| Placement { rank, score: hit.score })
    };
    told.dense = place(dense);
    let key = |hit: &Hit| snapshot.key(hit.shard, hit.node).unwrap_or_default();
    let whole = match plan.mode {
        Mode::Dense => dense.clone(),
        Mode::Bm25 => text.clone(),
        Mode::Hybrid | Mode::Compare => plan.fusion.fuse(dense, text, usize::MAX, key),
    };
    let page: Vec<Hit> = plan.page(&whole).copied().collect();
    told.hit = place(&page).map(|place| Placement { rank: place.rank + plan.offset as u32, ..place });
    let (first, last) = (plan.offset + 1, plan.offset + plan.k);
    match (place(&whole), plan.score_threshold) {
        _ if told.hit.is_some() => {}
        (Some(Placement { score, .. }), Some(least)) if score < least => {
            told.reasons.push(format!("its score {score} is below `score_threshold`, {least}"));
        }
        (Some(Placement { rank, .. }), _) => {
            told.reasons.push(format!("it is at rank {rank}, and the search asks for ranks {first} to {last}"));
        }
        (None, _) => {}
    }
}

/// Why the rankings do not have the document.
fn reasons(told: &Explanation, item: &BatchItem, vector: Option<&Vector>) -> Vec<String> {
    if !told.allowed {
        return vec!["the filter does not allow it".to_owned()];
    }
    if !told.reasons.is_empty() {
        return Vec::new();
    }
    let mut reasons = Vec::new();
    if let Some(DenseParams { k, .. }) = item.plan.dense {
        reasons.extend(match told.dense_exact {
            None => vector.and_then(|vector| vector.degraded.clone()),
            Some(Placement { rank, .. }) if rank as usize > k => {
                Some(format!("dense: it is at rank {rank} by inner product, and the ranking ends at {k}"))
            }
            Some(Placement { rank, .. }) => Some(format!(
                "dense: it is at rank {rank} by inner product, and the graph search at ef {} has missed it. Raise `ef`, or set `exact`",
                told.ef
            )),
        });
    }
    if let Some(depth) = item.plan.text_depth {
        reasons.push(match told.bm25 {
            None => "BM25: it has none of the question's terms".to_owned(),
            Some(Placement { rank, .. }) => format!("BM25: it is at rank {rank}, and the ranking ends at {depth}"),
        });
    }
    reasons
}

/// The placement among all matching documents that are allowed: one pass over the document's own shard for its score, one over all for its rank.
fn by_bm25(
    snapshot: &Snapshot,
    weighed: &Weighed<'_>,
    allowed: &Allowed,
    (shard, node, key): (usize, u32, &str),
    cancel: &Cancellation,
) -> Result<Placement> {
    let pass = |at: usize, searched: &Shard, take: &mut dyn FnMut(u32, f32)| -> Result<()> {
        let allowed = nodes(allowed, at, searched);
        let one = |other, score| {
            if (at, other) == (shard, node) || allowed.is_none_or(|nodes| nodes.contains(other)) {
                take(other, score);
            }
        };
        if weighed.each(&searched.text, one, cancel)? { Ok(()) } else { Err(cancel.deadline_error()) }
    };
    let mut score = 0.0;
    if let Some(own) = snapshot.shards().get(shard) {
        pass(shard, own, &mut |other, sum| {
            if other == node {
                score = sum;
            }
        })?;
    }
    let ahead = |(at, shard): (usize, &Shard)| -> Result<u32> {
        let (keys, mut ahead) = (shard.dense.keys(), 0);
        // A score with a smaller key wins ties.
        pass(at, shard, &mut |other, sum| {
            ahead += u32::from(sum > score || (sum.total_cmp(&score).is_eq() && keys.key(other) < key));
        })?;
        Ok(ahead)
    };
    let ahead: u32 = snapshot.shards().par_iter().enumerate().map(ahead).sum::<Result<u32>>()?;
    Ok(Placement { rank: ahead + 1, score })
}
