//! Which leaf is asked for which shards of a generation: one that holds them without damage, where there is any.
//!
//! Shards that the same leaves hold are asked for together, of one of these: of two that are drawn, the one with the
//! smaller product of calls in flight and mean time. So no leaf is flooded because all roots find it the fastest, as it
//! would be if each took the best of all (Mitzenmacher 2001). A leaf without times of its own, a new one, counts as the
//! median of the others, and has two calls in flight at most as long as there are others.
//!
//! Requests with a filter go to the same leaves as those before with the same one, as long as these are not much busier
//! than others: a leaf keeps what a filter allows for each set of shards that it was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::v1;

use super::connection::LeafConnection;
use super::draws::Draws;
use super::filters::FilterAffinity;

/// Calls in flight of a leaf without times of its own.
const NEW_AT_ONCE: usize = 2;
/// So many times the cost of another leaf is too much for one that has probably kept what the filter allows.
const MUCH_BETTER: f64 = 3.0;
/// The time of a call where no leaf has any.
const UNKNOWN: Duration = Duration::from_millis(10);

/// A leaf, and what it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct LeafShards {
    pub(crate) leaf: Arc<LeafConnection>,
    /// Numbers of shards, ascending.
    pub(crate) shards: Vec<u32>,
}

/// Who is asked for what.
#[derive(Debug, Default)]
pub(crate) struct Routed {
    /// Each leaf once.
    pub(crate) asked: Vec<LeafShards>,
    /// Shards that no leaf holds, ascending.
    pub(crate) missing: Vec<u32>,
    /// Whether some are asked of leaves where they are damaged.
    pub(crate) has_damaged: bool,
}

/// Chooses among these leaves for each of the shards.
pub(crate) fn route(
    leaves: &[Arc<LeafConnection>],
    generation: &v1::GenerationName,
    shards: &[u32],
    chooser: &LeafChooser<'_>,
) -> Routed {
    let holders: Vec<Arc<LeafConnection>> = leaves
        .iter()
        .filter(|leaf| {
            leaf.state()
                .is_some_and(|state| !state.is_leaving && state.shards_of(generation).is_some())
        })
        .cloned()
        .collect();
    let mut together: BTreeMap<Vec<usize>, Vec<u32>> = BTreeMap::new();
    let mut routed = Routed::default();
    for shard in shards {
        let (of_shard, is_damaged) = holders_of(&holders, generation, *shard);
        routed.has_damaged |= is_damaged;
        if of_shard.is_empty() {
            routed.missing.push(*shard);
        } else {
            together.entry(of_shard).or_default().push(*shard);
        }
    }
    let median = median_time(&holders);
    let mut asked: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (of_group, shards) in together {
        let group = LeafGroup {
            leaves: &holders,
            holders: &of_group,
            first_shard: shards.first().copied().unwrap_or_default(),
        };
        if let Some(chosen) = chooser.choose(&group, median) {
            asked.entry(chosen).or_default().extend(shards);
        }
    }
    for (at, mut shards) in asked {
        if let Some(leaf) = holders.get(at) {
            shards.sort_unstable();
            routed.asked.push(LeafShards {
                leaf: Arc::clone(leaf),
                shards,
            });
        }
    }
    routed
}

/// The places of the leaves that hold a shard: of those that hold it intact, where there are some; and whether none
/// does.
fn holders_of(leaves: &[Arc<LeafConnection>], generation: &v1::GenerationName, shard: u32) -> (Vec<usize>, bool) {
    let (mut intact, mut damaged) = (Vec::new(), Vec::new());
    for (at, leaf) in leaves.iter().enumerate() {
        let state = leaf.state();
        let held = state
            .as_ref()
            .and_then(|state| state.shards_of(generation)?.get(&shard));
        match held {
            Some(held) if held.damage.is_empty() => intact.push(at),
            Some(_) => damaged.push(at),
            None => {}
        }
    }
    if intact.is_empty() {
        let is_damaged = !damaged.is_empty();
        (damaged, is_damaged)
    } else {
        (intact, false)
    }
}

/// The median of the mean times of leaves that have some.
fn median_time(leaves: &[Arc<LeafConnection>]) -> Duration {
    let mut times: Vec<Duration> = leaves.iter().filter_map(|leaf| leaf.load().peak_mean()).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(UNKNOWN)
}

/// Leaves that all hold some shards.
struct LeafGroup<'a> {
    leaves: &'a [Arc<LeafConnection>],
    /// Their places.
    holders: &'a [usize],
    /// The first of the shards.
    first_shard: u32,
}

/// By what one of several leaves is chosen.
pub(super) struct LeafChooser<'a> {
    pub(super) draws: &'a Draws,
    pub(super) affinity: Option<FilterAffinity>,
}

impl LeafChooser<'_> {
    /// The better of two: both are drawn, or the first is the one that has probably kept what the filter allows, which
    /// is left out only where the other one is much better.
    fn choose(&self, group: &LeafGroup<'_>, median: Duration) -> Option<usize> {
        let load = |at: usize| group.leaves.get(at).map(|leaf| leaf.load());
        let is_open =
            |at: &usize| load(*at).is_some_and(|load| load.peak_mean().is_some() || load.in_flight() < NEW_AT_ONCE);
        let mut open: Vec<usize> = group.holders.iter().copied().filter(is_open).collect();
        if open.is_empty() {
            open = group.holders.to_vec();
        }
        let first = match self.affinity {
            Some(affinity) => {
                let weight = |place: &usize| {
                    let leaf = open.get(*place).and_then(|at| group.leaves.get(*at));
                    leaf.map_or(0, |leaf| affinity.weight(group.first_shard, &leaf.name()))
                };
                (0..open.len()).max_by_key(weight)?
            }
            None => self.draws.below(open.len()),
        };
        let step = 1 + self.draws.below(open.len().saturating_sub(1));
        let (one, other) = (*open.get(first)?, *open.get((first + step) % open.len())?);
        let cost = |at: usize| {
            load(at).map_or(f64::INFINITY, |load| {
                let time = load.peak_mean().unwrap_or(median);
                (load.in_flight() + 1) as f64 * time.as_secs_f64()
            })
        };
        let margin = if self.affinity.is_some() { MUCH_BETTER } else { 1.0 };
        Some(if cost(other) * margin < cost(one) { other } else { one })
    }
}
