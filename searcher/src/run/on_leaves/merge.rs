//! The replies of leaves as rankings of all shards.
//!
//! A ranking of all shards is what the best of each are together: score descending, then key ascending, as where one
//! process has them all.

use std::collections::HashMap;

use dyad_filter::field_value;
use dyad_index::SearchHits;
use dyad_index::snapshot::DocumentHit;
use dyad_proto::v1;

use super::super::stages::leaf_hits::{HitPlace, LeafHits};
use super::super::stages::pages::append_unseen;
use super::super::stages::part_results::FilteredNodes;
use crate::leaves::wire::without_hits;
use crate::plan::SearchPlan;

/// A ranking that grows by the replies of leaves.
#[derive(Debug, Default)]
pub(super) struct MergedRanking {
    pub(super) found: SearchHits<DocumentHit>,
    /// Of each hit, where it was asked for.
    exactness: HashMap<HitPlace, f32>,
    /// That of the slowest leaf.
    pub(super) took_us: u64,
}

/// What leaves have found for a question.
#[derive(Debug, Default)]
pub(super) struct MergedReplies {
    pub(super) filtered: Option<FilteredNodes>,
    pub(super) text: Option<MergedRanking>,
    /// One for each search.
    pub(super) dense: Vec<MergedRanking>,
    pub(super) hits: LeafHits,
}

impl MergedRanking {
    fn add(&mut self, reply: v1::LeafRanking, keys: &mut HashMap<HitPlace, String>) {
        self.took_us = self.took_us.max(reply.took_us);
        self.found.append(without_hits(&reply), |hit: DocumentHit| hit);
        for hit in reply.hits {
            let place = (hit.shard as usize, hit.node);
            self.found.hits.push(DocumentHit {
                score: hit.score,
                shard: place.0,
                node: place.1,
            });
            self.exactness.insert(place, hit.exactness);
            keys.insert(place, hit.key);
        }
    }

    /// Keeps the best.
    pub(super) fn keep(&mut self, k: usize, keys: &HashMap<HitPlace, String>) {
        let key = |hit: &DocumentHit| keys.get(&(hit.shard, hit.node)).map_or("", String::as_str);
        self.found.keep_top_k(k, |hit| hit.score, key);
    }

    /// The exactness of the hits, in their order.
    pub(super) fn exactness(&self) -> Vec<f32> {
        let of = |hit: &DocumentHit| self.exactness.get(&(hit.shard, hit.node)).copied().unwrap_or_default();
        self.found.hits.iter().map(of).collect()
    }
}

impl MergedReplies {
    /// Of the first round of a question's searches.
    pub(super) fn new(replies: Vec<v1::LeafSearchResponse>) -> Self {
        let mut merged = Self::default();
        // A leaf notes what none of *its* documents has.
        let mut notes: Option<Vec<String>> = None;
        let mut field_notes: Option<Vec<String>> = None;
        for reply in replies {
            if let Some(filtered) = reply.filtered {
                let sum = merged.filtered.get_or_insert_with(|| FilteredNodes {
                    cached: true,
                    ..FilteredNodes::default()
                });
                sum.documents += filtered.documents;
                sum.took_us = sum.took_us.max(filtered.took_us);
                sum.cached &= filtered.cached;
                keep_common(&mut notes, filtered.notes);
            }
            keep_common(&mut field_notes, reply.field_notes);
            if let Some(text) = reply.text {
                merged.text.get_or_insert_default().add(text, &mut merged.hits.keys);
            }
            merged.add_dense(reply.dense);
            for scores in reply.bounded {
                merged.hits.bounded.insert((scores.shard as usize, scores.node), scores);
            }
            for value in reply.values {
                merged.add_value(&value);
            }
            merged.add_shown(reply.shown);
            if merged.hits.damage.is_none() && !reply.damage.is_empty() {
                merged.hits.damage = Some(reply.damage);
            }
        }
        if let Some(filtered) = &mut merged.filtered {
            filtered.notes = notes.unwrap_or_default();
        }
        merged.hits.field_notes = field_notes.unwrap_or_default();
        merged
    }

    /// Adds what a leaf has found in the small shards.
    pub(super) fn add_small(&mut self, reply: v1::LeafSearchResponse, places: &[usize]) {
        for (place, ranking) in places.iter().zip(reply.dense) {
            let mut of_all = vec![v1::LeafRanking::default(); *place];
            of_all.push(ranking);
            self.add_dense(of_all);
        }
        for scores in reply.bounded {
            self.hits.bounded.insert((scores.shard as usize, scores.node), scores);
        }
        for value in reply.values {
            self.add_value(&value);
        }
        self.add_shown(reply.shown);
    }

    fn add_shown(&mut self, shown: Vec<v1::LeafShownHit>) {
        for v1::LeafShownHit { shard, node, hit } in shown {
            if let Some(hit) = hit {
                self.hits.shown.insert((shard as usize, node), hit);
            }
        }
    }

    fn add_value(&mut self, value: &v1::LeafGroupValue) {
        if let Some(known) = value.value.as_ref().and_then(field_value) {
            self.hits.values.insert((value.shard as usize, value.node), known);
        }
    }

    /// Adds what a round of the dense searches has found.
    pub(super) fn add_dense(&mut self, rankings: Vec<v1::LeafRanking>) {
        for (number, ranking) in rankings.into_iter().enumerate() {
            if self.dense.len() <= number {
                self.dense.push(MergedRanking::default());
            }
            if let Some(known) = self.dense.get_mut(number) {
                known.add(ranking, &mut self.hits.keys);
            }
        }
    }

    /// The dense ranking of a plan: pages are parts of one, joined of all searches.
    pub(super) fn joined_dense(&mut self, plan: &SearchPlan) -> Option<MergedRanking> {
        if self.dense.is_empty() {
            return None;
        }
        let mut joined = MergedRanking::default();
        for (mut ranking, params) in std::mem::take(&mut self.dense).into_iter().zip(plan.dense_searches()) {
            ranking.keep(params.k, &self.hits.keys);
            joined.took_us += ranking.took_us;
            append_unseen(&mut joined.found, ranking.found);
        }
        joined.found.hits.truncate(plan.depth());
        Some(joined)
    }
}

/// Notes that all have.
fn keep_common(common: &mut Option<Vec<String>>, notes: Vec<String>) {
    match common {
        Some(common) => common.retain(|note| notes.contains(note)),
        None => *common = Some(notes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(hits: &[(u32, u32, f32, &str)]) -> v1::LeafRanking {
        let hit = |(shard, node, score, key): &(u32, u32, f32, &str)| v1::LeafHit {
            shard: *shard,
            node: *node,
            score: *score,
            key: (*key).to_owned(),
            exactness: *score / 10.0,
        };
        v1::LeafRanking {
            hits: hits.iter().map(hit).collect(),
            scored: 5,
            scans: 1,
            ..v1::LeafRanking::default()
        }
    }

    fn keys(ranking: &MergedRanking, hits: &LeafHits) -> String {
        let key = |hit: &DocumentHit| hits.key(hit).unwrap().to_owned();
        ranking.found.hits.iter().map(key).collect()
    }

    #[test]
    fn rankings_of_leaves_are_one_with_ties_by_key() {
        let reply = |text: v1::LeafRanking| v1::LeafSearchResponse {
            text: Some(text),
            ..v1::LeafSearchResponse::default()
        };
        let replies = vec![
            reply(ranking(&[(0, 1, 4.0, "d"), (0, 2, 2.0, "b")])),
            reply(ranking(&[(3, 1, 9.0, "c"), (2, 2, 2.0, "a")])),
        ];
        let mut merged = MergedReplies::new(replies);
        let mut text = merged.text.take().unwrap();
        text.keep(3, &merged.hits.keys);
        assert_eq!(keys(&text, &merged.hits), "cda");
        assert_eq!((text.found.cost.scored, text.found.cost.scans), (10, 2));
        assert_eq!(text.exactness(), [0.9, 0.4, 0.2]);
    }

    #[test]
    fn a_note_stands_where_all_leaves_have_it() {
        let reply = |notes: &[&str]| v1::LeafSearchResponse {
            filtered: Some(v1::LeafFiltered {
                documents: 3,
                took_us: 7,
                cached: true,
                notes: notes.iter().map(|note| (*note).to_owned()).collect(),
            }),
            ..v1::LeafSearchResponse::default()
        };
        let merged = MergedReplies::new(vec![reply(&["x", "y"]), reply(&["y"]), reply(&["z", "y"])]);
        let filtered = merged.filtered.unwrap();
        assert_eq!(
            (filtered.notes, filtered.documents, filtered.cached),
            (vec!["y".to_owned()], 9, true)
        );
        assert_eq!(merged.hits.damage, None);
    }
}
