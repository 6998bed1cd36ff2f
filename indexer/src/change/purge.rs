//! Removes documents from every generation, so that no rollback brings them back: the shards that hold them are written again
//! without them, and the generations that name the old ones are removed.

use std::collections::BTreeSet;
use std::path::Path;

use dyad_index::Snapshot;
use dyad_index::manifest::{self, Change, SHARDS_DIR};
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

/// Removes the documents with these keys from the index, live, deleted and of earlier generations. Keys that no generation holds
/// are counted as rejected.
pub fn purge(config: &MergeConfig, keys: &[String], control: JobControl<'_>) -> Result<Purged, Error> {
    let base = Snapshot::open(&config.index)?;
    let read = keys.len() as u64;
    let keys: BTreeSet<&str> = keys.iter().map(String::as_str).collect();
    let holds = |shard: &DenseShard| -> Result<bool, Error> {
        keys.iter().try_fold(false, |found, key| Ok(found || shard.find(key)?.is_some()))
    };
    let mut groups = Vec::new();
    for (at, shard) in base.shards().iter().enumerate() {
        if holds(&shard.dense)? {
            groups.push(vec![at]);
        }
    }
    let held = held(&config.index, &keys)?;
    let mut live = 0;
    for key in &keys {
        if base.find(key)?.is_some() {
            live += 1;
        }
    }
    let change = Change {
        operation: "purge".to_owned(),
        read,
        indexed: held.len() as u64,
        deleted: live,
        superseded: read - keys.len() as u64,
        rejected: (keys.len() - held.len()) as u64,
        ..Change::default()
    };
    let mut outcome = rewrite(config, base, &groups, &keys, change, control)?;
    if config.dry_run {
        outcome.documents_after -= live;
    }
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

/// Those of the keys that a shard of any generation holds, live or deleted.
fn held<'a>(index: &Path, keys: &BTreeSet<&'a str>) -> Result<BTreeSet<&'a str>, Error> {
    let mut shards = BTreeSet::new();
    for generation in manifest::generations(index)? {
        shards.extend(manifest::load(index, generation)?.shards.into_iter().map(|entry| entry.id));
    }
    let mut held = BTreeSet::new();
    for id in shards {
        let shard = DenseShard::open(&index.join(SHARDS_DIR).join(id).join(DENSE_FILE))?;
        for key in keys {
            if shard.find(key)?.is_some() {
                held.insert(*key);
            }
        }
    }
    Ok(held)
}
