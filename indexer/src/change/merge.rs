//! Merges shards: live documents and their vectors into new shards, with graphs and certificates of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyad_files::crc32c_of_file_until;
use dyad_files::space::{FreeSpace, check_space};
use dyad_index::Snapshot;
use dyad_index::TextLanguage;
use dyad_index::lexical::{StoredDocument, TextDocument};
use dyad_index::manifest::{Change, METADATA_DIR, MetadataEntry, SHARDS_DIR, ShardEntry};
use dyad_index::search::VectorRows;
use dyad_index::snapshot::Shard;

use super::deletions::delete_nodes;
use super::difference::{live_nodes, shard_named};
use super::last_document::LastDocument;
use super::merge_policy::select_mergeable;
use super::metadata::write;
use super::purged_texts::PurgedTexts;
use super::upsert::{build_like, held_out};
use super::{ChangeOutcome, commit};
use crate::control::{JobControl, Unit};
use crate::draft::{CompleteShard, CompleteUpdates, Draft, DraftShard};
use crate::error::Error;
use crate::graph_build::{BuildParams, InitialGraph, RecallGate, RecallTarget};
use crate::job::{ShardBuilder, Spool, Workspace, shard_label, thread_pool};
use crate::plan::BuildPlan;

/// What to do about a damaged file.
const DAMAGED: &str =
    "The file is damaged: write an intact copy under another name and `mv` it there, or build the index again";

/// Which shards are merged, and how.
#[derive(Debug, Clone)]
pub struct MergeConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// Merges all shards, and not only those that [`select_mergeable`] names.
    pub all: bool,
    /// Builds every graph from nothing, and not from that of the largest shard merged. With `all`, a shard that is
    /// merged with no other is written again too.
    pub rebuild: bool,
    /// The language by which BM25 analyses texts from then on; by default that of the index. With another one and
    /// `all`, every shard is written again.
    pub language: Option<TextLanguage>,
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

impl MergeConfig {
    /// The language of the new shards.
    fn language_of(&self, base: &Snapshot) -> TextLanguage {
        self.language.unwrap_or(base.manifest().language)
    }
}

/// Merges the shards that need it, in one new generation. Documents that others delete meanwhile are deleted in the new
/// shards too.
pub fn merge(config: &MergeConfig, control: JobControl<'_>) -> Result<ChangeOutcome, Error> {
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
    let mut groups = select_mergeable(&base.manifest().shards, max_documents, config.all);
    let has_other_language = config.language_of(&base) != base.manifest().language;
    if has_other_language && !config.all {
        return Err(Error::LanguageOfSome {
            index: config.index.clone(),
            language: base.manifest().language,
        });
    }
    if config.all && (config.rebuild || has_other_language) {
        // Also those that would otherwise be copied: they get what this release writes.
        let is_left = |at: &usize| !groups.iter().any(|group| group.contains(at));
        let left: Vec<Vec<usize>> = (0..base.manifest().shards.len())
            .filter(is_left)
            .map(|at| vec![at])
            .collect();
        groups.extend(left);
    }
    let entries = groups.iter().flatten().filter_map(|at| base.manifest().shards.get(*at));
    let read = entries.map(ShardEntry::live).sum();
    let change = Change {
        operation: "merge".to_owned(),
        read,
        indexed: read,
        ..Change::default()
    };
    rewrite(config, base, &groups, &BTreeSet::new(), change, control)
}

/// A new shard, and where its documents come from.
struct Rewritten {
    /// None where no document is left.
    built: Option<Arc<CompleteShard>>,
    /// The shards that it replaces, in the order of its nodes.
    sources: Vec<RewrittenSource>,
}

/// A shard of which another one holds the live documents.
struct RewrittenSource {
    /// Name of the shard.
    id: String,
    /// Its nodes that the new shard holds, ascending; there they follow one another.
    nodes: Vec<u32>,
    /// Its changed metadata as they were read.
    metadata: Option<MetadataEntry>,
    /// The nodes of which these are.
    updated: Vec<u32>,
}

/// Writes each group of shards again as one shard, without deleted documents and without those with the keys `without`.
pub(super) fn rewrite(
    config: &MergeConfig,
    base: Snapshot,
    groups: &[Vec<usize>],
    without: &BTreeSet<&str>,
    change: Change,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    let (model, language) = (base.manifest().model.clone(), config.language_of(&base));
    let mut rewritten: Vec<Rewritten> = Vec::with_capacity(groups.len());
    let workspace = if config.dry_run {
        None
    } else {
        Some(Workspace::create(&config.index)?)
    };
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
    let prepare = |_: Option<&Snapshot>, base: &Snapshot| {
        let has_other_language = config
            .language
            .is_some_and(|language| language != base.manifest().language);
        if groups.is_empty() && !has_other_language {
            return Ok(None);
        }
        let shards = threads.install(|| replaced(base, &rewritten, without, control))?;
        let manifest = base.manifest();
        let (parent, min_recall) = (Some(manifest.generation), manifest.min_recall);
        let context = manifest.context.clone();
        let draft = Draft::new(&model, language, &change, shards);
        Ok(Some(Draft {
            parent,
            min_recall,
            context,
            ..draft
        }))
    };
    let outcome = commit(&config.index, config.dry_run, base, prepare)?;
    Ok(ChangeOutcome { change, ..outcome })
}

/// What a new shard of `live` documents takes.
fn group_plan(base: &Snapshot, config: &MergeConfig, live: u64) -> BuildPlan {
    let (builder, params, row_type) = build_like(base, config.threads);
    let dim = base.manifest().model.dim;
    let (documents, text_bytes, terms, questions) = (Some(live), None, None, 0);
    BuildPlan {
        documents,
        dim,
        shards: 1,
        text_bytes,
        terms,
        params,
        builder,
        row_type,
        questions,
    }
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
    let (model, language) = (&base.manifest().model, config.language_of(base));
    let member = |at: &usize| Some((*at, super::shards(base).nth(*at)?));
    let mut members: Vec<(usize, (&ShardEntry, &Shard))> = group.iter().filter_map(member).collect();
    // Its documents are the first, so that the build can start from its graph.
    members.sort_by_key(|(_, (entry, _))| std::cmp::Reverse(entry.live()));
    let live: u64 = members.iter().map(|(_, (entry, _))| entry.live()).sum();
    let plan = group_plan(base, config, live);
    check_space(&config.index, plan.disk_bytes(live), config.free_space)?;
    let plan = config.memory.map_or(Ok(plan), |memory| plan.within(memory, 1))?;
    let mut spool = Spool::create(workspace, number, language, plan.terms_of_a_shard())?;
    let mut sources = Vec::with_capacity(members.len());
    let mut row = Vec::new();
    control
        .progress
        .begin(format!("read {label}").trim_end(), Unit::Documents, Some(live));
    let mut documents = LastDocument::default();
    let purged = PurgedTexts::find(base, without)?;
    for (at, (entry, shard)) in &members {
        let purged = purged.of_shard(shard, without)?;
        let rows = shard.dense.rows();
        let mut nodes = Vec::with_capacity(shard.len());
        for node in live_nodes(shard) {
            control.check()?;
            let document = shard.document(node)?;
            control.progress.advance(1);
            if without.contains(document.key.as_str()) {
                continue;
            }
            rows.decode(node, &mut row);
            let place = documents.place((*at, shard), node, &document.text, &purged)?;
            let stored = TextDocument {
                key: &document.key,
                title: &document.title,
                text: &document.text,
                metadata_json: &document.metadata_json,
            };
            spool.add_stored(stored, place.as_ref(), &row)?;
            nodes.push(node);
        }
        let updated = shard
            .updates
            .as_ref()
            .map(|updates| updates.nodes().to_vec())
            .unwrap_or_default();
        sources.push(RewrittenSource {
            id: entry.id.clone(),
            nodes,
            metadata: entry.metadata.clone(),
            updated,
        });
        // The graph's memory is needed next; the vectors are in the spool.
        shard.dense.evict_vectors();
    }
    control.progress.finish();
    if sources.iter().all(|source| source.nodes.is_empty()) {
        return Ok(Rewritten { built: None, sources });
    }
    let target = base.manifest().min_recall.map(RecallTarget::from);
    let questions = held_out(members.iter().map(|(_, (_, shard))| *shard))?;
    let questions = questions.as_ref().map(|questions| questions as &dyn VectorRows);
    let gate = RecallGate { questions, target };
    let largest = members
        .first()
        .filter(|_| !config.rebuild && builder.get().takes_initial());
    let initial = largest.and_then(|(_, (_, shard))| initial_graph(shard, &sources, &params));
    let shard = ShardBuilder {
        model,
        builder: builder.get(),
        params: &params,
        row_type,
        language,
        gate,
        control,
    };
    let built = Some(Arc::new(shard.build(spool.close()?, initial.as_ref(), label)?));
    Ok(Rewritten { built, sources })
}

/// Refuses a damaged shard: its faults would be copied under new checksums.
fn check_sums(index: &Path, entry: &ShardEntry, control: JobControl<'_>) -> Result<(), Error> {
    let shard = (index.join(SHARDS_DIR).join(&entry.id), &entry.files);
    let updates = entry
        .metadata
        .as_ref()
        .map(|entry| (index.join(METADATA_DIR).join(&entry.id), &entry.files));
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

/// The graph of the shard that is the first of the `sources`, where the build starts from it.
fn initial_graph<'a>(shard: &'a Shard, sources: &[RewrittenSource], params: &BuildParams) -> Option<InitialGraph<'a>> {
    let kept = &sources.first()?.nodes;
    let documents = sources.iter().map(|source| source.nodes.len()).sum();
    let suits = InitialGraph::suits(kept.len(), shard.dense.len(), documents);
    let starts = suits && params.agree_with(&shard.dense.meta().build);
    starts.then(|| InitialGraph::new(shard.dense.graph(), kept)).flatten()
}

/// The shards of a generation, with the new ones in the place of the first that each replaces. What others have deleted
/// since the shards were read is deleted in the new ones, and what metadata they have changed is changed there.
fn replaced(
    base: &Snapshot,
    rewritten: &[Rewritten],
    without: &BTreeSet<&str>,
    control: JobControl<'_>,
) -> Result<Vec<DraftShard>, Error> {
    let mut shards = Vec::with_capacity(base.shards().len());
    let mut placed = BTreeSet::new();
    for (entry, shard) in super::shards(base) {
        let source_of = |one: &Rewritten| one.sources.iter().position(|source| source.id == entry.id);
        let Some((number, source)) = rewritten.iter().map(source_of).enumerate().find_map(with_number) else {
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

fn with_number((number, source): (usize, Option<usize>)) -> Option<(usize, usize)> {
    Some((number, source?))
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
    let updates = changed_since(base, one, (built, &written))?;
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
    (built, written): (&CompleteShard, &Shard),
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
