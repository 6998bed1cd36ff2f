//! Metadata of documents changed, without their texts and vectors: written next to the shards, so that no shard is.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use dyad_corpus::{CorpusReader, ReadOptions};
use dyad_files::sync_dir;
use dyad_index::Snapshot;
use dyad_index::lexical::{NODES_FILE, StoredDocument, write_updates};
use dyad_index::manifest::Change;
use dyad_index::snapshot::Shard;
use rayon::prelude::*;
use xxhash_rust::xxh3::Xxh3;

use super::{Outcome, commit};
use crate::control::{JobControl, Unit};
use crate::error::Error;
use crate::job::{Workspace, file_entries, metadata_json};
use crate::publish::{CompleteUpdates, Draft, DraftShard, ShardFiles};

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

/// New metadata by key.
pub(super) type Changed = HashMap<String, NewMetadata>;

/// New metadata of a document.
#[derive(Debug)]
pub(super) struct NewMetadata {
    /// One JSON object, or nothing.
    pub(super) json: String,
    /// The [`text_hash`] that the document must have, where its text was compared.
    pub(super) text: Option<u128>,
}

/// 128 bits of xxh3 of a title and a text.
pub(super) fn text_hash(title: &str, text: &str) -> u128 {
    let mut hash = Xxh3::new();
    hash.update(&(title.len() as u64).to_le_bytes());
    hash.update(title.as_bytes());
    hash.update(text.as_bytes());
    hash.digest128()
}

/// Replaces the metadata of documents, in one new generation. Texts and vectors stay, and nothing is embedded. Of several records of one key, the
/// last counts; keys that no document has are counted as rejected.
pub fn update_metadata(config: &MetadataConfig, control: JobControl<'_>) -> Result<Outcome, Error> {
    let base = Snapshot::open(&config.index)?;
    let model = base.manifest().model.clone();
    let read = ReadOptions { repeated_keys: true, metadata_only: true, ..config.read.clone() };
    let mut corpus = CorpusReader::open(&config.corpus, &read)?;
    let (mut changed, mut records) = (Changed::new(), 0);
    control.progress.begin("read", Unit::Bytes, corpus.total_bytes());
    for document in &mut corpus {
        control.check()?;
        let document = document?.value;
        records += 1;
        let json = metadata_json(&document)?;
        changed.insert(document.key, NewMetadata { json, text: None });
    }
    control.progress.finish();
    corpus.warnings().iter().for_each(|warning| control.progress.warn(warning));
    let mut change = Change {
        operation: "upsert --metadata-only".to_owned(),
        read: records + corpus.rejected(),
        superseded: records - changed.len() as u64,
        ..Change::default()
    };
    let workspace = Workspace::create(&config.index)?;
    let outcome = commit(&config.index, config.dry_run, base, |base| {
        let found = locate(base, &changed)?;
        let (known, differ) = (found.known, found.nodes.iter().map(Vec::len).sum::<usize>() as u64);
        (change.indexed, change.unchanged) = (differ, known - differ);
        change.rejected = corpus.rejected() + changed.len() as u64 - known;
        if differ == 0 {
            return Ok(None);
        }
        let kept = |entry| DraftShard { files: ShardFiles::Kept(entry), deletions: None, updates: None };
        let mut shards: Vec<DraftShard<'_>> = base.manifest().shards.iter().cloned().map(kept).collect();
        if !config.dry_run {
            let dir = workspace.path().join(format!("metadata-{}", base.manifest().generation));
            apply(base, &found.nodes, &mut shards, &dir, control)?;
        }
        let manifest = base.manifest();
        let (parent, min_recall) = (Some(manifest.generation), manifest.min_recall);
        Ok(Some(Draft { parent, model: &model, min_recall, change: change.clone(), shards }))
    })?;
    Ok(Outcome { change, ..outcome })
}

/// Documents whose metadata are to change.
pub(super) struct Found<'a> {
    /// By shard, ascending: node and new metadata.
    pub(super) nodes: Vec<Vec<(u32, &'a str)>>,
    /// Keys that a document has, changed or not.
    pub(super) known: u64,
}

/// Looks the documents up, and leaves out those that have these metadata. An error where the text that was compared is no
/// longer there.
pub(super) fn locate<'a>(base: &Snapshot, changed: &'a Changed) -> Result<Found<'a>, Error> {
    let find = |(key, new): (&'a String, &'a NewMetadata)| {
        let found = base.find(key)?;
        if let Some(expected) = new.text {
            let stored = found.map(|(shard, node)| base.document(shard, node)).transpose()?;
            if stored.is_none_or(|stored| text_hash(&stored.title, &stored.text) != expected) {
                return Err(Error::Contended);
            }
        }
        Ok(found.map(|(shard, node)| (shard, node, new.json.as_str())))
    };
    let all: Vec<(usize, u32, &str)> =
        changed.par_iter().map(find).collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect();
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
        *nodes = nodes.par_iter().map(differs).collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect();
    }
    Ok(Found { nodes, known })
}

/// Writes the changed metadata of every shard that has any, in addition to what was changed before, into directories under `dir`.
pub(super) fn apply(
    base: &Snapshot,
    nodes: &[Vec<(u32, &str)>],
    shards: &mut [DraftShard<'_>],
    dir: &Path,
    control: JobControl<'_>,
) -> Result<(), Error> {
    for (at, ((entry, shard), nodes)) in super::shards(base).zip(nodes).enumerate() {
        let same = |draft: &&mut DraftShard<'_>| matches!(&draft.files, ShardFiles::Kept(kept) if kept.id == entry.id);
        let Some(draft) = shards.iter_mut().find(same).filter(|_| !nodes.is_empty()) else { continue };
        control.check()?;
        fs_err::create_dir_all(dir)?;
        draft.updates = Some(write(&dir.join(at.to_string()), &documents(shard, nodes)?)?);
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
        Ok((*node, StoredDocument { text, metadata_json, ..stored }))
    };
    documents.extend(nodes.par_iter().map(new).collect::<Result<Vec<_>, Error>>()?);
    Ok(documents)
}

/// Writes changed metadata into a new directory.
pub(super) fn write(dir: &Path, documents: &BTreeMap<u32, StoredDocument>) -> Result<CompleteUpdates, Error> {
    fs_err::create_dir(dir)?;
    write_updates(dir, documents.iter().map(|(node, document)| (*node, document)))?;
    sync_dir(dir)?;
    let (documents, files) = (documents.len() as u64, file_entries(dir, &[NODES_FILE])?);
    Ok(CompleteUpdates { dir: dir.to_owned(), documents, files })
}
