//! Removes documents from every generation, so that no rollback brings them back: the shards that hold them are written again
//! without them, and the generations that name the old ones are removed.

use std::collections::{BTreeSet, HashSet};

use dyad_index::Snapshot;
use dyad_index::manifest::{self, SHARDS_DIR};
use dyad_index::shard::{DENSE_FILE, DenseShard};

use super::Outcome;
use super::merge::{MergeConfig, rewrite};
use crate::control::JobControl;
use crate::error::Error;
use crate::gc::{self, Collected};

/// What a purge did, or would do.
#[derive(Debug, Clone)]
pub struct Purged {
    /// The current generation without the documents.
    pub outcome: Outcome,
    /// The generations that were removed, or could not be because a process of this machine reads them.
    pub collected: Collected,
}

/// Removes the documents with these keys from the index, live, deleted and of earlier generations.
pub fn purge(config: &MergeConfig, keys: &[String], control: JobControl<'_>) -> Result<Purged, Error> {
    let base = Snapshot::open(&config.index)?;
    let keys: HashSet<&str> = keys.iter().map(String::as_str).collect();
    let holds = |shard: &DenseShard| -> Result<bool, Error> {
        keys.iter().try_fold(false, |found, key| Ok(found || shard.find(key)?.is_some()))
    };
    let mut groups = Vec::new();
    for (at, shard) in base.shards().iter().enumerate() {
        if holds(&shard.dense)? {
            groups.push(vec![at]);
        }
    }
    let outcome = rewrite(config, base, &groups, &keys, "purge", control)?;
    // The shards that hold them now are those of other generations, and those that others have added meanwhile.
    let current = manifest::current(&config.index)?;
    let mut affected = BTreeSet::new();
    for generation in manifest::generations(&config.index)? {
        if generation == current.generation {
            continue;
        }
        for entry in manifest::load(&config.index, generation)?.shards {
            let path = config.index.join(SHARDS_DIR).join(&entry.id).join(DENSE_FILE);
            if holds(&DenseShard::open(&path)?)? {
                affected.insert(generation);
                break;
            }
        }
    }
    let collected = gc::remove(&config.index, &affected, config.dry_run)?;
    Ok(Purged { outcome, collected })
}
