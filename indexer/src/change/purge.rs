//! Removes documents from every generation, so that no rollback brings them back: the shards that hold them are written
//! again without them, and the generations that name the old ones are removed.
//!
//! Others may roll back, or publish, at any moment of that. A purge has ended when it has looked into every generation
//! that is left, and has found none of the documents.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use dyad_index::manifest::{self, Change, Manifest, SHARDS_DIR};
use dyad_index::shard::{DENSE_FILE, DenseShard};

use super::merge_config::MergeConfig;
use super::outcome::{ChangeOutcome, MissingKeys};
use super::passages::passages_of;
use super::purged_texts::PurgedTexts;
use super::rewrite::RewriteJob;
use super::transaction::{Publication, Transaction};
use crate::control::JobControl;
use crate::error::Error;
use crate::gc::{self, CollectedGenerations};

/// Times that the documents are removed, where other jobs bring them back, before a purge gives up.
const ROUNDS: usize = 5;
/// Between two looks whether they still do.
const READERS_PAUSE: Duration = Duration::from_millis(100);

/// What a purge did, or would do.
#[derive(Debug, Clone)]
pub struct Purged {
    /// The current generation without the documents.
    pub outcome: ChangeOutcome,
    /// The generations that were removed, or could not be because a process of this machine reads them.
    pub collected: CollectedGenerations,
    /// The generations that were published, ascending: more than one where other jobs brought documents back meanwhile.
    pub published: Vec<Manifest>,
}

/// What is purged, and how.
#[derive(Debug, Clone)]
pub struct PurgeConfig {
    /// How the shards that hold the documents are written again; `all` says nothing here.
    pub rewrite: MergeConfig,
    /// The keys are of documents that were split: all of their passages in any generation are purged.
    pub passages: bool,
    /// How long to wait for programs of this machine that read a generation with the documents. A searcher that watches
    /// its index opens the next one within half a second.
    pub wait: Duration,
}

/// Removes the documents with these keys from the index, live, deleted and of earlier generations. Keys that no
/// generation holds are counted as rejected.
///
/// [`Error::PurgeUndone`] where other jobs bring the documents back again and again.
pub fn purge(config: &PurgeConfig, keys: &[String], control: JobControl<'_>) -> Result<Purged, Error> {
    let index = &config.rewrite.index;
    let mut sum: Option<Purged> = None;
    for _ in 0..ROUNDS {
        control.check()?;
        let all = keys_of(config, keys)?;
        let distinct: BTreeSet<&str> = all.iter().map(String::as_str).collect();
        let round = match purge_once(config, all.len(), &distinct, control) {
            // Another job has changed the shards that were written again.
            Err(Error::Contended) => continue,
            other => other?,
        };
        let purged = match sum.take() {
            Some(sum) => sum.followed_by(round),
            None => round,
        };
        let all = keys_of(config, keys)?;
        let distinct = all.iter().map(String::as_str).collect();
        if config.rewrite.dry_run || left(index, &distinct, &purged.collected.in_use)?.is_empty() {
            return Ok(purged);
        }
        sum = Some(purged);
    }
    Err(if sum.is_some() {
        Error::PurgeUndone
    } else {
        Error::Contended
    })
}

/// The keys to purge, passages that the index holds by now included.
fn keys_of<'k>(config: &PurgeConfig, keys: &'k [String]) -> Result<Cow<'k, [String]>, Error> {
    if config.passages {
        return Ok(Cow::Owned(passages_of(&config.rewrite.index, keys, true)?));
    }
    Ok(Cow::Borrowed(keys))
}

impl Purged {
    /// Both rounds as one: the first one says what there was to purge.
    fn followed_by(self, next: Self) -> Self {
        let outcome = ChangeOutcome {
            manifest: next.outcome.manifest.or(self.outcome.manifest),
            documents_after: next.outcome.documents_after,
            ..self.outcome
        };
        let mut removed = self.collected.removed;
        removed.extend(next.collected.removed);
        let bytes = self.collected.bytes + next.collected.bytes;
        let published = self.published.into_iter().chain(next.published).collect();
        Self {
            outcome,
            collected: CollectedGenerations {
                removed,
                bytes,
                ..next.collected
            },
            published,
        }
    }
}

/// Writes the shards of the current generation that hold the documents again, and removes all other generations that
/// do.
fn purge_once(
    config: &PurgeConfig,
    read: usize,
    keys: &BTreeSet<&str>,
    control: JobControl<'_>,
) -> Result<Purged, Error> {
    let (index, dry_run) = (&config.rewrite.index, config.rewrite.dry_run);
    let transaction = Transaction::begin(index, None, Publication::unless(dry_run))?;
    let base = transaction.base();
    let mut groups = Vec::new();
    let purged = PurgedTexts::find(base, keys)?;
    for (at, shard) in base.shards().iter().enumerate() {
        if holds_any(&shard.dense, keys)? || purged.are_in(shard)? {
            groups.push(vec![at]);
        }
    }
    let held = held(index, keys)?;
    let mut live = 0;
    for key in keys {
        if base.find(key)?.is_some() {
            live += 1;
        }
    }
    let change = Change {
        operation: "purge".to_owned(),
        read: read as u64,
        indexed: held.len() as u64,
        deleted: live,
        superseded: (read - keys.len()) as u64,
        rejected: (keys.len() - held.len()) as u64,
        ..Change::default()
    };
    let missing = MissingKeys::find(change.rejected, MissingKeys::NAMED, keys.iter().copied(), |key| {
        Ok(!held.contains(key))
    })?;
    let job = RewriteJob {
        config: &config.rewrite,
        groups: &groups,
        without: keys,
        control,
    };
    let mut outcome = job.publish(transaction, change)?;
    outcome.missing = missing;
    if dry_run {
        outcome.documents_after -= live;
    }
    let current = manifest::current(index)?.generation;
    // A dry run publishes nothing: the generation that would no longer be the current one would be removed too.
    let is_replaced = dry_run && !groups.is_empty();
    let affected = holding(index, keys, |generation| generation != current || is_replaced)?;
    let collected = remove_when_unread(config, &affected, control)?;
    let published = outcome.manifest.iter().cloned().collect();
    Ok(Purged {
        outcome,
        collected,
        published,
    })
}

/// Removes generations, and waits a while for programs that read one of them.
fn remove_when_unread(
    config: &PurgeConfig,
    affected: &BTreeSet<u64>,
    control: JobControl<'_>,
) -> Result<CollectedGenerations, Error> {
    let MergeConfig { index, dry_run, .. } = &config.rewrite;
    let until = Instant::now() + config.wait;
    let mut collected = gc::remove_generations(index, affected, *dry_run)?;
    while !dry_run && !collected.in_use.is_empty() && Instant::now() < until {
        control.check()?;
        std::thread::sleep(READERS_PAUSE);
        let more = gc::remove_generations(index, affected, false)?;
        collected.removed.extend(more.removed);
        collected.bytes += more.bytes;
        collected.in_use = more.in_use;
        collected.kept = more.kept;
    }
    Ok(collected)
}

/// The generations that still hold a document, but for those that could not be removed.
fn left(index: &Path, keys: &BTreeSet<&str>, in_use: &[u64]) -> Result<BTreeSet<u64>, Error> {
    holding(index, keys, |generation| !in_use.contains(&generation))
}

/// The generations, of those asked for, in which a shard holds one of the documents, live or deleted. One that is not
/// current and of which the manifest or a shard is damaged counts too: what it holds cannot be told, and a copy of it
/// would bring the documents back.
fn holding(index: &Path, keys: &BTreeSet<&str>, is_asked_for: impl Fn(u64) -> bool) -> Result<BTreeSet<u64>, Error> {
    let mut found = BTreeSet::new();
    let current = manifest::current(index)?.generation;
    for generation in manifest::generations(index)?
        .into_iter()
        .filter(|generation| is_asked_for(*generation))
    {
        let holds = match manifest::load(index, generation) {
            Ok(manifest) => match manifest_holds(index, &manifest, keys) {
                Err(error) if generation != current && is_damage(&error) => true,
                holds => holds?,
            },
            Err(dyad_index::Error::Format { .. }) => true,
            // Another job has removed it meanwhile.
            Err(dyad_index::Error::NoGeneration { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        if holds {
            found.insert(generation);
        }
    }
    Ok(found)
}

fn manifest_holds(index: &Path, manifest: &Manifest, keys: &BTreeSet<&str>) -> Result<bool, Error> {
    for entry in &manifest.shards {
        if let Some(shard) = open_shard(index, &entry.id)?
            && holds_any(&shard, keys)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// None where another job has removed the shard since its manifest was read: then it holds nothing any more.
fn open_shard(index: &Path, id: &str) -> Result<Option<DenseShard>, Error> {
    let path = index.join(SHARDS_DIR).join(id).join(DENSE_FILE);
    match DenseShard::open(&path) {
        Err(_) if !path.exists() => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

/// Whether a file has not the form that it must have.
pub(super) fn is_damage(error: &Error) -> bool {
    matches!(error, Error::Index(dyad_index::Error::Format { .. }))
}

/// Whether a shard holds one of the documents, live or deleted.
fn holds_any(shard: &DenseShard, keys: &BTreeSet<&str>) -> Result<bool, Error> {
    for key in keys {
        if shard.find(key)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Those of the keys that a shard of any generation holds, live or deleted.
fn held<'a>(index: &Path, keys: &BTreeSet<&'a str>) -> Result<BTreeSet<&'a str>, Error> {
    let mut held = BTreeSet::new();
    for id in gc::shards_of_all_generations(index)? {
        let shard = match open_shard(index, &id) {
            // Its generation goes.
            Err(error) if is_damage(&error) => continue,
            opened => opened?,
        };
        let Some(shard) = shard else { continue };
        for key in keys {
            if shard.find(key)?.is_some() {
                held.insert(*key);
            }
        }
    }
    Ok(held)
}
