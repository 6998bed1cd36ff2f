//! Shards written again: live documents and their vectors into new shards, with graphs and certificates of their own.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;

use dyad_files::crc32c_of_file_until;
use dyad_files::space::check_space;
use dyad_index::Snapshot;
use dyad_index::lexical::TextDocument;
use dyad_index::manifest::{Change, METADATA_DIR, SHARDS_DIR, ShardEntry};
use dyad_index::snapshot::Shard;

use super::difference::live_nodes;
use super::last_document::LastDocument;
use super::merge_config::MergeConfig;
use super::outcome::ChangeOutcome;
use super::purged_texts::PurgedTexts;
use super::rewritten::{Rewritten, RewrittenSource, replaced};
use super::transaction::Transaction;
use super::upsert::held_out;
use crate::control::{JobControl, Unit};
use crate::draft::Draft;
use crate::error::Error;
use crate::graph_build::{BuildParams, GraphConfig, InitialGraph, RecallGate, RecallTarget};
use crate::job::{ShardBuilder, ShardJob, Spool, shard_label, thread_pool};
use crate::plan::BuildPlan;

/// What to do about a damaged file.
const DAMAGED: &str =
    "The file is damaged: write an intact copy under another name and `mv` it there, or build the index again";

/// Groups of shards, each of which is written again as one shard, without deleted documents.
pub(super) struct RewriteJob<'a> {
    /// How the new shards are built.
    pub(super) config: &'a MergeConfig,
    /// The places of each group's shards in the generation.
    pub(super) groups: &'a [Vec<usize>],
    /// Keys of documents that are left out.
    pub(super) without: &'a BTreeSet<&'a str>,
    /// Progress and cancellation.
    pub(super) control: JobControl<'a>,
}

/// A shard that is written again.
#[derive(Clone, Copy)]
struct GroupMember<'a> {
    /// Its place in the generation.
    place: usize,
    entry: &'a ShardEntry,
    shard: &'a Shard,
}

impl RewriteJob<'_> {
    /// Writes the groups of the transaction's generation again, and publishes the new shards in their places.
    pub(super) fn publish(&self, transaction: Transaction<'_>, change: Change) -> Result<ChangeOutcome, Error> {
        let Self { config, control, .. } = *self;
        let base = transaction.base();
        let (model, language) = (base.manifest().model.clone(), config.language_of(base));
        let threads = thread_pool(config.threads)?;
        let builder = ShardBuilder {
            model: &model,
            graph: GraphConfig::like_index(base, config.threads),
            codec: None,
            language,
            gate: RecallGate::default(),
            control,
        };
        let mut rewritten: Vec<Rewritten> = Vec::with_capacity(self.groups.len());
        // It is there until the shards have been moved out of it.
        let mut job = None;
        if !config.dry_run {
            let shards = job.insert(ShardJob::begin(&config.index, builder, &threads)?);
            for entry in self
                .groups
                .iter()
                .flatten()
                .filter_map(|at| base.manifest().shards.get(*at))
            {
                check_sums(&config.index, entry, control)?;
            }
            for number in 0..self.groups.len() {
                rewritten.push(threads.install(|| self.rewrite_group(base, number, shards))?);
            }
        }
        let outcome = transaction.publish(|_, base| {
            let has_other_language = config
                .language
                .is_some_and(|language| language != base.manifest().language);
            if self.groups.is_empty() && !has_other_language {
                return Ok(None);
            }
            let shards = threads.install(|| replaced(base, &rewritten, self.without, control))?;
            Ok(Some(Draft {
                model: model.clone(),
                language,
                ..Draft::after(base.manifest(), &change, shards)
            }))
        })?;
        Ok(ChangeOutcome { change, ..outcome })
    }

    fn rewrite_group(&self, base: &Snapshot, number: usize, job: &mut ShardJob<'_>) -> Result<Rewritten, Error> {
        let Self { config, control, .. } = *self;
        let label = &shard_label(number, self.groups.len());
        let group = self.groups.get(number).map(Vec::as_slice).unwrap_or_default();
        let member_at = |place: &usize| {
            let (entry, shard) = base.entries().nth(*place)?;
            Some(GroupMember {
                place: *place,
                entry,
                shard,
            })
        };
        let mut members: Vec<GroupMember<'_>> = group.iter().filter_map(member_at).collect();
        // Its documents are the first, so that the build can start from its graph.
        members.sort_by_key(|member| Reverse(member.entry.live()));
        let live: u64 = members.iter().map(|member| member.entry.live()).sum();
        let plan = group_plan(base, config, live);
        check_space(&config.index, plan.disk_bytes(live), config.free_space)?;
        let plan = config.memory.map_or(Ok(plan), |memory| plan.within(memory, 1))?;
        let mut spool = Spool::create(job.workspace(), number, job.builder.language, plan.terms_of_a_shard())?;
        control
            .progress
            .begin(format!("read {label}").trim_end(), Unit::Documents, Some(live));
        let sources = self.read_members(base, &members, &mut spool)?;
        control.progress.finish();
        if sources.iter().all(|source| source.nodes.is_empty()) {
            return Ok(Rewritten { built: None, sources });
        }
        let questions = held_out(members.iter().map(|member| member.shard))?;
        let graph = job.builder.graph;
        let codec = members.first().and_then(|member| GraphConfig::codec_of(member.shard));
        let builder = ShardBuilder {
            codec: codec.as_ref(),
            gate: RecallGate::new(questions.as_ref(), base.manifest().min_recall.map(RecallTarget::from))
                .with_sample(config.sample),
            ..job.builder
        };
        let largest = members
            .first()
            .filter(|_| !config.rebuild && graph.builder.get().takes_initial());
        let initial = largest.and_then(|member| initial_graph(member.shard, &sources, &graph.params));
        let built = job.build_from(&builder, spool.close()?, initial.as_ref(), label)?;
        Ok(Rewritten {
            built: Some(built),
            sources,
        })
    }

    /// Spools the live documents of the members, one member after the other.
    fn read_members(
        &self,
        base: &Snapshot,
        members: &[GroupMember<'_>],
        spool: &mut Spool,
    ) -> Result<Vec<RewrittenSource>, Error> {
        let Self { control, without, .. } = *self;
        let mut sources = Vec::with_capacity(members.len());
        let mut row = Vec::new();
        let mut documents = LastDocument::default();
        let purged = PurgedTexts::find(base, without)?;
        for GroupMember { place, entry, shard } in members {
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
                let place = documents.place(*place, shard, node, &document.text, &purged)?;
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
        Ok(sources)
    }
}

/// What a new shard of `live` documents takes.
pub(super) fn group_plan(base: &Snapshot, config: &MergeConfig, live: u64) -> BuildPlan {
    let graph = GraphConfig::like_index(base, config.threads);
    BuildPlan {
        documents: Some(live),
        ..BuildPlan::new(graph, base.manifest().model.dim)
    }
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
            let Some((_, crc32c)) = crc32c_of_file_until(&path, control.cancel)? else {
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
