//! New shards in the place of those of which they hold the documents, in whichever generation is current by then.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dyad_index::Snapshot;
use dyad_index::lexical::StoredDocument;
use dyad_index::manifest::MetadataEntry;
use dyad_index::snapshot::Shard;

use super::deletions::delete_nodes;
use super::difference::{live_nodes, shard_named};
use super::metadata::write;
use crate::control::JobControl;
use crate::draft::{CompleteShard, CompleteUpdates, DraftShard};
use crate::error::Error;

/// A new shard, and where its documents come from.
pub(super) struct Rewritten {
    /// None where no document is left.
    pub(super) built: Option<Arc<CompleteShard>>,
    /// The shards that it replaces, in the order of its nodes.
    pub(super) sources: Vec<RewrittenSource>,
}

/// A shard of which another one holds the live documents.
pub(super) struct RewrittenSource {
    /// Name of the shard.
    pub(super) id: String,
    /// Its nodes that the new shard holds, ascending; there they follow one another.
    pub(super) nodes: Vec<u32>,
    /// Its changed metadata as they were read.
    pub(super) metadata: Option<MetadataEntry>,
    /// The nodes of which these are.
    pub(super) updated: Vec<u32>,
}

/// The shards of a generation, with the new ones in the place of the first that each replaces. What others have deleted
/// since the shards were read is deleted in the new ones, and what metadata they have changed is changed there.
pub(super) fn replaced(
    base: &Snapshot,
    rewritten: &[Rewritten],
    without: &BTreeSet<&str>,
    control: JobControl<'_>,
) -> Result<Vec<DraftShard>, Error> {
    let mut shards = Vec::with_capacity(base.shards().len());
    let mut placed = BTreeSet::new();
    for (entry, shard) in base.entries() {
        let source_of = |one: &Rewritten| one.sources.iter().position(|source| source.id == entry.id);
        let Some((number, source)) = rewritten
            .iter()
            .enumerate()
            .find_map(|(number, one)| Some((number, source_of(one)?)))
        else {
            shards.push(DraftShard::kept(entry));
            continue;
        };
        let Some(one) = rewritten.get(number) else { continue };
        if let Some(source) = one.sources.get(source) {
            refuse_unread(shard, source, without)?;
        }
        if placed.insert(number) {
            shards.extend(rebased(base, one, control)?);
        }
    }
    if placed.len() < rewritten.len() {
        // Another merge was faster, the index was built again, or rolled back.
        return Err(Error::Contended);
    }
    Ok(shards)
}

/// Refuses a shard that was rewritten and has live documents that were not read: they were deleted then, and a rollback
/// has brought them back.
fn refuse_unread(shard: &Shard, source: &RewrittenSource, without: &BTreeSet<&str>) -> Result<(), Error> {
    let mut read = source.nodes.iter().copied().peekable();
    for node in live_nodes(shard) {
        while read.next_if(|read| *read < node).is_some() {}
        if read.peek() != Some(&node) && !without.contains(shard.dense.keys().key(node)) {
            return Err(Error::Contended);
        }
    }
    Ok(())
}

/// A new shard as a generation has the documents of its sources by now; none where nothing is left of it. Of a source
/// that the generation does not name, no document is: others have replaced or moved each.
fn rebased(base: &Snapshot, one: &Rewritten, control: JobControl<'_>) -> Result<Option<DraftShard>, Error> {
    let Some(built) = &one.built else { return Ok(None) };
    let mut deleted = Vec::new();
    let mut new_node = 0;
    for source in &one.sources {
        let shard = shard_named(base, &source.id).map(|(_, shard)| shard);
        for node in &source.nodes {
            if shard.is_none_or(|shard| !shard.is_live(*node)) {
                deleted.push(new_node);
            }
            new_node += 1;
        }
    }
    if deleted.len() == new_node as usize {
        return Ok(None);
    }
    let (written, kept) = (Shard::open_dir(&built.dir)?, base.manifest().min_recall);
    let deletions = if deleted.is_empty() {
        None
    } else {
        Some(delete_nodes("merged", &written, &deleted, kept, control)?)
    };
    let updates = changed_since(base, one, built, &written)?;
    Ok(Some(DraftShard {
        deletions,
        updates,
        ..DraftShard::built(built)
    }))
}

/// Metadata that others have changed, or a rollback has changed back, since a shard was built.
fn changed_since(
    base: &Snapshot,
    one: &Rewritten,
    built: &CompleteShard,
    written: &Shard,
) -> Result<Option<CompleteUpdates>, Error> {
    let mut documents = BTreeMap::new();
    let mut first = 0;
    for source in &one.sources {
        let current = shard_named(base, &source.id).filter(|(entry, _)| entry.metadata != source.metadata);
        if let Some((_, shard)) = current {
            let updated = shard.updates.iter().flat_map(|updates| updates.nodes());
            let updated: BTreeSet<u32> = updated.chain(&source.updated).copied().collect();
            for node in updated.into_iter().filter(|node| shard.is_live(*node)) {
                let Ok(at) = source.nodes.binary_search(&node) else {
                    continue;
                };
                let new_node = first + at as u32;
                let document = shard.document(node)?;
                if written.document(new_node)?.metadata_json != document.metadata_json {
                    documents.insert(
                        new_node,
                        StoredDocument {
                            text: String::new(),
                            ..document
                        },
                    );
                }
            }
        }
        first += source.nodes.len() as u32;
    }
    if documents.is_empty() {
        return Ok(None);
    }
    // The new shard lies in the job's workspace.
    write(built.dir.parent().unwrap_or(&built.dir), &documents).map(Some)
}
