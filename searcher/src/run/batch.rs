//! Many questions at once: those that ask for the same are walked together, so that one's memory is fetched while another's is
//! compared. Every answer is the one that its question alone would get.

use std::collections::HashMap;
use std::hash::Hash;

use dyad_index::search::NodeSet;
use dyad_index::snapshot::{Hits, Snapshot};
use rayon::prelude::*;

use super::reply_memory::Share;
use super::stages::{self, Passing, Ranked, Timed};
use super::stop::Stop;
use crate::error::{Error, Result};
use crate::plan::{DenseStage, Plan};

/// Fewest questions that are walked together while other threads have work: the walks that take turns on one thread.
const TOGETHER: usize = 8;

/// A question on its way.
pub(super) struct Item {
    pub(super) plan: Plan,
    pub(super) query: String,
    /// The filter as it came: equal bytes are equal filters.
    pub(super) filter: Vec<u8>,
    /// Its vector, where the plan wants one and the tower gave it.
    pub(super) vector: Option<Vec<f32>>,
}

/// What one question found, and the vectors compared for it.
pub(super) type Found = (Ranked, u64);

/// What all questions of a batch share.
struct Job<'a> {
    snapshot: &'a Snapshot,
    items: &'a [Item],
    share: &'a Share,
    stop: &'a Stop,
}

/// Answers all; the order is kept. `share` counts the documents of all replies.
pub(super) fn answer_all(snapshot: &Snapshot, items: &[Item], share: &Share, stop: &Stop) -> Result<Vec<Found>> {
    let job = Job { snapshot, items, share, stop };
    let groups = alike(items.iter().enumerate().map(|(number, item)| (item.filter.as_slice(), number)));
    let mut found: Vec<(usize, Found)> = Vec::with_capacity(items.len());
    // A few filters at a time: a batch of many holds few sets in memory. Not all at once: a thread that waits for parts of
    // one group begins with another.
    for some in groups.chunks(rayon::current_num_threads()) {
        let of_some: Vec<Vec<(usize, Found)>> =
            some.par_iter().map(|group| job.with_one_filter(group)).collect::<Result<_>>()?;
        found.extend(of_some.into_iter().flatten());
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, found)| found).collect())
}

/// Groups of equal keys, in the order of their first members.
fn alike<K: Hash + Eq, T>(all: impl Iterator<Item = (K, T)>) -> Vec<Vec<T>> {
    let (mut groups, mut places): (Vec<Vec<T>>, HashMap<K, usize>) = (Vec::new(), HashMap::new());
    for (key, one) in all {
        let place = *places.entry(key).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

impl Job<'_> {
    fn with_one_filter(&self, group: &[usize]) -> Result<Vec<(usize, Found)>> {
        let Self { snapshot, items, share, stop } = self;
        let first = group.first().and_then(|number| items.get(*number));
        let passing = match first {
            Some(item) => stages::passing(snapshot, &item.plan, stop)?,
            None => Passing::default(),
        };
        let walks = group.iter().filter_map(|number| {
            let item = items.get(*number)?;
            let stage = item.plan.dense?;
            Some((stage, (*number, stage, item.vector.as_deref()?)))
        });
        let mut chunks = Vec::new();
        for walks in alike(walks) {
            let size = walks.len().div_ceil(rayon::current_num_threads()).max(TOGETHER);
            chunks.extend(walks.chunks(size).map(<[_]>::to_vec));
        }
        let sets = passing.sets.as_deref();
        let walked: Vec<Vec<(usize, Timed)>> =
            chunks.into_par_iter().map(|chunk| walk(snapshot, &chunk, sets, stop)).collect::<Result<_>>()?;
        let mut walked: HashMap<usize, Timed> = walked.into_iter().flatten().collect();
        let parts: Vec<(usize, Timed)> =
            group.iter().map(|number| (*number, walked.remove(number).unwrap_or_default())).collect();
        let one = |(number, dense): (usize, Timed)| {
            let item = items.get(number).ok_or(Error::Internal)?;
            let text = stages::text(snapshot, &item.plan, &item.query, &passing, stop)?;
            let computed = dense.0.distance_computations;
            let ranked = stages::rank(snapshot, &item.plan, (&dense, &text), passing.took_us, share, stop)?;
            Ok((number, (Ranked { notes: passing.notes.clone(), ..ranked }, computed)))
        };
        parts.into_par_iter().map(one).collect()
    }
}

/// Questions that want the same of the same nodes. The time of each is that of all: they take turns.
fn walk(
    snapshot: &Snapshot,
    questions: &[(usize, DenseStage, &[f32])],
    passing: Option<&[NodeSet]>,
    stop: &Stop,
) -> Result<Vec<(usize, Timed)>> {
    let Some((_, stage, _)) = questions.first() else { return Ok(Vec::new()) };
    let started = std::time::Instant::now();
    let vectors: Vec<&[f32]> = questions.iter().map(|(_, _, vector)| *vector).collect();
    let is_set = || stop.is_set();
    let found = snapshot.search_dense_batch(&vectors, stage.depth, stage.effort, passing, Some(&is_set))?;
    let took = stages::micros(started);
    let one = |((number, ..), hits): (&(usize, DenseStage, &[f32]), Hits)| Ok((*number, (stop.complete(hits)?, took)));
    questions.iter().zip(found).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_are_grouped_in_the_order_of_their_first() {
        let groups = alike([3, 11, 4, 13, 21, 1].into_iter().map(|number| (number % 10, number)));
        assert_eq!(groups, [vec![3, 13], vec![11, 21, 1], vec![4]]);
        assert!(alike(std::iter::empty::<(u8, u8)>()).is_empty());
    }
}
