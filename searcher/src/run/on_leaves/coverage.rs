//! Which shards an answer is of: all, or as many as a request asks for at least.

use std::collections::BTreeMap;

use dyad_index::snapshot::Coverage;
use dyad_proto::v1;

use super::super::stages::batch::QuestionBatch;
use super::asked::LeavesOfBatch;
use crate::error::{Error, Result, ShardNumbers};
use crate::leaves::{GenerationShards, LeafRequest, MissingShards, PartialAnswers, until_partial};

/// The shards that a question is asked of, and those that were lost on the way.
#[derive(Debug, Clone)]
pub(super) struct AskedShards {
    /// Numbers, ascending.
    pub(super) present: Vec<u32>,
    /// Why others are missing, by number.
    missing: BTreeMap<u32, String>,
    /// Least share of the documents.
    least: f64,
}

impl AskedShards {
    /// All of a generation, of which at least this share of the documents has to be searched.
    pub(super) fn all(generation: &GenerationShards, least: f64) -> Self {
        Self {
            present: generation.numbers(),
            missing: BTreeMap::new(),
            least,
        }
    }

    /// Some of those that are left.
    pub(super) fn only(&self, which: impl Fn(&u32) -> bool) -> Vec<u32> {
        self.present.iter().copied().filter(which).collect()
    }

    fn lose(&mut self, missing: Vec<MissingShards>) {
        for MissingShards { shards, reason } in missing {
            self.present.retain(|number| !shards.contains(number));
            self.missing
                .extend(shards.into_iter().map(|number| (number, reason.clone())));
        }
    }

    /// Why hits may be missing; none where all shards were searched.
    pub(super) fn reason(&self) -> Option<String> {
        let (_, reason) = self.missing.first_key_value()?;
        let numbers = ShardNumbers(self.missing.keys().copied().collect());
        Some(format!("shards {numbers} were not searched: {reason}"))
    }

    /// What was searched, of the documents that exist for the caller.
    pub(super) fn coverage(
        &self,
        batch: &QuestionBatch,
        generation: &GenerationShards,
        existing: Option<&BTreeMap<u32, v1::LeafShardDocuments>>,
    ) -> v1::Coverage {
        let Coverage {
            documents,
            shards,
            damaged_shards,
            intact_documents,
        } = generation.coverage();
        let of_shard = |number: &u32| generation.intact_documents_of(*number);
        let lost: u64 = self.missing.keys().map(of_shard).sum();
        let missing = |(number, reason): (&u32, &String)| missing_shard(batch, *number, reason);
        let of_all = v1::Coverage {
            documents,
            shards,
            damaged_shards,
            intact_documents: intact_documents.saturating_sub(lost),
            missing_shards: self.missing.iter().map(missing).collect(),
        };
        match existing {
            None => of_all,
            Some(existing) => {
                let is_intact = |of_shard: &&v1::LeafShardDocuments| {
                    !of_shard.is_damaged && !self.missing.contains_key(&of_shard.shard)
                };
                let count = |of_shard: &v1::LeafShardDocuments| of_shard.documents;
                v1::Coverage {
                    documents: existing.values().map(count).sum(),
                    intact_documents: existing.values().filter(is_intact).map(count).sum(),
                    ..of_all
                }
            }
        }
    }
}

/// A shard that an answer is without, as its caller is told.
pub(super) fn missing_shard(batch: &QuestionBatch, number: u32, reason: &str) -> v1::MissingShard {
    let entry = batch.snapshot.manifest().shards.get(number as usize);
    v1::MissingShard {
        number,
        id: entry.map_or_else(String::new, |entry| entry.id.clone()),
        // It may name machines.
        reason: if batch.scope.is_some() {
            String::new()
        } else {
            reason.to_owned()
        },
    }
}

impl LeavesOfBatch<'_> {
    /// Asks for the shards, of which some may be lost where enough are left.
    pub(super) async fn ask_some<Q: LeafRequest>(
        &self,
        shards: &mut AskedShards,
        request: &Q,
    ) -> Result<Vec<Q::Reply>> {
        let all = shards.present.clone();
        self.ask_part(shards, &all, request).await
    }

    /// The same for some of them.
    pub(super) async fn ask_part<Q: LeafRequest>(
        &self,
        shards: &mut AskedShards,
        part: &[u32],
        request: &Q,
    ) -> Result<Vec<Q::Reply>> {
        if shards.least >= 1.0 {
            return self.ask(part, request).await;
        }
        let all: u64 = self.generation.coverage().documents;
        let least = shards.least;
        let enough = |numbers: &[u32]| {
            let shard = |number: &u32| self.generation.shards.get(*number as usize);
            let documents: u64 = numbers.iter().filter_map(shard).map(|shard| shard.documents).sum();
            documents as f64 >= least * all as f64
        };
        let until = until_partial(self.cancel.deadline().into());
        let others = shards.only(|number| !part.contains(number));
        let with_others = |answered: &[u32]| enough(&[answered, others.as_slice()].concat());
        let some = self
            .leaves
            .ask_some(&self.generation.name, part, until, request, with_others)
            .await;
        let PartialAnswers { answers, missing } = some.map_err(|failure| self.error_of(failure))?;
        shards.lose(missing);
        if enough(&shards.present) {
            return Ok(answers);
        }
        Err(Error::NoLeaves {
            index: self.generation.name.index.clone(),
            generation: self.generation.name.generation,
            shards: ShardNumbers(shards.missing.keys().copied().collect()),
            reason: Some(format!("`min_coverage` is {least}, and fewer documents were searched")),
        })
    }
}
