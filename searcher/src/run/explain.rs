//! Explains why a document is, or is not, among the hits: its exact rank in each ranking, and its rank by the graph search.

use dyad_index::lexical::{Question, Weighed};
use dyad_index::search::ExactRows as _;
use dyad_index::snapshot::{DenseParams, Shard, Snapshot};
use rayon::prelude::*;

use super::cancellation::Cancellation;
use crate::error::{Error, Result};
use crate::fusion::Placement;

/// A document's placements for a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Among all documents, by inner product.
    pub dense_exact: Placement,
    /// Among the hits of the graph search; absent where the document is none of them.
    pub dense_graph: Option<Placement>,
    /// Among all documents, by BM25; absent where no term matches.
    pub bm25: Option<Placement>,
    /// BM25 term by term, as JSON; empty where no term matches.
    pub bm25_json: String,
    /// The question's terms after analysis.
    pub terms: Vec<String>,
    /// Hits wanted of the graph search, 0 where there was none.
    pub depth: u32,
    /// Beam width, 0 where no graph is searched.
    pub ef: u32,
}

/// Explains one document by reading every vector and every matching document; the graph is searched by the plan of the request.
pub(super) fn explain(
    snapshot: &Snapshot,
    query: &str,
    vector: &[f32],
    key: &str,
    stage: Option<DenseParams>,
    cancel: &Cancellation,
) -> Result<Explanation> {
    cancel.check()?;
    let (shard, node) = snapshot.find(key)?.ok_or_else(|| Error::NoDocument(key.to_owned()))?;
    let Some(own) = snapshot.shards().get(shard) else { return Err(Error::NoDocument(key.to_owned())) };

    let score = own.dense.rows().score(node, vector, snapshot.manifest().model.metric);
    let ahead = |shard: &Shard| shard.dense.ahead_of(vector, (score, key), shard.live(), cancel);
    let ahead: Option<u64> = snapshot.shards().par_iter().map(ahead).sum();
    let dense_exact = Placement { rank: ahead.ok_or_else(|| cancel.deadline_error())? as u32 + 1, score };
    let dense_graph = match stage {
        Some(params) => {
            let mut result = snapshot.search_dense(&[vector], &params, None, cancel)?;
            let result = cancel.complete(result.pop().unwrap_or_default())?.hits;
            let found = (1u32..).zip(&result).find(|(_, hit)| (hit.shard, hit.node) == (shard, node));
            found.map(|(rank, hit)| Placement { rank, score: hit.score })
        }
        None => None,
    };

    let question = Question::new(query);
    let weighed = question.weigh(snapshot.statistics(), cancel)?.ok_or_else(|| cancel.deadline_error())?;
    let (mut bm25, mut bm25_json) = (None, String::new());
    if let Some((_, json)) = weighed.explain(&own.text, node)? {
        (bm25, bm25_json) = (Some(by_bm25(snapshot, &weighed, (shard, node, key), cancel)?), json);
    }
    let graph = stage.and_then(|DenseParams { k, mode }| Some((k as u32, mode.ef()? as u32)));
    let (depth, ef) = graph.unwrap_or_default();
    Ok(Explanation { dense_exact, dense_graph, bm25, bm25_json, terms: question.terms().to_vec(), depth, ef })
}

/// The placement among all matching documents: one pass over the document's own shard for its score, one over all for its rank.
fn by_bm25(
    snapshot: &Snapshot,
    weighed: &Weighed<'_>,
    (shard, node, key): (usize, u32, &str),
    cancel: &Cancellation,
) -> Result<Placement> {
    let pass = |shard: &Shard, take: &mut dyn FnMut(u32, f32)| -> Result<()> {
        let live = |node, score| {
            if shard.is_live(node) {
                take(node, score);
            }
        };
        if weighed.each(&shard.text, live, cancel)? { Ok(()) } else { Err(cancel.deadline_error()) }
    };
    let mut score = 0.0;
    if let Some(own) = snapshot.shards().get(shard) {
        pass(own, &mut |other, sum| {
            if other == node {
                score = sum;
            }
        })?;
    }
    let ahead = |shard: &Shard| -> Result<u32> {
        let (keys, mut ahead) = (shard.dense.keys(), 0);
        // A score with a smaller key wins ties.
        pass(shard, &mut |other, sum| {
            ahead += u32::from(sum > score || (sum.total_cmp(&score).is_eq() && keys.key(other) < key));
        })?;
        Ok(ahead)
    };
    let ahead: u32 = snapshot.shards().par_iter().map(ahead).sum::<Result<u32>>()?;
    Ok(Placement { rank: ahead + 1, score })
}
