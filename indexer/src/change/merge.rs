//! Merges shards: live documents and their vectors into new shards, with graphs and certificates of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dyad_files::crc32c_of_file_until;
use dyad_files::space::{FreeSpace, check_space};
use dyad_index::Snapshot;
use dyad_index::lexical::TextDocument;
use dyad_index::manifest::{Change, METADATA_DIR, MetadataEntry, SHARDS_DIR, ShardEntry};
use dyad_index::search::VectorRows;
use dyad_index::snapshot::Shard;

use super::deletions::delete_nodes;
use super::metadata::write;
use super::upsert::{build_like, held_out};
use super::{Outcome, commit};
use crate::control::{JobControl, Unit};
use crate::error::Error;
use crate::graph_build::{BuildParams, InitialGraph, RecallGate, RecallTarget};
use crate::job::{ShardBuilder, Spool, Workspace, shard_label, thread_pool};
use crate::plan::Plan;
use crate::publish::{CompleteShard, CompleteUpdates, Draft, DraftShard, ShardFiles};

/// Share of deleted documents above which a shard is merged.
const DELETED_SHARE: f64 = 0.1;
/// What to do about a damaged file.
const DAMAGED: &str =
    "The file is damaged: write an intact copy under another name and `mv` it there, or build the index again";
/// A tier's factor in documents.
const TIER: u64 = 8;
/// Shards of the largest tier above which they are merged.
const LARGE_SHARDS: usize = 8;
/// The same for all smaller tiers: a small shard takes about a third as long to search as a large one, and little to merge.
const SMALL_SHARDS: usize = 2;

/// Which shards are merged, and how.
#[derive(Debug, Clone)]
pub struct MergeConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// Merges all shards, and not only those that [`mergeable`] names.
    pub all: bool,
    /// Builds every graph from nothing, and not from that of the largest shard merged.
    pub rebuild: bool,
    /// Most documents of a new shard.
    pub max_documents: u64,
    /// Threads of the graphs' build.
    pub threads: usize,
    /// Most bytes of memory; then new shards are no larger than it allows.
    pub memory: Option<u64>,
    /// Nothing is merged; the outcome says what would be.
    pub dry_run: bool,
    /// Returns the free space of the index's disk.
    pub free_space: FreeSpace,
}

/// Positions of shards that are to become one, in groups: shards of which more than a tenth is deleted; shards of one tier (a
/// tier is a factor of eight in live documents, from the largest shard down) of which there are more than eight in the first
/// tier, or more than two in another; and those an eighth as large as one of these, or smaller, since they add little to the
/// work. With `all`, every shard. No group has more than `max_documents` live documents, except a single shard that has.
pub fn mergeable(shards: &[ShardEntry], max_documents: u64, all: bool) -> Vec<Vec<usize>> {
    let largest = shards.iter().map(ShardEntry::live).max().unwrap_or_default().max(1);
    let tier = |entry: &ShardEntry| (largest / entry.live().max(1)).max(1).ilog(TIER);
    let mut tiers: BTreeMap<u32, usize> = BTreeMap::new();
    for entry in shards {
        *tiers.entry(tier(entry)).or_default() += 1;
    }
    let deleted = |entry: &ShardEntry| entry.documents - entry.live();
    let wanted = |entry: &ShardEntry| {
        all || deleted(entry) as f64 > DELETED_SHARE * entry.documents as f64
            || tiers
                .get(&tier(entry))
                .is_some_and(|shards| *shards > if tier(entry) == 0 { LARGE_SHARDS } else { SMALL_SHARDS })
    };
    let largest = shards.iter().filter(|entry| wanted(entry)).map(ShardEntry::live).max();
    let joins = |entry: &ShardEntry| wanted(entry) || largest.is_some_and(|largest| entry.live() <= largest / TIER);
    let mut chosen: Vec<usize> =
        shards.iter().enumerate().filter(|(_, entry)| joins(entry)).map(|(at, _)| at).collect();
    let live = |at: &usize| shards.get(*at).map_or(0, ShardEntry::live);
    chosen.sort_by_key(|at| (live(at), *at));
    let mut groups: Vec<(u64, Vec<usize>)> = Vec::new();
    for at in chosen {
        match groups.last_mut() {
            Some((sum, group)) if *sum + live(&at) <= max_documents => {
                *sum += live(&at);
                group.push(at);
            }
            _ => groups.push((live(&at), vec![at])),
        }
    }
    // A single shard with neither deletions nor changed metadata would be copied.
    let useful = |group: &Vec<usize>| {
        group.len() > 1
            || group.iter().any(|at| {
                shards.get(*at).is_some_and(|entry| wanted(entry) && (deleted(entry) > 0 || entry.metadata.is_some()))
            })
    };
    groups
        .into_iter()
        .map(|(_, mut group)| {
            group.sort_unstable();
            group
        })
        .filter(useful)
        .collect()
}

/// Merges the shards that need it, in one new generation. Documents that others delete meanwhile are deleted in the new
/// shards too.
pub fn merge(config: &MergeConfig, control: JobControl<'_>) -> Result<Outcome, Error> {
    let base = Snapshot::open(&config.index)?;
    let max_documents = match config.memory {
        Some(memory) => {
            // The smallest merge that there can be.
            let mut live: Vec<u64> = base.manifest().shards.iter().map(ShardEntry::live).collect();
            live.sort_unstable();
            let least = live.iter().take(2).fold(0, |sum: u64, live| sum.saturating_add(*live));
            group_plan(&base, config, least).within(memory, 1)?;
            let most = group_plan(&base, config, 0).documents_within(memory, u64::from(u32::MAX));
            config.max_documents.min(most)
        }
        None => config.max_documents,
    };
    let groups = mergeable(&base.manifest().shards, max_documents, config.all);
    let entries = groups.iter().flatten().filter_map(|at| base.manifest().shards.get(*at));
    let read = entries.map(ShardEntry::live).sum();
    let change = Change { operation: "merge".to_owned(), read, indexed: read, ..Change::default() };
    rewrite(config, base, &groups, &BTreeSet::new(), change, control)
}

/// A new shard, and where its documents come from.
struct Rewritten {
    /// None where no document is left.
    built: Option<CompleteShard>,
    /// Source shard and node of each node.
    sources: Vec<(String, u32)>,
    /// Source shards.
    replaced: Vec<String>,
    /// Changed metadata of the source shards, as they were read.
    metadata: BTreeMap<String, Option<MetadataEntry>>,
}

/// Writes each group of shards again as one shard, without deleted documents and without those with the keys `without`.
pub(super) fn rewrite(
    config: &MergeConfig,
    base: Snapshot,
    groups: &[Vec<usize>],
    without: &BTreeSet<&str>,
    change: Change,
    control: JobControl<'_>,
) -> Result<Outcome, Error> {
    let model = base.manifest().model.clone();
    let mut rewritten = Vec::with_capacity(groups.len());
    let workspace = if config.dry_run { None } else { Some(Workspace::create(&config.index)?) };
    let threads = thread_pool(config.threads)?;
    if let Some(workspace) = &workspace {
        for entry in groups.iter().flatten().filter_map(|at| base.manifest().shards.get(*at)) {
            check_sums(&config.index, entry, control)?;
        }
        for number in 0..groups.len() {
            let work = || rewrite_group(config, &base, (groups, number), without, workspace.path(), control);
            rewritten.push(threads.install(work)?);
        }
    }
    let prepare = |base: &Snapshot| {
        if groups.is_empty() {
            return Ok(None);
        }
        let shards = threads.install(|| replaced(base, &rewritten, control))?;
        let manifest = base.manifest();
        let (parent, min_recall) = (Some(manifest.generation), manifest.min_recall);
        Ok(Some(Draft { parent, model: &model, min_recall, change: change.clone(), shards }))
    };
    let outcome = commit(&config.index, config.dry_run, base, prepare)?;
    Ok(Outcome { change, ..outcome })
}

/// What a new shard of `live` documents takes.
fn group_plan(base: &Snapshot, config: &MergeConfig, live: u64) -> Plan {
    let (builder, params, row_type) = build_like(base, config.threads);
    let dim = base.manifest().model.dim;
    let (documents, text_bytes, terms, questions) = (Some(live), None, None, 0);
    Plan { documents, dim, shards: 1, text_bytes, terms, params, builder, row_type, questions }
}

fn rewrite_group(
    config: &MergeConfig,
    base: &Snapshot,
    (groups, number): (&[Vec<usize>], usize),
    without: &BTreeSet<&str>,
    workspace: &Path,
    control: JobControl<'_>,
) -> Result<Rewritten, Error> {
    let label = &shard_label(number, groups.len());
    let group = groups.get(number).map(Vec::as_slice).unwrap_or_default();
    let (builder, params, row_type) = build_like(base, config.threads);
    let model = &base.manifest().model;
    let mut members: Vec<(&ShardEntry, &Shard)> = group.iter().filter_map(|at| super::shards(base).nth(*at)).collect();
    let replaced = members.iter().map(|(entry, _)| entry.id.clone()).collect();
    // Its documents are the first, so that the build can start from its graph.
    members.sort_by_key(|(entry, _)| std::cmp::Reverse(entry.live()));
    let live: u64 = members.iter().map(|(entry, _)| entry.live()).sum();
    let plan = group_plan(base, config, live);
    check_space(&config.index, plan.disk_bytes(live), config.free_space)?;
    let plan = config.memory.map_or(Ok(plan), |memory| plan.within(memory, 1))?;
    let mut spool = Spool::create(workspace, number, plan.terms_of_a_shard())?;
    let mut sources = Vec::new();
    let mut row = Vec::new();
    control.progress.begin(format!("read {label}").trim_end(), Unit::Documents, Some(live));
    for (entry, shard) in &members {
        let rows = shard.dense.rows();
        for node in (0..shard.dense.len() as u32).filter(|node| shard.is_live(*node)) {
            control.check()?;
            let document = shard.document(node)?;
            control.progress.advance(1);
            if without.contains(document.key.as_str()) {
                continue;
            }
            rows.decode(node, &mut row);
            spool.add_stored(
                TextDocument {
                    key: &document.key,
                    title: &document.title,
                    text: &document.text,
                    metadata_json: &document.metadata_json,
                },
                &row,
            )?;
            sources.push((entry.id.clone(), node));
        }
        // The graph's memory is needed next; the vectors are in the spool.
        shard.dense.evict_vectors();
    }
    control.progress.finish();
    let metadata = members.iter().map(|(entry, _)| (entry.id.clone(), entry.metadata.clone())).collect();
    if sources.is_empty() {
        return Ok(Rewritten { built: None, sources, replaced, metadata });
    }
    let target = base.manifest().min_recall.map(RecallTarget::from);
    let questions = held_out(members.iter().map(|(_, shard)| *shard))?;
    let questions = questions.as_ref().map(|questions| questions as &dyn VectorRows);
    let gate = RecallGate { questions, target };
    let largest = members.first().filter(|_| !config.rebuild && builder.get().takes_initial());
    let initial = largest.and_then(|(entry, shard)| initial_graph(&entry.id, shard, &sources, &params));
    let shard = ShardBuilder { model, builder: builder.get(), params: &params, row_type, gate, control };
    let built = Some(shard.build(spool.close()?, initial.as_ref(), label)?);
    Ok(Rewritten { built, sources, replaced, metadata })
}

/// Refuses a damaged shard: its faults would be copied under new checksums.
fn check_sums(index: &Path, entry: &ShardEntry, control: JobControl<'_>) -> Result<(), Error> {
    let shard = (index.join(SHARDS_DIR).join(&entry.id), &entry.files);
    let updates = entry.metadata.as_ref().map(|entry| (index.join(METADATA_DIR).join(&entry.id), &entry.files));
    for (dir, files) in std::iter::once(shard).chain(updates) {
        for file in files {
            let path = dir.join(&file.path);
            let Some((_, crc32c)) = crc32c_of_file_until(&path, Some(&|| control.cancel.is_cancelled()))? else {
                return Err(Error::Cancelled);
            };
            if crc32c != file.crc32c {
                let (expected, got) = (format!("{:08x}", file.crc32c), format!("{crc32c:08x}"));
                return Err(dyad_index::Error::Format {
                    path,
                    part: "checksum".to_owned(),
                    expected,
                    got,
                    hint: DAMAGED,
                }
                .into());
            }
        }
    }
    Ok(())
}

/// The graph of the first of the `sources`' shards, where the build starts from it.
fn initial_graph<'a>(
    id: &str,
    shard: &'a Shard,
    sources: &[(String, u32)],
    params: &BuildParams,
) -> Option<InitialGraph<'a>> {
    let kept: Vec<u32> = sources.iter().take_while(|(source, _)| source == id).map(|(_, node)| *node).collect();
    let suits = InitialGraph::suits(kept.len(), shard.dense.len(), sources.len());
    let starts = suits && params.agree_with(&shard.dense.meta().build);
    starts.then(|| InitialGraph::new(shard.dense.graph(), &kept)).flatten()
}

/// Metadata that others have changed while a shard was built.
fn changed_since(base: &Snapshot, one: &Rewritten, built: &CompleteShard) -> Result<Option<CompleteUpdates>, Error> {
    let changed: BTreeMap<&str, &Shard> = super::shards(base)
        .filter(|(entry, _)| one.metadata.get(&entry.id).is_some_and(|then| *then != entry.metadata))
        .map(|(entry, shard)| (entry.id.as_str(), shard))
        .collect();
    let mut documents = BTreeMap::new();
    for (node, (id, source)) in (0..).zip(&one.sources) {
        let updates = changed.get(id.as_str()).and_then(|shard| shard.updates.as_ref());
        if let Some(document) = updates.map(|updates| updates.document(*source)).transpose()?.flatten() {
            documents.insert(node, document);
        }
    }
    if documents.is_empty() {
        return Ok(None);
    }
    // One for each generation that becomes current before this one is published.
    write(&built.dir.with_extension(format!("metadata-{}", base.manifest().generation)), &documents).map(Some)
}

/// The shards of a generation, with the new ones in the place of the first that each replaces.
fn replaced<'a>(
    base: &Snapshot,
    rewritten: &'a [Rewritten],
    control: JobControl<'_>,
) -> Result<Vec<DraftShard<'a>>, Error> {
    let by_id: BTreeMap<&str, &Shard> = super::shards(base).map(|(entry, shard)| (entry.id.as_str(), shard)).collect();
    let mut shards = Vec::with_capacity(by_id.len());
    for one in rewritten {
        if one.replaced.iter().any(|id| !by_id.contains_key(id.as_str())) {
            // Another merge was faster, or the index was built again.
            return Err(Error::Contended);
        }
    }
    for (entry, _) in super::shards(base) {
        let Some(one) = rewritten.iter().find(|one| one.replaced.contains(&entry.id)) else {
            shards.push(DraftShard { files: ShardFiles::Kept(entry.clone()), deletions: None, updates: None });
            continue;
        };
        let Some(built) = one.built.as_ref().filter(|_| one.replaced.first() == Some(&entry.id)) else { continue };
        let is_deleted = |(_, source): &(u32, &(String, u32))| {
            by_id.get(source.0.as_str()).is_none_or(|shard| !shard.is_live(source.1))
        };
        let deleted: Vec<u32> = (0..).zip(&one.sources).filter(is_deleted).map(|(node, _)| node).collect();
        let deletions = match deleted.len() {
            0 => None,
            all if all == one.sources.len() => continue,
            // They were deleted while the shard was built.
            _ => {
                let (shard, kept) = (Shard::open_dir(&built.dir)?, base.manifest().min_recall);
                Some(delete_nodes("merged", &shard, &deleted, kept, control)?)
            }
        };
        let updates = changed_since(base, one, built)?;
        shards.push(DraftShard { files: ShardFiles::Built(built), deletions, updates });
    }
    Ok(shards)
}

#[cfg(test)]
mod tests {
    use dyad_index::manifest::{DeletedEntry, FileEntry};

    use super::*;

    fn entry(documents: u64, deleted: u64) -> ShardEntry {
        let file = FileEntry { path: "d".into(), bytes: 0, crc32c: 0 };
        let gone = (deleted > 0).then_some(DeletedEntry { documents: deleted, file });
        ShardEntry { id: String::new(), documents, files: Vec::new(), deleted: gone, metadata: None }
    }

    #[test]
    fn shards_with_many_deletions_and_many_of_one_size_are_merged() {
        let none: [Vec<usize>; 0] = [];
        assert_eq!(mergeable(&[entry(1000, 0), entry(100, 10), entry(12, 0)], 10_000, false), none);
        assert_eq!(mergeable(&[entry(1000, 0), entry(100, 11), entry(11, 0)], 10_000, false), [[1, 2]]);
        assert_eq!(mergeable(&[entry(100, 0), entry(100, 11)], 10_000, false), [[1]], "not one of about its size");
        assert_eq!(mergeable(&[entry(100, 11), entry(9, 0)], 89, false), [[0]], "there is no room for the other");
        let mut shards: Vec<ShardEntry> = (0..8).map(|_| entry(60, 0)).collect();
        assert_eq!(mergeable(&shards, 100_000, false), none, "eight of one size");
        shards.push(entry(50, 0));
        assert_eq!(mergeable(&shards, 100_000, false), [[0, 1, 2, 3, 4, 5, 6, 7, 8]]);
        let mut shards = vec![entry(40_000, 0), entry(60, 0), entry(60, 0), entry(2, 0)];
        assert_eq!(mergeable(&shards, 100_000, false), none, "two of each smaller size");
        shards.push(entry(50, 0));
        assert_eq!(mergeable(&shards, 100_000, false), [[1, 2, 3, 4]]);
    }

    #[test]
    fn no_new_shard_is_larger_than_asked_for_and_none_is_copied() {
        let shards = [entry(60, 0), entry(50, 0), entry(30, 0), entry(200, 0), entry(40, 1)];
        assert_eq!(mergeable(&shards, 100, true), [[2, 4]], "30 + 39; 50 + 60 would be too many");
        assert_eq!(mergeable(&shards, 1_000, true), [[0, 1, 2, 3, 4]]);
        assert!(mergeable(&[entry(9, 0)], 1_000, true).is_empty());
        let changed = dyad_index::manifest::MetadataEntry { id: "m".into(), documents: 1, files: Vec::new() };
        assert_eq!(mergeable(&[ShardEntry { metadata: Some(changed), ..entry(9, 0) }], 1_000, true), [[0]]);
    }
}
