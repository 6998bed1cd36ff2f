//! Which documents set one generation apart from another, whatever has happened between them: changes, a merge, a
//! rollback, a build.

use std::collections::BTreeSet;

use dyad_index::Snapshot;
use dyad_index::manifest::ShardEntry;
use dyad_index::snapshot::Shard;

use super::last_document::LastDocument;
use crate::control::JobControl;
use crate::error::Error;

/// The documents that two generations do not have alike.
#[derive(Debug)]
pub(super) struct Difference {
    /// Documents of the later one that the earlier one has not, or has with other fields: shard and node.
    pub(super) new: Vec<(usize, u32)>,
    /// Keys of documents of the earlier one that the later one has not, or has with other fields.
    pub(super) gone: Vec<String>,
}

/// Documents of two generations, and the documents in which they stand that were read last.
#[derive(Default)]
struct ComparedDocuments {
    before: LastDocument,
    now: LastDocument,
}

/// A document of a generation.
#[derive(Clone, Copy)]
struct GenerationDocument<'a> {
    generation: &'a Snapshot,
    shard: usize,
    node: u32,
}

impl ComparedDocuments {
    /// Whether a document of each generation has the same fields, and stands in the same place.
    fn are_equal(&mut self, before: GenerationDocument<'_>, now: GenerationDocument<'_>) -> Result<bool, Error> {
        let was = before.generation.document(before.shard, before.node)?;
        let is = now.generation.document(now.shard, now.node)?;
        if was != is {
            return Ok(false);
        }
        let shards = (before.generation.shards(), now.generation.shards());
        let (Some(was_in), Some(is_in)) = (shards.0.get(before.shard), shards.1.get(now.shard)) else {
            return Ok(false);
        };
        let was_at = self
            .before
            .place_of_live(before.shard, was_in, before.node, &was.text)?;
        let is_at = self.now.place_of_live(now.shard, is_in, now.node, &is.text)?;
        Ok(was_at == is_at)
    }
}

impl Difference {
    /// Compares the documents of two generations whose keys are asked for. Shards that both have differ in their
    /// deletions and changed metadata only, and the others document by document, so that a merge, which moves
    /// documents, changes nothing here.
    pub(super) fn between(
        last: &Snapshot,
        current: &Snapshot,
        is_asked_for: impl Fn(&str) -> bool,
        control: JobControl<'_>,
    ) -> Result<Self, Error> {
        let mut found = Self {
            new: Vec::new(),
            gone: Vec::new(),
        };
        let mut documents = ComparedDocuments::default();
        for (at, (entry, shard)) in current.entries().enumerate() {
            let known = shard_named(last, &entry.id);
            if known.is_some_and(|(before, _)| before == entry) {
                continue;
            }
            let changed = known.filter(|(before, _)| before.metadata != entry.metadata);
            let changed = changed
                .map(|(_, before)| updated_nodes([before, shard]))
                .unwrap_or_default();
            let is_same = |node| known.is_some_and(|(_, before)| before.is_live(node)) && !changed.contains(&node);
            for node in live_nodes(shard).filter(|node| !is_same(*node)) {
                control.check()?;
                let key = shard.dense.keys().key(node);
                if !is_asked_for(key) {
                    continue;
                }
                let before = last.find(key)?.map(|(shard, node)| GenerationDocument {
                    generation: last,
                    shard,
                    node,
                });
                let now = GenerationDocument {
                    generation: current,
                    shard: at,
                    node,
                };
                match before {
                    Some(before) if documents.are_equal(before, now)? => {}
                    Some(_) => {
                        found.gone.push(key.to_owned());
                        found.new.push((at, node));
                    }
                    None => found.new.push((at, node)),
                }
            }
        }
        for (entry, shard) in last.entries() {
            let now = shard_named(current, &entry.id);
            if now.is_some_and(|(now, _)| now == entry) {
                continue;
            }
            for node in live_nodes(shard) {
                if now.is_some_and(|(_, now)| now.is_live(node)) {
                    continue;
                }
                control.check()?;
                let key = shard.dense.keys().key(node);
                if is_asked_for(key) && current.find(key)?.is_none() {
                    found.gone.push(key.to_owned());
                }
            }
        }
        Ok(found)
    }

    /// The keys of all these documents; `current` is the later generation.
    pub(super) fn keys(self, current: &Snapshot) -> BTreeSet<String> {
        let mut keys: BTreeSet<String> = self.gone.into_iter().collect();
        let new = self
            .new
            .into_iter()
            .filter_map(|(shard, node)| current.key(shard, node));
        keys.extend(new.map(str::to_owned));
        keys
    }
}

/// The shard of a generation with this name.
pub(super) fn shard_named<'s>(snapshot: &'s Snapshot, id: &str) -> Option<(&'s ShardEntry, &'s Shard)> {
    snapshot.entries().find(|(entry, _)| entry.id == id)
}

/// The nodes of which one of these forms of a shard has changed metadata.
fn updated_nodes(shards: [&Shard; 2]) -> BTreeSet<u32> {
    shards
        .into_iter()
        .flat_map(|shard| &shard.updates)
        .flat_map(|updates| updates.nodes())
        .copied()
        .collect()
}

/// The live documents of a shard, ascending.
pub(super) fn live_nodes(shard: &Shard) -> impl Iterator<Item = u32> + '_ {
    (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node))
}
