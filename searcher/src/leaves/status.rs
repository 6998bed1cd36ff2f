//! What operators see of leaves.

use std::collections::BTreeMap;

use dyad_proto::v1;

use super::connection::LeafConnection;
use super::follow::Leaves;

impl Leaves {
    /// Each leaf, with what it holds of a generation, ascending by address.
    pub fn status(&self, generation: &v1::GenerationName) -> Vec<v1::LeafStatus> {
        self.connections().iter().map(|leaf| status(leaf, generation)).collect()
    }

    /// For each shard of a generation, by number, how many leaves hold it.
    pub(crate) fn holders(&self, generation: &v1::GenerationName, count: usize) -> Vec<u32> {
        let mut holders = vec![0; count];
        for state in self.states() {
            for number in state.shards_of(generation).into_iter().flat_map(|shards| shards.keys()) {
                if let Some(holders) = holders.get_mut(*number as usize) {
                    *holders += 1;
                }
            }
        }
        holders
    }

    /// Calls that were made a second time, since the first was late.
    pub(crate) fn hedged_calls(&self) -> u64 {
        self.hedges().made()
    }
}

fn status(leaf: &LeafConnection, generation: &v1::GenerationName) -> v1::LeafStatus {
    let (state, load) = (leaf.state(), leaf.load());
    let refused = |refused: &v1::RefusedShard| {
        let number = refused.generation.as_ref().map_or(0, |name| name.generation);
        format!("shard {} of generation {number}: {}", refused.number, refused.reason)
    };
    let held = state
        .as_ref()
        .and_then(|state| state.shards_of(generation))
        .map_or(0, BTreeMap::len);
    v1::LeafStatus {
        url: leaf.address().url(),
        name: leaf.said_name(),
        is_up: state.is_some(),
        is_leaving: state.as_ref().is_some_and(|state| state.is_leaving),
        shards: held as u32,
        calls_under_way: load.in_flight() as u32,
        calls: load.calls(),
        p95_us: load.p95().map_or(0, |time| time.as_micros() as u64),
        refused: state
            .iter()
            .flat_map(|state| state.refused.iter().map(refused))
            .collect(),
    }
}
