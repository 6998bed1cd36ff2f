//! Metadata of documents changed, without their texts and vectors: written next to the shards, so that no shard is.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use dyad_corpus::{CorpusReader, ReadOptions};
use dyad_files::sync_dir;
use dyad_index::Snapshot;
use dyad_index::lexical::{NODES_FILE, StoredDocument, write_updates};
use dyad_index::manifest::Change;
use dyad_index::snapshot::Shard;
use rayon::prelude::*;

use super::outcome::{ChangeOutcome, MissingKeys};
use super::transaction::{Publication, Transaction};
use crate::control::{JobControl, Unit};
use crate::draft::{CompleteUpdates, Draft, DraftShard, ShardFiles};
use crate::error::Error;
use crate::job::{Workspace, file_entries, metadata_json};

/// Metadata for documents of an index.
#[derive(Debug, Clone)]
pub struct MetadataConfig {
    /// File of JSON lines with keys and metadata; `-` is standard input.
    pub corpus: PathBuf,
    /// How to read it.
    pub read: ReadOptions,
    /// The index's directory.
    pub index: PathBuf,
    /// Nothing is published; the outcome says what would be.
    pub dry_run: bool,
}

/// New metadata by key: one JSON object, or nothing.
pub(super) type Changed = HashMap<String, String>;

/// Replaces the metadata of documents, in one new generation. Texts and vectors stay, and nothing is embedded. Of
/// several records of one key, the last counts; keys that no document has are counted as rejected.
pub fn update_metadata(config: &MetadataConfig, control: JobControl<'_>) -> Result<ChangeOutcome, Error> {
    let transaction = Transaction::begin(&config.index, None, Publication::unless(config.dry_run))?;
    let read = ReadOptions {
        repeated_keys: true,
        metadata_only: true,
        ..config.read.clone()
    };
    let mut corpus = CorpusReader::open(&config.corpus, &read)?;
    let (mut changed, mut records) = (Changed::new(), 0);
    control.progress.begin("read", Unit::Bytes, corpus.total_bytes());
    for document in &mut corpus {
        control.check()?;
        let document = document?.value;
        records += 1;
        let json = metadata_json(&document).to_owned();
        changed.insert(document.key, json);
    }
    control.progress.finish();
    corpus
        .warnings()
        .iter()
        .for_each(|warning| control.progress.warn(warning));
    let mut change = Change {
        operation: "upsert --metadata-only".to_owned(),
        read: records + corpus.rejected(),
        superseded: records - changed.len() as u64,
        ..Change::default()
    };
    let mut missing = MissingKeys::default();
    let workspace = Workspace::create(&config.index)?;
    let outcome = transaction.publish(|_, base| {
        let found = locate(base, &changed)?;
        let (known, differ) = (found.known, found.nodes.iter().map(Vec::len).sum::<usize>() as u64);
        (change.indexed, change.unchanged) = (differ, known - differ);
        let unknown = changed.len() as u64 - known;
        change.rejected = corpus.rejected() + unknown;
        let mut keys: Vec<&str> = changed.keys().map(String::as_str).collect();
        keys.sort_unstable();
        missing = MissingKeys::find(unknown, MissingKeys::NAMED, keys, |key| Ok(base.find(key)?.is_none()))?;
        if differ == 0 {
            return Ok(None);
        }
        let mut shards: Vec<DraftShard> = base.manifest().shards.iter().map(DraftShard::kept).collect();
        if !config.dry_run {
            apply(base, &found.nodes, &mut shards, workspace.path(), control)?;
        }
        Ok(Some(Draft::after(base.manifest(), &change, shards)))
    })?;
    Ok(ChangeOutcome {
        change,
        missing,
        ..outcome
    })
}

/// Documents whose metadata are to change.
pub(super) struct MetadataChanges<'a> {
    /// By shard, ascending: node and new metadata.
    pub(super) nodes: Vec<Vec<(u32, &'a str)>>,
    /// Keys that a document has, changed or not.
    pub(super) known: u64,
}

/// Looks the documents up, and leaves out those that have these metadata.
pub(super) fn locate<'a>(base: &Snapshot, changed: &'a Changed) -> Result<MetadataChanges<'a>, Error> {
    let find =
        |(key, json): (&'a String, &'a String)| Ok(base.find(key)?.map(|(shard, node)| (shard, node, json.as_str())));
    let all: Vec<(usize, u32, &str)> = changed
        .par_iter()
        .map(find)
        .collect::<Result<Vec<_>, Error>>()?
        .into_iter()
        .flatten()
        .collect();
    let known = all.len() as u64;
    let mut nodes: Vec<Vec<(u32, &str)>> = vec![Vec::new(); base.shards().len()];
    for (shard, node, metadata) in all {
        if let Some(nodes) = nodes.get_mut(shard) {
            nodes.push((node, metadata));
        }
    }
    for (shard, nodes) in base.shards().iter().zip(&mut nodes) {
        // In order, so that each block of stored fields is unpacked once.
        nodes.sort_unstable();
        let differs = |(node, metadata): &(u32, &'a str)| -> Result<Option<(u32, &'a str)>, Error> {
            Ok((shard.document(*node)?.metadata_json != *metadata).then_some((*node, *metadata)))
        };
        *nodes = nodes
            .par_iter()
            .map(differs)
            .collect::<Result<Vec<_>, Error>>()?
            .into_iter()
            .flatten()
            .collect();
    }
    Ok(MetadataChanges { nodes, known })
}

/// Writes the changed metadata of every shard that has any, in addition to what was changed before, into directories of
/// a workspace.
pub(super) fn apply(
    base: &Snapshot,
    nodes: &[Vec<(u32, &str)>],
    shards: &mut [DraftShard],
    workspace: &Path,
    control: JobControl<'_>,
) -> Result<(), Error> {
    for ((entry, shard), nodes) in base.entries().zip(nodes) {
        let same = |draft: &&mut DraftShard| matches!(&draft.files, ShardFiles::Kept(kept) if kept.id == entry.id);
        let Some(draft) = shards.iter_mut().find(same).filter(|_| !nodes.is_empty()) else {
            continue;
        };
        control.check()?;
        draft.updates = Some(write(workspace, &documents(shard, nodes)?)?);
    }
    Ok(())
}

/// All documents of a shard with other metadata than it was built with.
fn documents(shard: &Shard, nodes: &[(u32, &str)]) -> Result<BTreeMap<u32, StoredDocument>, Error> {
    let mut documents = BTreeMap::new();
    if let Some(updates) = &shard.updates {
        for &node in updates.nodes().iter().filter(|node| shard.is_live(**node)) {
            documents.extend(updates.document(node)?.map(|document| (node, document)));
        }
    }
    let new = |(node, metadata): &(u32, &str)| -> Result<(u32, StoredDocument), Error> {
        let stored = shard.text.document(*node)?;
        let (text, metadata_json) = (String::new(), (*metadata).to_owned());
        Ok((
            *node,
            StoredDocument {
                text,
                metadata_json,
                ..stored
            },
        ))
    };
    documents.extend(nodes.par_iter().map(new).collect::<Result<Vec<_>, Error>>()?);
    Ok(documents)
}

/// Writes changed metadata into a new directory of a workspace. A change may be prepared several times, also for one
/// generation: a roll-back makes it current again.
pub(super) fn write(workspace: &Path, documents: &BTreeMap<u32, StoredDocument>) -> Result<CompleteUpdates, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let dir = workspace.join(format!("metadata-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    fs_err::create_dir(&dir)?;
    write_updates(&dir, documents.iter().map(|(node, document)| (*node, document)))?;
    sync_dir(&dir)?;
    let (documents, files) = (documents.len() as u64, file_entries(&dir, &[NODES_FILE])?);
    Ok(CompleteUpdates { dir, documents, files })
}
