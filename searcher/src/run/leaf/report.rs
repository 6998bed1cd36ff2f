//! What a leaf holds: the generations that it can search.

use dyad_index::snapshot::Shard;
use dyad_proto::v1;

use super::super::engine::Engine;
use super::super::served::generation::ServedGeneration;
use super::super::served::served_index::RefusedGeneration;

/// Whether what is held has changed: equal where it has not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeldVersion {
    /// With the number of damaged shards.
    generations: Vec<(v1::GenerationName, u32)>,
    refused: Vec<v1::RefusedShard>,
}

impl Engine {
    /// What is held of all indexes.
    pub(crate) fn held_generations(&self) -> Vec<v1::HeldGeneration> {
        self.indexes()
            .flat_map(|index| index.all_held())
            .map(|held| generation(&held))
            .collect()
    }

    /// The same, to be compared.
    pub(crate) fn held_version(&self) -> HeldVersion {
        let of = |held: std::sync::Arc<ServedGeneration>| {
            let damaged = held.snapshot().coverage().damaged_shards;
            (held.name().clone(), damaged)
        };
        HeldVersion {
            generations: self.indexes().flat_map(|index| index.all_held()).map(of).collect(),
            refused: self.refused_shards(),
        }
    }

    /// The shards of current generations that cannot be served.
    pub(crate) fn refused_shards(&self) -> Vec<v1::RefusedShard> {
        let refused = self.indexes().filter_map(|index| index.refused.load_full());
        let shards = |refused: std::sync::Arc<RefusedGeneration>| {
            let shard = |number: &usize| v1::RefusedShard {
                generation: Some(refused.name.clone()),
                number: *number as u32,
                reason: refused.reason.clone(),
            };
            refused.numbers.iter().map(shard).collect::<Vec<_>>()
        };
        refused.flat_map(shards).collect()
    }
}

fn generation(held: &ServedGeneration) -> v1::HeldGeneration {
    let snapshot = held.snapshot();
    let shards = snapshot.numbers().iter().zip(snapshot.shards());
    v1::HeldGeneration {
        name: Some(held.name().clone()),
        shards: shards.filter_map(|(number, opened)| shard(*number, opened)).collect(),
        // What cannot be read is an error of searches.
        has_documents: snapshot.has_documents().unwrap_or_default(),
    }
}

/// None where its certificate cannot be written, so that nobody counts with the shard.
fn shard(number: usize, shard: &Shard) -> Option<v1::HeldShard> {
    let certificate = serde_json::to_string(shard.certificate());
    let certificate_json = certificate
        .inspect_err(
            |error| tracing::error!(number, %error, "a shard is not reported: its certificate cannot be written"),
        )
        .ok()?;
    Some(v1::HeldShard {
        number: number as u32,
        documents: shard.len() as u64,
        certificate_json,
        damage: shard.dense.damage().map_or_else(String::new, |error| error.to_string()),
    })
}
