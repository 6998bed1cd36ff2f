//! The best hits of some shards, by vector and by BM25.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dyad_filter::document_filter;
use dyad_index::hybrid;
use dyad_index::lexical::Weighed;
use dyad_index::search::{NodeSet, SearchHits};
use dyad_index::snapshot::{DenseParams, DocumentHit, ShardRound, Snapshot};
use dyad_proto::v1;

use super::super::engine::Engine;
use super::super::resources::reply_memory::ReplyBudget;
use super::super::served::filter_cache::{FilterCache, encoded_for};
use super::super::stages::batch::micros;
use super::call::{LeafCallTarget, LeafPart};
use super::details::{bounded_scores, group_values};
use crate::error::{Error, Result};
use crate::leaves::wire::{counts_of, dense_params, ranking_message, small_shards};
use crate::plan::{IndexSize, RankedParts, SearchCost};

/// Most bytes of documents in the reply to a search.
const SHOWN_BYTES: usize = 64 << 10;

impl Engine {
    /// A leaf's part of a search. The budget is the reply memory that documents take.
    pub(crate) async fn leaf_search(
        &self,
        request: v1::LeafSearchRequest,
        time: Option<Duration>,
    ) -> Result<(v1::LeafSearchResponse, ReplyBudget)> {
        let target = LeafCallTarget {
            generation: request.generation.as_ref(),
            shards: &request.shards,
            scope: request.scope.as_ref(),
            time,
        };
        let call = self.leaf_call(&target, |snapshot| cost(snapshot, &request, self.filters.as_deref()))?;
        let (part, budget) = (call.part.clone(), self.memory.budget());
        let searched = call.jobs.start(move || {
            let found = search(&part, &request)?;
            let shown = shown_hits(&part, &request, &found, &budget)?;
            Ok((v1::LeafSearchResponse { shown, ..found }, budget))
        });
        searched.await
    }
}

/// What the search costs: its rankings, and its filter where it is not known what that allows.
fn cost(snapshot: &Arc<Snapshot>, request: &v1::LeafSearchRequest, filters: Option<&FilterCache>) -> SearchCost {
    let size = IndexSize::from_snapshot(snapshot);
    let searches: Vec<DenseParams> = request
        .dense
        .iter()
        .flat_map(|dense| &dense.searches)
        .map(dense_params)
        .collect();
    let text = request.text.as_ref();
    let depths = searches.iter().map(|params| params.k);
    let depth = depths.chain(text.map(|text| text.depth as usize)).max();
    let key_id = request.scope.as_ref().map_or("", |scope| &scope.key_id);
    let is_known = |filter: &v1::Filter| {
        let encoded = encoded_for(key_id, filter);
        filters.is_some_and(|filters| filters.has(snapshot, &encoded))
    };
    let filter = request.filter.as_ref().filter(|filter| !is_known(filter));
    SearchCost {
        filter: filter.map_or(Duration::ZERO, |filter| size.filter(&document_filter(filter))),
        ..size.rankings(&RankedParts {
            question: text.map(|text| text.query.as_str()),
            searches: &searches,
            depth: depth.unwrap_or_default(),
        })
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

fn search(part: &LeafPart, request: &v1::LeafSearchRequest) -> Result<v1::LeafSearchResponse> {
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
    let by_text = || text_rankings(part, request, weighed.as_ref(), nodes.as_deref());
    let by_vector = || dense_rankings(part, request, nodes.as_deref());
    let (text, dense) = if rayon::current_thread_index().is_some() && weighed.is_some() && request.dense.is_some() {
        rayon::join(by_text, by_vector)
    } else {
        (by_text(), by_vector())
    };
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
        generation: request.generation.clone(),
        shown: Vec::new(),
    })
}

/// What is shown of the best hits, within bytes that a reply has room for: a root fetches the others that it needs.
fn shown_hits(
    part: &LeafPart,
    request: &v1::LeafSearchRequest,
    found: &v1::LeafSearchResponse,
    budget: &ReplyBudget,
) -> Result<Vec<v1::LeafShownHit>> {
    let Some(shown) = &request.shown else {
        return Ok(Vec::new());
    };
    let best = |ranking: &v1::LeafRanking| {
        let hits = ranking.hits.iter().take(request.shown_hits as usize);
        hits.map(|hit| (hit.shard, hit.node)).collect::<Vec<_>>()
    };
    let mut documents: Vec<(u32, u32)> = found.text.iter().chain(&found.dense).flat_map(best).collect();
    let mut seen = BTreeSet::new();
    documents.retain(|document| seen.insert(*document));
    let numbers = part.snapshot.numbers();
    let place = |(shard, node): &(u32, u32)| Some((numbers.binary_search(&(*shard as usize)).ok()?, *node));
    let places: Option<Vec<(usize, u32)>> = documents.iter().map(place).collect();
    let shown = match part.show(shown, budget, &places.ok_or(Error::Internal)?, SHOWN_BYTES) {
        Ok(shown) => shown,
        Err(late @ Error::Deadline(_)) => return Err(late),
        // Of this reply none are shown. Whoever fetches those that are hits in the end waits for memory, or is told
        // what cannot be read; others may never be asked for.
        Err(_) => return Ok(Vec::new()),
    };
    let hit = |((shard, node), hit)| v1::LeafShownHit {
        shard,
        node,
        hit: Some(hit),
    };
    Ok(documents.into_iter().zip(shown).map(hit).collect())
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
