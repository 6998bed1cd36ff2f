//! What a leaf holds, as it reports it; and what all leaves together hold of a generation.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use dyad_index::Certificate;
use dyad_index::snapshot::Coverage;
use dyad_proto::v1;

/// A shard that a leaf holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeafShard {
    /// Documents that are not deleted.
    pub(crate) documents: u64,
    /// Its measured recall.
    pub(crate) certificate: Certificate,
    /// Why some of its hits may be missing; empty where it is intact.
    pub(crate) damage: String,
}

/// What a leaf holds of a generation.
#[derive(Debug)]
pub(crate) struct LeafGeneration {
    pub(crate) name: v1::GenerationName,
    /// By number.
    pub(crate) shards: BTreeMap<u32, LeafShard>,
    /// Whether some documents in them are passages that name theirs.
    pub(crate) has_documents: bool,
}

/// What a leaf has said last.
#[derive(Debug, Clone, Default)]
pub(crate) struct LeafState {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is to be asked for nothing new.
    pub(crate) is_leaving: bool,
    /// The generations that it can search.
    pub(crate) generations: Vec<Arc<LeafGeneration>>,
    /// The shards that it was to hold and does not.
    pub(crate) refused: Vec<v1::RefusedShard>,
}

impl LeafState {
    /// Of a report. A shard whose certificate cannot be read counts as one that is not held: the reason is the error.
    pub(crate) fn new(report: v1::LeafReport) -> Result<Self, serde_json::Error> {
        let shard = |held: v1::HeldShard| {
            let shard = LeafShard {
                documents: held.documents,
                certificate: serde_json::from_str(&held.certificate_json)?,
                damage: held.damage,
            };
            Ok((held.number, shard))
        };
        let generation = |held: v1::HeldGeneration| {
            Ok(Arc::new(LeafGeneration {
                name: held.name.unwrap_or_default(),
                shards: held
                    .shards
                    .into_iter()
                    .map(shard)
                    .collect::<Result<_, serde_json::Error>>()?,
                has_documents: held.has_documents,
            }))
        };
        let generations = report.generations.into_iter().map(generation);
        Ok(Self {
            name: report.leaf,
            is_leaving: report.is_leaving,
            generations: generations.collect::<Result<_, serde_json::Error>>()?,
            refused: report.refused,
        })
    }

    /// What it holds of a generation.
    pub(crate) fn generation(&self, name: &v1::GenerationName) -> Option<&LeafGeneration> {
        self.generations
            .iter()
            .map(|held| &**held)
            .find(|held| held.name == *name)
    }

    /// The same without a generation.
    pub(crate) fn without(&self, generation: &v1::GenerationName) -> Self {
        let mut others = self.clone();
        others.generations.retain(|held| held.name != *generation);
        others
    }

    /// The shards that it holds of a generation.
    pub(crate) fn shards_of(&self, generation: &v1::GenerationName) -> Option<&BTreeMap<u32, LeafShard>> {
        self.generation(generation).map(|held| &held.shards)
    }
}

/// Why a generation cannot be served: shards, by number, that leaves do not hold, or not enough of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TooFewHolders {
    /// No leaf holds these.
    None(Vec<u32>),
    /// Fewer than so many hold these, and one at least.
    Few { shards: Vec<u32>, wanted: usize },
}

/// All shards of a generation, as leaves hold them.
#[derive(Debug)]
pub(crate) struct GenerationShards {
    /// The generation.
    pub(crate) name: v1::GenerationName,
    /// In the order of the manifest.
    pub(crate) shards: Vec<LeafShard>,
    /// Why some hits of shards may be missing, by number: as leaves have said last.
    pub(crate) damage: ArcSwap<BTreeMap<u32, String>>,
    /// Whether some documents are passages that name theirs.
    pub(crate) has_documents: bool,
}

impl GenerationShards {
    /// What searches of all shards are of.
    pub(crate) fn coverage(&self) -> Coverage {
        let mut coverage = Coverage {
            shards: self.shards.len() as u32,
            ..Coverage::default()
        };
        let damage = self.damage.load();
        for (number, shard) in (0..).zip(&self.shards) {
            let is_damaged = damage.contains_key(&number);
            coverage.documents += shard.documents;
            coverage.damaged_shards += u32::from(is_damaged);
            coverage.intact_documents += if is_damaged { 0 } else { shard.documents };
        }
        coverage
    }

    /// The documents of a shard; none where it is damaged.
    pub(crate) fn intact_documents_of(&self, number: u32) -> u64 {
        let shard = self.shards.get(number as usize);
        let shard = shard.filter(|_| !self.damage.load().contains_key(&number));
        shard.map_or(0, |shard| shard.documents)
    }

    /// Why hits may be missing; none where all shards are intact.
    pub(crate) fn first_damage(&self) -> Option<String> {
        let damage = self.damage.load();
        damage.first_key_value().map(|(_, reason)| reason.clone())
    }

    /// The numbers of all shards.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        (0..self.shards.len() as u32).collect()
    }
}

/// Why hits of shards of a generation may be missing, by number: of those that no leaf holds intact.
pub(super) fn damage_of(states: &[Arc<LeafState>], generation: &v1::GenerationName) -> BTreeMap<u32, String> {
    let mut damage: BTreeMap<u32, Option<String>> = BTreeMap::new();
    for shards in states.iter().filter_map(|state| state.shards_of(generation)) {
        for (number, shard) in shards {
            let reason = (!shard.damage.is_empty()).then(|| shard.damage.clone());
            let known = damage.entry(*number).or_insert_with(|| reason.clone());
            if reason.is_none() {
                *known = None;
            }
        }
    }
    let is_damaged = |(number, reason): (u32, Option<String>)| Some((number, reason?));
    damage.into_iter().filter_map(is_damaged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_that_some_leaf_holds_intact_is_not_damaged() {
        let name = v1::GenerationName::default();
        let state = |held: &[(u32, &str)]| {
            let shard = |(number, damage): &(u32, &str)| {
                let shard = LeafShard {
                    documents: 1,
                    certificate: Certificate::default(),
                    damage: (*damage).to_owned(),
                };
                (*number, shard)
            };
            let generation = LeafGeneration {
                name: name.clone(),
                shards: held.iter().map(shard).collect(),
                has_documents: false,
            };
            Arc::new(LeafState {
                generations: vec![Arc::new(generation)],
                ..LeafState::default()
            })
        };
        let states = [
            state(&[(0, ""), (1, "torn"), (2, "torn")]),
            state(&[(0, "torn"), (1, ""), (2, "too")]),
        ];
        let damage = damage_of(&states, &name);
        assert_eq!(damage, BTreeMap::from([(2, "torn".to_owned())]));
    }

    #[test]
    fn a_report_is_read_whole_or_not_at_all() {
        let name = v1::GenerationName {
            index: "wiki".into(),
            generation: 3,
            pointer: "three".into(),
        };
        let report = |certificate: &str| v1::LeafReport {
            leaf: "leaf-1".into(),
            generations: vec![v1::HeldGeneration {
                name: Some(name.clone()),
                shards: vec![v1::HeldShard {
                    number: 4,
                    documents: 7,
                    certificate_json: certificate.to_owned(),
                    ..v1::HeldShard::default()
                }],
                has_documents: true,
            }],
            ..v1::LeafReport::default()
        };
        let certificate = serde_json::to_string(&Certificate::default()).unwrap();
        let state = LeafState::new(report(&certificate)).unwrap();
        let shards = state.shards_of(&name).unwrap();
        assert_eq!((shards.len(), shards[&4].documents), (1, 7));
        let other = v1::GenerationName {
            pointer: "another three".into(),
            ..name.clone()
        };
        assert!(state.shards_of(&other).is_none());
        assert!(LeafState::new(report("{")).is_err());
    }
}
