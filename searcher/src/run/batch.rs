//! Many questions at once: those that ask for the same are walked together, so that one's memory is fetched while another's is
//! compared. Every answer is the one that its question alone would get.

use dyad_index::search::NodeSet;
use dyad_index::snapshot::{Hits, Snapshot};
use rayon::prelude::*;

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
    /// Its vector, where the plan wants one and the tower gave it.
    pub(super) vector: Option<Vec<f32>>,
}

/// What one question found, and the vectors compared for it.
pub(super) type Found = (Ranked, u64);

/// Answers all; the order is kept.
pub(super) fn answer_all(snapshot: &Snapshot, items: &[Item], stop: &Stop) -> Result<Vec<Found>> {
    let groups = alike((0..items.len()).collect(), |a, b| match (items.get(*a), items.get(*b)) {
        (Some(a), Some(b)) => a.plan.filter == b.plan.filter,
        _ => false,
    });
    let mut found: Vec<(usize, Found)> = Vec::with_capacity(items.len());
    // A few filters at a time: a batch of many holds few sets in memory. Not all at once: a thread that waits for parts of
    // one group begins with another.
    for some in groups.chunks(rayon::current_num_threads()) {
        let of_some: Vec<Vec<(usize, Found)>> =
            some.par_iter().map(|group| with_one_filter(snapshot, items, group, stop)).collect::<Result<_>>()?;
        found.extend(of_some.into_iter().flatten());
    }
    found.sort_unstable_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, found)| found).collect())
}

/// Groups of equals, in the order of their first members.
fn alike<T>(all: Vec<T>, same: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for one in all {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| same(first, &one))) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups
}

fn with_one_filter(snapshot: &Snapshot, items: &[Item], group: &[usize], stop: &Stop) -> Result<Vec<(usize, Found)>> {
    let first = group.first().and_then(|number| items.get(*number));
    let passing = match first {
        Some(item) => stages::passing(snapshot, &item.plan, stop)?,
        None => Passing::default(),
    };
    let walks = group.iter().filter_map(|number| {
        let item = items.get(*number)?;
        Some((*number, item.plan.dense?, item.vector.as_deref()?))
    });
    let mut chunks = Vec::new();
    for walks in alike(walks.collect(), |a, b| a.1 == b.1) {
        let size = walks.len().div_ceil(rayon::current_num_threads()).max(TOGETHER);
        chunks.extend(walks.chunks(size).map(<[_]>::to_vec));
    }
    let sets = passing.sets.as_deref();
    let walked: Vec<Vec<(usize, Timed)>> =
        chunks.into_par_iter().map(|chunk| walk(snapshot, &chunk, sets, stop)).collect::<Result<_>>()?;
    let mut walked: std::collections::HashMap<usize, Timed> = walked.into_iter().flatten().collect();
    let parts: Vec<(usize, Timed)> =
        group.iter().map(|number| (*number, walked.remove(number).unwrap_or_default())).collect();
    let one = |(number, dense): (usize, Timed)| {
        let item = items.get(number).ok_or(Error::Internal)?;
        let text = stages::text(snapshot, &item.plan, &item.query, &passing, stop)?;
        let computed = dense.0.distance_computations;
        let ranked = stages::rank(snapshot, &item.plan, &dense, &text, passing.took_us)?;
        Ok((number, (Ranked { notes: passing.notes.clone(), ..ranked }, computed)))
    };
    parts.into_par_iter().map(one).collect()
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
        let groups = alike(vec![3, 11, 4, 13, 21, 1], |a, b| a % 10 == b % 10);
        assert_eq!(groups, [vec![3, 13], vec![11, 21, 1], vec![4]]);
        assert!(alike(Vec::<u8>::new(), |a, b| a == b).is_empty());
    }
}
