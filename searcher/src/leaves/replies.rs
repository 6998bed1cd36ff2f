//! What the reply of a leaf has to be, after what it was asked: another one is no answer, and the next leaf is asked.

use dyad_proto::v1;

/// Where nothing of a reply depends on the request, or who merges replies looks at it.
#[expect(clippy::unnecessary_wraps, reason = "as the other checks")]
pub(super) fn unchecked<Q, R>(_: &Q, _: &R) -> Result<(), String> {
    Ok(())
}

/// The counts are there.
pub(super) fn check_terms(_: &v1::TermsRequest, reply: &v1::TermsResponse) -> Result<(), String> {
    match &reply.counts {
        Some(_) => Ok(()),
        None => Err("`counts`: expected some, got none".to_owned()),
    }
}

/// There is a ranking for all that was asked for, of hits in the shards that were asked for, no more of them than were
/// wanted.
pub(super) fn check_search(request: &v1::LeafSearchRequest, reply: &v1::LeafSearchResponse) -> Result<(), String> {
    let searches = request.dense.as_ref().map_or(&[][..], |dense| &dense.searches);
    if reply.dense.len() != searches.len() {
        let (expected, got) = (searches.len(), reply.dense.len());
        return Err(format!("`dense`: expected {expected} rankings, got {got}"));
    }
    for (search, ranking) in searches.iter().zip(&reply.dense) {
        check_ranking("dense", ranking, search.k, &request.shards)?;
    }
    let is_second_round = searches
        .iter()
        .any(|search| search.round.is_some_and(|round| round.score.is_some()));
    let other = reply
        .shown
        .iter()
        .find(|shown| request.shards.binary_search(&shown.shard).is_err());
    if let Some(other) = other {
        let (shards, got) = (&request.shards, other.shard);
        return Err(format!("`shown.shard`: expected one of {shards:?}, got {got}"));
    }
    match (&request.text, &reply.text) {
        (Some(text), Some(ranking)) => check_ranking("text", ranking, text.depth, &request.shards),
        (Some(_), None) if !is_second_round => Err("`text`: expected a ranking, got none".to_owned()),
        (None, Some(_)) => Err("`text`: expected no ranking, got one".to_owned()),
        _ => Ok(()),
    }
}

fn check_ranking(field: &str, ranking: &v1::LeafRanking, most: u32, shards: &[u32]) -> Result<(), String> {
    let got = ranking.hits.len();
    if got > most as usize {
        return Err(format!("`{field}.hits`: expected at most {most}, got {got}"));
    }
    for hit in &ranking.hits {
        if shards.binary_search(&hit.shard).is_err() {
            let got = hit.shard;
            return Err(format!("`{field}.hits.shard`: expected one of {shards:?}, got {got}"));
        }
        if !hit.score.is_finite() {
            return Err(format!(
                "`{field}.hits.score`: expected a finite number, got {}",
                hit.score
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> v1::LeafSearchRequest {
        let search = v1::LeafVectorSearch {
            k: 2,
            ..v1::LeafVectorSearch::default()
        };
        v1::LeafSearchRequest {
            shards: vec![1, 4],
            text: Some(v1::LeafTextSearch {
                depth: 1,
                ..v1::LeafTextSearch::default()
            }),
            dense: Some(v1::LeafDenseSearch {
                vector: vec![1.0],
                searches: vec![search],
            }),
            ..v1::LeafSearchRequest::default()
        }
    }

    fn ranking(hits: &[(u32, f32)]) -> v1::LeafRanking {
        let hit = |(shard, score): &(u32, f32)| v1::LeafHit {
            shard: *shard,
            score: *score,
            ..v1::LeafHit::default()
        };
        v1::LeafRanking {
            hits: hits.iter().map(hit).collect(),
            ..v1::LeafRanking::default()
        }
    }

    fn checked(text: Option<v1::LeafRanking>, dense: Vec<v1::LeafRanking>) -> String {
        let reply = v1::LeafSearchResponse {
            text,
            dense,
            ..v1::LeafSearchResponse::default()
        };
        check_search(&request(), &reply).err().unwrap_or_default()
    }

    #[test]
    fn a_reply_that_is_not_of_the_request_is_refused() {
        let good = || ranking(&[(4, 0.5)]);
        assert_eq!(checked(Some(good()), vec![ranking(&[(1, 2.0), (4, 1.0)])]), "");
        assert_eq!(checked(None, vec![good()]), "`text`: expected a ranking, got none");
        assert_eq!(checked(Some(good()), Vec::new()), "`dense`: expected 1 rankings, got 0");
        for (dense, expected) in [
            (&[(1, 1.0); 3][..], "`dense.hits`: expected at most 2, got 3"),
            (&[(2, 1.0)], "`dense.hits.shard`: expected one of [1, 4], got 2"),
            (
                &[(1, f32::NAN)],
                "`dense.hits.score`: expected a finite number, got NaN",
            ),
        ] {
            assert_eq!(checked(Some(good()), vec![ranking(dense)]), expected);
        }
    }

    #[test]
    fn the_round_of_small_shards_ranks_by_vector_alone() {
        let mut request = request();
        let round = v1::SmallShardRound {
            score: Some(0.3),
            ..v1::SmallShardRound::default()
        };
        request.dense.as_mut().unwrap().searches[0].round = Some(round);
        let reply = v1::LeafSearchResponse {
            dense: vec![ranking(&[])],
            ..v1::LeafSearchResponse::default()
        };
        assert_eq!(check_search(&request, &reply), Ok(()));
    }

    #[test]
    fn terms_without_counts_are_no_answer() {
        let check = |counts| {
            let reply = v1::TermsResponse {
                counts,
                ..v1::TermsResponse::default()
            };
            check_terms(&v1::TermsRequest::default(), &reply)
        };
        assert_eq!(check(Some(v1::TermCounts::default())), Ok(()));
        assert!(check(None).is_err());
    }
}
