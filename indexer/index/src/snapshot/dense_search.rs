//! The nearest vectors of all shards: small shards are searched after the others, and no further than those make worth
//! while.

use rayon::prelude::*;

use super::shard::{DenseParams, SearchMode, Shard};
use super::{DocumentHit, Snapshot};
use crate::error::{Error, Result};
use crate::search::{MinCompetitive, NodeSet, Scored, SearchHits};
use dyad_files::Cancel;

/// A shard is small next to one of this many times as many documents.
const SMALL: usize = 4;
/// Small shards are searched as far below the k-th hit of the others as the largest shard's hits fall from rank `k` to
/// rank `16 k`, or to `2 ef` where that is more. Of 45,000 and 5,000 MiniLM sentences at k 10 and ef 64, recall@10 is
/// .987 with the fall to rank 64, .991 with 1.25 times that fall, .993 with 1.5 times (about rank 160), and .9945 in
/// one shard of all. `dyad-bench churn --workload benches/workloads/minilm-100k.toml --engines dyad-index --cycles 2`
const SMALL_RANKS: (usize, usize) = (16, 2);

/// The score of a question's k-th hit in these shards together; negative infinity where there are fewer, and for a
/// question that is out of distribution, of which margins say nothing.
fn kth_score(found: &[Vec<SearchHits<Scored>>], number: usize, k: usize) -> f32 {
    let of_question = || found.iter().filter_map(|shard| shard.get(number));
    if of_question().any(|found| found.cost.out_of_distribution > 0) {
        return f32::NEG_INFINITY;
    }
    let hits = of_question().flat_map(|found| &found.hits);
    let mut scores: Vec<f32> = hits.map(|hit| hit.score).collect();
    scores.sort_unstable_by(|a, b| b.total_cmp(a));
    k.checked_sub(1)
        .and_then(|last| scores.get(last).copied())
        .unwrap_or(f32::NEG_INFINITY)
}

impl Snapshot {
    /// The nearest of all shards for each question: shards in parallel, and in each of them the questions interleaved.
    /// `queries` hold finite values of the model's dimension. With `allowed`, as [`Self::allowed`] returns it, only
    /// those nodes can be hits.
    pub fn search_dense(
        &self,
        queries: &[&[f32]],
        params: &DenseParams,
        allowed: Option<&[NodeSet]>,
        cancel: &dyn Cancel,
    ) -> Result<Vec<SearchHits<DocumentHit>>> {
        let dim = self.manifest.model.dim;
        if let Some(query) = queries.iter().find(|query| query.len() != dim) {
            let (expected, got) = (dim.to_string(), query.len().to_string());
            return Err(Error::Mismatch {
                what: "dimension of the question's vector",
                expected,
                got,
            });
        }
        self.check_allowed(allowed)?;
        let one = |(at, shard): (usize, &Shard), others| {
            shard.search_dense(queries, params, allowed.and_then(|all| all.get(at)), others, cancel)
        };
        let small = if allowed.is_none() {
            self.small_shards(params)
        } else {
            None
        };
        let is_small = |shard: &Shard| small.is_some_and(|(most, _)| shard.len() <= most);
        let large = |shard: (usize, &Shard)| {
            if is_small(shard.1) {
                Vec::new()
            } else {
                one(shard, None)
            }
        };
        let mut found: Vec<Vec<SearchHits<Scored>>> = match &*self.shards {
            // Without the pool, whose threads take microseconds to wake: as long as a tenth of a search.
            [only] => vec![large((0, only))],
            all => all.par_iter().enumerate().map(large).collect(),
        };
        if let Some((_, margin)) = small {
            let scores: Vec<f32> = (0..queries.len())
                .map(|number| kth_score(&found, number, params.k))
                .collect();
            let others = Some(MinCompetitive {
                scores: &scores,
                margin,
                own_margin: None,
            });
            let small: Vec<_> = self
                .shards
                .par_iter()
                .enumerate()
                .map(|shard| is_small(shard.1).then(|| one(shard, others)))
                .collect();
            for (place, small) in found.iter_mut().zip(small) {
                *place = small.unwrap_or_else(|| std::mem::take(place));
            }
        }
        let mut found: Vec<_> = found.into_iter().map(Vec::into_iter).collect();
        let merged = queries
            .iter()
            .map(|_| self.merge(found.iter_mut().map(Iterator::next), params.k));
        Ok(merged.collect())
    }

    /// The shards with at most that many documents are searched after the others, and no further below their hits than
    /// by that margin. None where there are no such shards, or each is to be searched as its certificate was measured.
    fn small_shards(&self, params: &DenseParams) -> Option<(usize, f32)> {
        let SearchMode::Adaptive { ef } = params.mode else {
            return None;
        };
        let largest = self.shards.iter().max_by_key(|shard| shard.len())?;
        let most = largest.len() / SMALL;
        let (by_k, by_ef) = SMALL_RANKS;
        let rank = params.k.saturating_mul(by_k).max(ef.saturating_mul(by_ef));
        let margin = largest
            .certificate()
            .margin(params.k, rank)
            .filter(|margin| *margin > 0.0)?;
        self.shards
            .iter()
            .any(|shard| shard.len() <= most)
            .then_some((most, margin))
    }
}
