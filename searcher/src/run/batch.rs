//! Questions that are answered together; a single one is a batch of one. Those that ask for the same are walked together, so
//! that one's memory is fetched while another's is compared. Every answer is the one that its question alone would get.
//!
//! The parts of the work, each of which runs on a rayon thread, for some of the filters at a time: [`Batch::filter`], then
//! [`Batch::text`] and [`Batch::dense`] in any order or side by side. Whichever part is the last goes on to [`Batch::answers`].

use std::collections::HashMap;
use std::hash::Hash;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use dyad_index::lexical::Question;
use dyad_index::search::{Hits, NodeSet};
use dyad_index::snapshot::{DenseParams, Hit, Snapshot};
use rayon::prelude::*;

use super::answer::StageTimings;
use super::stop::Stop;
use crate::error::Result;
use crate::plan::Plan;

/// Fewest questions that are walked together while other threads have work: the walks that take turns on one thread.
const TOGETHER: usize = 8;

/// A question on its way.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) plan: Plan,
    pub(super) query: String,
    /// The filter as it came: equal bytes are equal filters.
    pub(super) filter: Option<Vec<u8>>,
}

/// What happened to a question on its way to a vector.
#[derive(Debug, Default)]
pub(super) struct Vector {
    pub(super) values: Option<Vec<f32>>,
    pub(super) timings: StageTimings,
    pub(super) degraded: Option<String>,
}

/// Hits of a part, and the microseconds that it took.
pub(super) type Timed = (Hits<Hit>, u64);

/// What was found for one question, part by part.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// What the filter asks for that no document has, and the microseconds that it took.
    pub(super) filter: OnceLock<(Vec<String>, u64)>,
    pub(super) text: OnceLock<Timed>,
    pub(super) dense: OnceLock<Timed>,
}

/// The nodes that a filter allows, by shard; all where absent.
pub(super) type Allowed = Option<Vec<NodeSet>>;

/// Filters that are worked on at a time: a range of the batch's groups, and the parts that their questions have.
#[derive(Debug, Clone)]
pub(super) struct Chunk {
    groups: Range<usize>,
    pub(super) has_filter: bool,
    pub(super) has_text: bool,
    pub(super) has_dense: bool,
}

/// All questions of one call.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) items: Vec<Item>,
    pub(super) vectors: OnceLock<Vec<Vector>>,
    pub(super) found: Vec<Found>,
    /// Numbers of the questions with the same filter.
    groups: Vec<Vec<usize>>,
    chunks: Vec<Chunk>,
    /// Parts that have not come to their end.
    open: AtomicUsize,
    pub(super) stop: Arc<Stop>,
    pub(super) started: Instant,
}

pub(super) fn micros(since: Instant) -> u64 {
    since.elapsed().as_micros() as u64
}

/// Groups of equal keys, in the order of their first members.
fn alike<K: Hash + Eq + Clone, T>(all: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    let mut places: HashMap<K, usize> = HashMap::new();
    for (key, one) in all {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(one),
            None => groups.push((key, vec![one])),
        }
    }
    groups
}

impl Batch {
    /// Of which `filters_at_once` are worked on at a time: a batch of many holds few sets in memory, and a thread that waits
    /// for parts of one does not begin with all others.
    pub(super) fn new(
        snapshot: Arc<Snapshot>,
        items: Vec<Item>,
        filters_at_once: usize,
        stop: Arc<Stop>,
        started: Instant,
    ) -> Self {
        let groups = alike(items.iter().enumerate().map(|(number, item)| (item.filter.as_deref(), number)));
        let groups: Vec<Vec<usize>> = groups.into_iter().map(|(_, group)| group).collect();
        let chunk = |start: usize| {
            let groups_of = start..groups.len().min(start + filters_at_once.max(1));
            let numbers = groups.get(groups_of.clone()).unwrap_or_default().iter().flatten();
            let plans: Vec<&Plan> = numbers.filter_map(|number| items.get(*number)).map(|item| &item.plan).collect();
            Chunk {
                groups: groups_of,
                has_filter: plans.iter().any(|plan| plan.filter.is_some()),
                has_text: plans.iter().any(|plan| plan.text_depth.is_some()),
                has_dense: plans.iter().any(|plan| plan.dense.is_some()),
            }
        };
        let chunks: Vec<Chunk> = (0..groups.len()).step_by(filters_at_once.max(1)).map(chunk).collect();
        let open = chunks.iter().map(|chunk| usize::from(chunk.has_text) + usize::from(chunk.has_dense)).sum();
        let found = items.iter().map(|_| Found::default()).collect();
        let (vectors, open) = (OnceLock::new(), AtomicUsize::new(open));
        Self { snapshot, items, vectors, found, groups, chunks, open, stop, started }
    }

    pub(super) fn chunks(&self) -> &[Chunk] {
        &self.chunks
    }

    /// The questions of some filters, and what these allow.
    fn members<'a>(&'a self, chunk: &Chunk, allowed: &'a [Allowed]) -> Vec<(Vec<Member<'a>>, Option<&'a [NodeSet]>)> {
        let groups = self.groups.get(chunk.groups.clone()).unwrap_or_default();
        let member = |number: &usize| {
            let (item, found) = (self.items.get(*number)?, self.found.get(*number)?);
            let vector = self.vectors.get().and_then(|all| all.get(*number)?.values.as_deref());
            Some(Member { item, found, vector })
        };
        let group = |(at, group): (usize, &Vec<usize>)| {
            (group.iter().filter_map(member).collect(), allowed.get(at).and_then(Option::as_deref))
        };
        groups.iter().enumerate().map(group).collect()
    }

    /// What each filter allows, in their order.
    pub(super) fn filter(&self, chunk: &Chunk) -> Result<Vec<Allowed>> {
        let one = |(members, _): &(Vec<Member<'_>>, Option<&[NodeSet]>)| {
            let Some(filter) = members.first().and_then(|first| first.item.plan.filter.as_ref()) else {
                return Ok(None);
            };
            let started = Instant::now();
            let sets = self.snapshot.allowed(filter, &*self.stop)?.ok_or_else(|| self.stop.over())?;
            let notes = self.snapshot.filter_notes(filter)?;
            let took = micros(started);
            for member in members {
                member.found.filter.get_or_init(|| (notes.clone(), took));
            }
            Ok(Some(sets))
        };
        self.members(chunk, &[]).par_iter().map(one).collect()
    }

    /// BM25 for the questions that want it.
    pub(super) fn text(&self, chunk: &Chunk, allowed: &[Allowed]) -> Result<()> {
        let groups = self.members(chunk, allowed);
        let all: Vec<_> =
            groups.iter().flat_map(|(members, allowed)| members.iter().map(move |one| (one, *allowed))).collect();
        all.into_par_iter().try_for_each(|(Member { item, found, .. }, allowed)| {
            if let Some(depth) = item.plan.text_depth {
                let started = Instant::now();
                let hits = self.snapshot.search_text(&Question::new(&item.query), depth, allowed, &*self.stop)?;
                let hits = self.stop.complete(hits)?;
                found.text.get_or_init(|| (hits, micros(started)));
            }
            Ok(())
        })
    }

    /// The dense part for the questions that want it and have a vector.
    pub(super) fn dense(&self, chunk: &Chunk, allowed: &[Allowed]) -> Result<()> {
        self.members(chunk, allowed).par_iter().try_for_each(|(members, allowed)| {
            let walks = members.iter().filter_map(|member| Some((member.item.plan.dense?, (member, member.vector?))));
            let mut together = Vec::new();
            for (params, walks) in alike(walks) {
                let size = walks.len().div_ceil(rayon::current_num_threads()).max(TOGETHER);
                together.extend(walks.chunks(size).map(|walks| (params, walks.to_vec())));
            }
            together.into_par_iter().try_for_each(|(params, walks)| self.walk(&params, &walks, *allowed))
        })
    }

    /// Told by a part that has come to its end; true for the last of all.
    pub(super) fn is_last_part(&self) -> bool {
        self.open.fetch_sub(1, Ordering::AcqRel) <= 1
    }

    /// Questions that want the same of the same nodes. The time of each is that of all: they take turns.
    fn walk(&self, params: &DenseParams, walks: &[(&Member<'_>, &[f32])], allowed: Option<&[NodeSet]>) -> Result<()> {
        let started = Instant::now();
        let vectors: Vec<&[f32]> = walks.iter().map(|(_, vector)| *vector).collect();
        let all = self.snapshot.search_dense(&vectors, params, allowed, &*self.stop)?;
        let took = micros(started);
        for ((member, _), hits) in walks.iter().zip(all) {
            let hits = self.stop.complete(hits)?;
            member.found.dense.get_or_init(|| (hits, took));
        }
        Ok(())
    }
}

/// One question of a batch.
struct Member<'a> {
    item: &'a Item,
    found: &'a Found,
    vector: Option<&'a [f32]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_are_grouped_in_the_order_of_their_first() {
        let groups = alike([3, 11, 4, 13, 21, 1].into_iter().map(|number| (number % 10, number)));
        assert_eq!(groups, [(3, vec![3, 13]), (1, vec![11, 21, 1]), (4, vec![4])]);
        assert!(alike(std::iter::empty::<(u8, u8)>()).is_empty());
    }
}
