//! The best hits of some shards, by vector and by BM25.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_index::hybrid;
use dyad_index::lexical::Weighed;
use dyad_index::search::{NodeSet, SearchHits};
use dyad_index::snapshot::{DocumentHit, ShardRound, Snapshot};
use dyad_proto::v1;

use super::super::engine::Engine;
use super::super::stages::batch::micros;
use super::call::{LeafCallTarget, LeafPart};
use super::details::{bounded_scores, group_values};
use crate::error::Result;
use crate::leaves::wire::{counts_of, dense_params, ranking_message, small_shards};
use crate::plan::{IndexSize, SearchCost};

impl Engine {
    /// A leaf's part of a search.
    pub(crate) async fn leaf_search(
        &self,
        request: v1::LeafSearchRequest,
        time: Option<Duration>,
    ) -> Result<v1::LeafSearchResponse> {
        let target = LeafCallTarget {
            generation: request.generation.as_ref(),
            shards: &request.shards,
            scope: request.scope.as_ref(),
            time,
        };
        let call = self.leaf_call(&target, |snapshot| cost(snapshot, &request))?;
        let part = call.part.clone();
        call.jobs.start_dense(move || search(&part, request)).await
    }
}

/// About what an ordinary search of these shards costs, without what it does not have.
fn cost(snapshot: &Snapshot, request: &v1::LeafSearchRequest) -> SearchCost {
    let ordinary = IndexSize::from_snapshot(snapshot).ordinary();
    let if_any = |has: bool, cost: Duration| if has { cost } else { Duration::ZERO };
    SearchCost {
        text: if_any(request.text.is_some(), ordinary.text),
        dense: if_any(request.dense.is_some(), ordinary.dense),
        ..ordinary
    }
}

/// Rankings of a search, before they are a message.
#[derive(Default)]
struct FoundRankings {
    text: Option<TimedRanking>,
    exactness: Vec<f32>,
    dense: Vec<TimedRanking>,
}

struct TimedRanking {
    found: SearchHits<DocumentHit>,
    took_us: u64,
}

fn search(part: &LeafPart, request: v1::LeafSearchRequest) -> Result<v1::LeafSearchResponse> {
    let LeafPart { snapshot, cancel, .. } = part;
    let (mut filtered, mut nodes) = (None, None);
    if let Some(filter) = &request.filter {
        let started = Instant::now();
        let key_id = request.scope.as_ref().map_or("", |scope| &scope.key_id);
        let (allowed, cached) = part.allowed(filter, key_id)?;
        filtered = Some(v1::LeafFiltered {
            documents: allowed.len(),
            took_us: micros(started),
            cached,
            // Which fields other documents have is theirs.
            notes: if part.scope.is_some() {
                Vec::new()
            } else {
                allowed.notes.clone()
            },
        });
        nodes = Some(Arc::clone(&allowed.shards));
    }
    let question = request.text.as_ref().map(|text| snapshot.question(&text.query));
    let counts = request
        .text
        .as_ref()
        .and_then(|text| text.counts.as_ref())
        .map(counts_of);
    let weighed = match (&question, &counts) {
        (Some(question), Some(counts)) => {
            let weighed = question.weigh_by(counts, &**cancel)?;
            Some(weighed.ok_or_else(|| cancel.deadline_error())?)
        }
        _ => None,
    };
    let (text, dense) = rayon::join(
        || text_rankings(part, &request, weighed.as_ref(), nodes.as_deref()),
        || dense_rankings(part, &request, nodes.as_deref()),
    );
    let found = FoundRankings { dense: dense?, ..text? };
    let all = || {
        found
            .text
            .iter()
            .chain(&found.dense)
            .flat_map(|ranking| &ranking.found.hits)
    };
    let bounded = match (request.bounded_scores, &weighed) {
        (true, Some(weighed)) => bounded_scores(
            part,
            request.dense.as_ref(),
            weighed,
            &all().copied().collect::<Vec<_>>(),
        )?,
        _ => Vec::new(),
    };
    let values = group_values(part, &request.group_by, all())?;
    let field_notes = if part.scope.is_some() || request.noted_fields.is_empty() {
        Vec::new()
    } else {
        // What cannot be read is an error of the call that reads the fields.
        snapshot.field_notes(&request.noted_fields).unwrap_or_default()
    };
    let message = |ranking: &TimedRanking, exactness: &[f32]| v1::LeafRanking {
        took_us: ranking.took_us,
        ..ranking_message(
            &ranking.found,
            snapshot.numbers(),
            |hit| snapshot.key(hit.shard, hit.node),
            exactness,
        )
    };
    Ok(v1::LeafSearchResponse {
        filtered,
        text: found.text.as_ref().map(|text| message(text, &found.exactness)),
        dense: found.dense.iter().map(|dense| message(dense, &[])).collect(),
        bounded,
        values,
        field_notes,
        damage: snapshot.damage().map_or_else(String::new, |error| error.to_string()),
        generation: request.generation,
    })
}

/// Whether this is the round of the small shards, in which BM25 does not rank again.
fn is_second_round(request: &v1::LeafSearchRequest) -> bool {
    let searches = request.dense.iter().flat_map(|dense| &dense.searches);
    searches
        .filter_map(|search| search.round.as_ref())
        .any(|round| round.score.is_some())
}

/// The ranking by BM25, where it is wanted.
fn text_rankings(
    part: &LeafPart,
    request: &v1::LeafSearchRequest,
    weighed: Option<&Weighed<'_>>,
    allowed: Option<&[NodeSet]>,
) -> Result<FoundRankings> {
    let LeafPart { snapshot, cancel, .. } = part;
    let (Some(text), Some(weighed)) = (&request.text, weighed) else {
        return Ok(FoundRankings::default());
    };
    if is_second_round(request) {
        return Ok(FoundRankings::default());
    }
    let started = Instant::now();
    let found = snapshot.search_weighed(weighed, None, text.depth as usize, allowed, &**cancel)?;
    let found = cancel.complete(found)?;
    let exactness = if text.exactness {
        let exactness = hybrid::exactness(snapshot, weighed, &found.hits, &**cancel)?;
        exactness.ok_or_else(|| cancel.deadline_error())?
    } else {
        Vec::new()
    };
    Ok(FoundRankings {
        text: Some(TimedRanking {
            found,
            took_us: micros(started),
        }),
        exactness,
        dense: Vec::new(),
    })
}

/// A ranking for each of the searches.
fn dense_rankings(
    part: &LeafPart,
    request: &v1::LeafSearchRequest,
    allowed: Option<&[NodeSet]>,
) -> Result<Vec<TimedRanking>> {
    let LeafPart { snapshot, cancel, .. } = part;
    let Some(dense) = &request.dense else {
        return Ok(Vec::new());
    };
    let one = |search: &v1::LeafVectorSearch| {
        let started = Instant::now();
        let score = search.round.as_ref().and_then(|round| round.score);
        let kth_scores: Vec<f32> = score.into_iter().collect();
        let round = match &search.round {
            None => ShardRound::All,
            Some(round) if round.score.is_none() => ShardRound::Large(small_shards(round)),
            Some(round) => ShardRound::Small {
                small: small_shards(round),
                kth_scores: &kth_scores,
            },
        };
        let params = dense_params(search);
        let found = snapshot.search_dense_of(&[dense.vector.as_slice()], &params, allowed, round, &**cancel)?;
        let found = cancel.complete(found.into_iter().next().unwrap_or_default())?;
        Ok(TimedRanking {
            found,
            took_us: micros(started),
        })
    };
    dense.searches.iter().map(one).collect()
}
