//! Which leaf is asked for which shards of a generation.
//!
//! Shards that the same leaves hold are asked for together, of one of these: of two that are drawn, the one with the
//! smaller product of calls in flight and mean time. So no leaf is flooded because all roots find it the fastest, as it
//! would be if each took the best of all (Mitzenmacher 2001). A leaf without times of its own, a new one, counts as the
//! median of the others, and has two calls in flight at most as long as there are others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::v1;

use super::connection::LeafConnection;
use super::draws::Draws;

/// Calls in flight of a leaf without times of its own.
const NEW_AT_ONCE: usize = 2;
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
}

/// Chooses among these leaves for each of the shards.
pub(crate) fn route(
    leaves: &[Arc<LeafConnection>],
    generation: &v1::GenerationName,
    shards: &[u32],
    draws: &Draws,
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
        let holds = |leaf: &Arc<LeafConnection>| {
            let state = leaf.state();
            state.is_some_and(|state| state.shards_of(generation).is_some_and(|held| held.contains_key(shard)))
        };
        let of_shard: Vec<usize> = (0..holders.len())
            .filter(|at| holders.get(*at).is_some_and(holds))
            .collect();
        if of_shard.is_empty() {
            routed.missing.push(*shard);
        } else {
            together.entry(of_shard).or_default().push(*shard);
        }
    }
    let median = median_time(&holders);
    let mut asked: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (of_group, shards) in together {
        if let Some(chosen) = choose(&holders, &of_group, median, draws) {
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

/// The median of the mean times of leaves that have some.
fn median_time(leaves: &[Arc<LeafConnection>]) -> Duration {
    let mut times: Vec<Duration> = leaves.iter().filter_map(|leaf| leaf.load().peak_mean()).collect();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(UNKNOWN)
}

/// The better of two that are drawn.
fn choose(leaves: &[Arc<LeafConnection>], of_group: &[usize], median: Duration, draws: &Draws) -> Option<usize> {
    let is_open = |at: &&usize| {
        leaves
            .get(**at)
            .is_some_and(|leaf| leaf.load().peak_mean().is_some() || leaf.load().in_flight() < NEW_AT_ONCE)
    };
    let mut open: Vec<usize> = of_group.iter().filter(is_open).copied().collect();
    if open.is_empty() {
        open = of_group.to_vec();
    }
    let drawn = draws.below(open.len());
    let one = *open.get(drawn)?;
    let step = 1 + draws.below(open.len().saturating_sub(1));
    let other = *open.get((drawn + step) % open.len())?;
    let cost = |at: usize| {
        leaves.get(at).map_or(f64::INFINITY, |leaf| {
            let time = leaf.load().peak_mean().unwrap_or(median);
            (leaf.load().in_flight() + 1) as f64 * time.as_secs_f64()
        })
    };
    Some(if cost(other) < cost(one) { other } else { one })
}
