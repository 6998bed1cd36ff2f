//! Searches by text: BM25, and its fusion with the dense ranking, as `dyad-searcher` has them.

use dyad_index::fusion::FusionMethod;
use dyad_index::hybrid::{Bm25Ranking, Fusion, bounded_bm25, bounded_dense, exactness, hits_of_both};
use dyad_index::lexical::{DocumentScores, Weighed, WeighedDocuments};
use dyad_index::search::{NodeSet, SearchHits};
use dyad_index::snapshot::{DenseParams, DocumentHit};
use dyad_index::{Error, Never, Snapshot};

/// A search by text, and by vectors where it has dense parameters.
pub(crate) struct AskedText<'a> {
    pub(crate) k: usize,
    /// The nodes of each shard that can be hits; all where there is nothing.
    pub(crate) allowed: Option<&'a [NodeSet]>,
    /// How the dense ranking is searched, as deep as each ranking is fused.
    pub(crate) dense: Option<DenseParams>,
    pub(crate) fusion: Fusion,
}

/// The fusion of an index: the one that was learned, or else its default.
pub(crate) fn fusion_of(snapshot: &Snapshot) -> Fusion {
    let own = Fusion::default_of(snapshot.manifest());
    snapshot.fusion().map_or(own, |record| own.learned(record))
}

/// The best hits of a question, by BM25 alone where it has no vector.
pub(crate) fn search_text(
    snapshot: &Snapshot,
    text: &str,
    vector: Option<&[f32]>,
    asked: &AskedText<'_>,
) -> Result<SearchHits<DocumentHit>, Error> {
    let question = snapshot.question(text);
    let Some(weighed) = question.weigh(snapshot.statistics(), &Never)? else {
        return Ok(SearchHits::default());
    };
    let documents = documents_of(snapshot, &weighed, asked.fusion.document_weight)?;
    let bm25 = |depth| snapshot.search_weighed(&weighed, documents.as_ref(), depth, asked.allowed, &Never);
    let (Some(vector), Some(params)) = (vector, &asked.dense) else {
        return bm25(asked.k);
    };
    let dense = snapshot.search_dense(&[vector], params, asked.allowed, &Never)?;
    let dense = dense.into_iter().next().unwrap_or_default();
    let fusion = asked.fusion.of_rankings(true, !question.terms().is_empty());
    let text = bm25(params.k)?;
    let (dense_hits, text_hits) = if fusion.method == FusionMethod::MinMax {
        let both = hits_of_both(&dense.hits, &text.hits);
        let text = bounded_bm25(snapshot, &weighed, documents.as_ref(), both.clone(), &Never)?;
        (bounded_dense(snapshot, vector, &both), text.unwrap_or_default())
    } else {
        (dense.hits, text.hits)
    };
    let exactness = exactness(snapshot, &weighed, &text_hits, &Never)?.unwrap_or_default();
    let ranking = Bm25Ranking {
        hits: &text_hits,
        exactness: &exactness,
    };
    let key = |hit: &DocumentHit| snapshot.key(hit.shard, hit.node).unwrap_or_default();
    Ok(SearchHits {
        hits: fusion.fuse(&dense_hits, ranking, asked.k, key),
        ..SearchHits::default()
    })
}

/// What the documents of passages add to their scores, where there are any.
fn documents_of(snapshot: &Snapshot, weighed: &Weighed<'_>, weight: f64) -> Result<Option<DocumentScores>, Error> {
    if weight <= 0.0 {
        return Ok(None);
    }
    match snapshot.document_scores(weighed, snapshot.statistics(), weight as f32, &Never)? {
        WeighedDocuments::Scores(scores) => Ok(Some(scores)),
        WeighedDocuments::Absent | WeighedDocuments::Cancelled => Ok(None),
    }
}
