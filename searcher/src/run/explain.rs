//! Why a document is, or is not, among the hits: its true place in each ranking, and its place in the graph's beam.

use dyad_index::lexical::Question;
use dyad_index::search::ExactRows as _;
use dyad_index::snapshot::{Effort, Snapshot};

use super::stop::Stop;
use crate::error::{Error, Result};
use crate::fusion::Placement;

/// A document's places for a question.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Among all documents, by inner product.
    pub dense_exact: Placement,
    /// In the beam of the graph walk; absent where the walk did not reach the document.
    pub dense_graph: Option<Placement>,
    /// Among all documents, by BM25; absent where no term matches.
    pub bm25: Option<Placement>,
    /// BM25 term by term, as JSON; empty where no term matches.
    pub bm25_json: String,
    /// The question's terms after analysis.
    pub terms: Vec<String>,
}

/// Explains one document by reading every vector and every matching document.
pub(super) fn explain(
    snapshot: &Snapshot,
    query: &str,
    vector: &[f32],
    key: &str,
    ef: usize,
    stop: &Stop,
) -> Result<Explanation> {
    let (shard, node) = snapshot.find(key).ok_or_else(|| Error::NoDocument(key.to_owned()))?;
    let Some(own) = snapshot.shards().get(shard) else { return Err(Error::NoDocument(key.to_owned())) };
    // A score with a smaller key wins ties.
    let ahead = |score: f32, other: &str, of: f32| score > of || (score.total_cmp(&of).is_eq() && other < key);

    let metric = snapshot.manifest().model.metric;
    let score = own.dense.rows().score(node, vector, metric);
    let mut rank = 1;
    for shard in snapshot.shards() {
        stop.check()?;
        let (rows, keys) = (shard.dense.rows(), shard.dense.keys());
        rank += (0..rows.len() as u32)
            .filter(|node| ahead(rows.score(*node, vector, metric), keys.key(*node), score))
            .count();
    }
    let dense_exact = Placement { rank: rank as u32, score };
    let is_set = || stop.is_set();
    let walked = stop.complete(snapshot.search_dense(vector, ef, Effort::Walk { ef }, None, Some(&is_set))?)?.hits;
    let dense_graph = (1u32..).zip(&walked).find(|(_, hit)| hit.key == key);
    let dense_graph = dense_graph.map(|(rank, hit)| Placement { rank, score: hit.score });

    let question = Question::new(query);
    let explained = question.explain(&own.text, snapshot.statistics(), node)?;
    let (mut bm25, mut bm25_json) = (None, String::new());
    if let Some((_, json)) = explained {
        let mut score = 0.0;
        question.each(&own.text, snapshot.statistics(), |other, sum| {
            if other == node {
                score = sum;
            }
        })?;
        let mut rank = 1;
        for shard in snapshot.shards() {
            let keys = shard.dense.keys();
            question.each(&shard.text, snapshot.statistics(), |other, sum| {
                rank += u32::from(ahead(sum, keys.key(other), score));
            })?;
        }
        (bm25, bm25_json) = (Some(Placement { rank, score }), json);
    }
    Ok(Explanation { dense_exact, dense_graph, bm25, bm25_json, terms: question.terms().to_vec() })
}
