//! The nearest vectors of all shards: small shards are searched after the others, and no further than those make worth
//! while.

use rayon::prelude::*;

use super::shard::{DenseParams, Shard};
use super::small_shards::{ShardRound, SmallShards, kth_score};
use super::{DocumentHit, Snapshot};
use crate::error::{Error, Result};
use crate::search::{NodeSet, Scored, SearchHits};
use dyad_files::Cancel;

impl Snapshot {
    /// The nearest of all shards for each question: shards in parallel, and in each of them the questions interleaved.
    /// `queries` hold finite values of the model's dimension. With `allowed`, as [`Self::allowed`] returns it, only
    /// those nodes can be hits.
    ///
    /// Of a part of a generation this is what a generation of these shards alone would find; with others
    /// [`Self::search_dense_of`] is asked for the rounds of the whole one.
    pub fn search_dense(
        &self,
        queries: &[&[f32]],
        params: &DenseParams,
        allowed: Option<&[NodeSet]>,
        cancel: &dyn Cancel,
    ) -> Result<Vec<SearchHits<DocumentHit>>> {
        let certificate = |at: usize| self.shards.get(at).map(Shard::certificate);
        let small = SmallShards::new(params, self.shards.iter().map(Shard::len), certificate);
        let Some(small) = small.filter(|_| allowed.is_none()) else {
            return self.search_dense_of(queries, params, allowed, ShardRound::All, cancel);
        };
        let mut found = self.search_dense_of(queries, params, None, ShardRound::Large(small), cancel)?;
        let kth_of = |found: &SearchHits<DocumentHit>| {
            let scores = found.hits.iter().map(|hit| hit.score);
            kth_score(scores, params.k, found.cost.out_of_distribution > 0)
        };
        let kth_scores: Vec<f32> = found.iter().map(kth_of).collect();
        let round = ShardRound::Small {
            small,
            kth_scores: &kth_scores,
        };
        let rest = self.search_dense_of(queries, params, None, round, cancel)?;
        for (found, rest) in found.iter_mut().zip(rest) {
            found.append(rest, |hit| hit);
            self.keep_top_k(found, params.k);
        }
        Ok(found)
    }

    /// One round of such a search: the nearest in those of the opened shards that the round is of. With `allowed` a
    /// search has the one round [`ShardRound::All`]. An error where a question has another dimension than the model,
    /// `allowed` another number of sets than there are shards, or the round is no outcome of one before it.
    pub fn search_dense_of(
        &self,
        queries: &[&[f32]],
        params: &DenseParams,
        allowed: Option<&[NodeSet]>,
        round: ShardRound<'_>,
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
        let others = round.min_competitive(queries.len())?;
        let shards = self.shards.iter().enumerate();
        let shards: Vec<(usize, &Shard)> = shards.filter(|(_, shard)| round.has(shard.len())).collect();
        let one = |(at, shard): &(usize, &Shard)| {
            shard.search_dense(queries, params, allowed.and_then(|all| all.get(*at)), others, cancel)
        };
        let found: Vec<Vec<SearchHits<Scored>>> = match &*shards {
            // Without the pool, whose threads take microseconds to wake: as long as a tenth of a search.
            [only] => vec![one(only)],
            all => all.par_iter().map(one).collect(),
        };
        let found = shards.iter().zip(found);
        let mut found: Vec<_> = found.map(|((at, _), found)| (*at, found.into_iter())).collect();
        let merged = queries.iter().map(|_| {
            let of_question = found
                .iter_mut()
                .map(|(at, found)| (*at, found.next().unwrap_or_default()));
            self.merge(of_question, params.k)
        });
        Ok(merged.collect())
    }
}
