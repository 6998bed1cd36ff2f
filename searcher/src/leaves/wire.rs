//! Messages between roots and leaves, and what they stand for.

use dyad_index::SearchHits;
use dyad_index::lexical::TermCounts;
use dyad_index::search::{Completeness, Cost};
use dyad_index::snapshot::{DenseParams, DocumentHit, SearchMode, SmallShards};
use dyad_proto::v1;

/// Counts of terms as a message.
pub(crate) fn counts_message(counts: &TermCounts) -> v1::TermCounts {
    v1::TermCounts {
        documents: counts.documents,
        tokens: counts.tokens,
        deleted_documents: counts.deleted_documents,
        deleted_tokens: counts.deleted_tokens,
        frequencies: counts.frequencies.clone(),
        deleted_frequencies: counts.deleted_frequencies.clone(),
        has_first_analyzer: counts.has_first_analyzer,
    }
}

/// Counts of terms of a message. Whether they are of the question's terms is seen when it is weighed by them.
pub(crate) fn counts_of(message: &v1::TermCounts) -> TermCounts {
    TermCounts {
        documents: message.documents,
        tokens: message.tokens,
        deleted_documents: message.deleted_documents,
        deleted_tokens: message.deleted_tokens,
        frequencies: message.frequencies.clone(),
        deleted_frequencies: message.deleted_frequencies.clone(),
        has_first_analyzer: message.has_first_analyzer,
    }
}

/// A search for vectors as a message, in one round.
pub(crate) fn vector_search(params: &DenseParams, round: Option<v1::SmallShardRound>) -> v1::LeafVectorSearch {
    use v1::LeafSearchMode as Mode;
    let (mode, ef, out_of_distribution_ef) = match params.mode {
        SearchMode::Exact => (Mode::Exact, 0, 0),
        SearchMode::Beam { ef } => (Mode::Beam, ef, 0),
        SearchMode::Adaptive { ef } => (Mode::Adaptive, ef, 0),
        SearchMode::Certified {
            ef,
            out_of_distribution_ef,
        } => (Mode::Certified, ef, out_of_distribution_ef),
    };
    v1::LeafVectorSearch {
        k: params.k as u32,
        mode: mode.into(),
        ef: ef as u32,
        out_of_distribution_ef: out_of_distribution_ef as u32,
        round,
    }
}

/// The parameters of such a message, whose mode was checked.
pub(crate) fn dense_params(message: &v1::LeafVectorSearch) -> DenseParams {
    use v1::LeafSearchMode as Mode;
    let ef = message.ef as usize;
    DenseParams {
        k: message.k as usize,
        mode: match message.mode() {
            Mode::Beam => SearchMode::Beam { ef },
            Mode::Adaptive => SearchMode::Adaptive { ef },
            Mode::Certified => SearchMode::Certified {
                ef,
                out_of_distribution_ef: message.out_of_distribution_ef as usize,
            },
            Mode::Exact | Mode::Unspecified => SearchMode::Exact,
        },
    }
}

/// The small shards of a message.
pub(crate) fn small_shards(message: &v1::SmallShardRound) -> SmallShards {
    SmallShards {
        most_documents: usize::try_from(message.most_documents).unwrap_or(usize::MAX),
        margin: message.margin,
    }
}

/// A ranking as a message. `numbers` are those of the shards in the manifest; `key` is the key of a hit, without which
/// it is left out; `exactness` is that of each hit, where it was asked for.
pub(crate) fn ranking_message<'k>(
    found: &SearchHits<DocumentHit>,
    numbers: &[usize],
    key: impl Fn(&DocumentHit) -> Option<&'k str>,
    exactness: &[f32],
) -> v1::LeafRanking {
    let hit = |(at, hit): (usize, &DocumentHit)| {
        Some(v1::LeafHit {
            shard: *numbers.get(hit.shard)? as u32,
            node: hit.node,
            score: hit.score,
            key: key(hit)?.to_owned(),
            exactness: exactness.get(at).copied().unwrap_or_default(),
        })
    };
    v1::LeafRanking {
        hits: found.hits.iter().enumerate().filter_map(hit).collect(),
        took_us: 0,
        estimated: found.cost.estimated,
        scored: found.cost.scored,
        scans: found.cost.scans,
        out_of_distribution: found.cost.out_of_distribution,
        is_damaged: found.completeness == Completeness::Damaged,
        expanded: found.cost.expanded,
    }
}

/// What a ranking has cost, and whether it is complete; without its hits.
pub(crate) fn without_hits(message: &v1::LeafRanking) -> SearchHits<DocumentHit> {
    SearchHits {
        hits: Vec::new(),
        cost: Cost {
            estimated: message.estimated,
            scored: message.scored,
            expanded: message.expanded,
            scans: message.scans,
            out_of_distribution: message.out_of_distribution,
        },
        completeness: if message.is_damaged {
            Completeness::Damaged
        } else {
            Completeness::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_the_same_at_the_other_end() {
        let certified = SearchMode::Certified {
            ef: 64,
            out_of_distribution_ef: 200,
        };
        for mode in [
            SearchMode::Exact,
            SearchMode::Beam { ef: 10 },
            SearchMode::Adaptive { ef: 128 },
            certified,
        ] {
            let params = DenseParams { k: 17, mode };
            assert_eq!(dense_params(&vector_search(&params, None)), params);
        }
        let counts = TermCounts {
            documents: 10,
            tokens: 50,
            deleted_documents: 2,
            deleted_tokens: 9,
            frequencies: vec![3, 4],
            deleted_frequencies: vec![1, 0],
            has_first_analyzer: true,
        };
        assert_eq!(counts_of(&counts_message(&counts)), counts);
    }
}
