//! `bulk commit` and `bulk status`: a job's shards published, and what is done of a job.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dyad_files::space::{check_space, free_space};
use dyad_index::manifest::{self, Change, Manifest};
use dyad_store::{Committed, RemoteStore, commit as publish, is_published};
use fail::fail_point;
use serde::Serialize;

use super::embed::KEYS;
use super::keys::KeyMerge;
use super::place::{JobPlace, partition_folder, partition_record};
use super::record::{BulkPlan, COMMITTED, CommitDone, PARTITIONS, PLAN, PartitionDone, ShardDone, VERSION};
use super::shard::all_done;
use crate::control::JobControl;
use crate::error::Error;
use crate::job::Workspace;
use crate::job_error::BulkJobError;

/// What a commit published, or had been published before.
#[derive(Debug)]
pub struct CommitSummary {
    /// The generation.
    pub manifest: Manifest,
    /// URL of the index.
    pub index: String,
    /// Whether this call has made it current.
    pub is_new: bool,
}

/// Publishes the shards of the job at `url`, all of which have to be built, as the next generation of its index by one
/// conditional put. Where that has been done, nothing is done; where the generation that the job was planned on is not
/// current any more, it is refused.
pub fn commit(url: &str, scratch: &Path, control: JobControl<'_>) -> Result<CommitSummary, Error> {
    let place = JobPlace::open(url, control.cancel)?;
    let plan = place.plan()?;
    let shards = shards_done(&place, &plan)?;
    let missing: Vec<usize> = (0..shards.len())
        .filter(|at| shards.get(*at).is_none_or(Option::is_none))
        .collect();
    if !missing.is_empty() {
        let (total, count) = (missing.len(), shards.len());
        let first = missing.into_iter().take(5).map(|shard| shard.to_string()).collect();
        return Err(BulkJobError::NotDone {
            what: "shards",
            total,
            count,
            first,
            command: "shard",
        }
        .into());
    }
    let partitions = all_done(&place, &plan.job.partitions)?;
    let rejected = partitions.iter().map(|done| done.rejected).fold(0, u64::saturating_add);
    if rejected > plan.job.max_bad {
        return Err(BulkJobError::TooManyBad {
            got: rejected,
            allowed: plan.job.max_bad,
        }
        .into());
    }
    let manifest = manifest_of(&plan, shards.into_iter().flatten(), &partitions);
    let bytes = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::from)?;
    let index = RemoteStore::open(&plan.job.index)?;
    let pointer = manifest::pointer_to(manifest.generation, &bytes);
    let summary = |is_new| CommitSummary {
        manifest: manifest.clone(),
        index: index.url().to_owned(),
        is_new,
    };
    let record = CommitDone {
        format_version: VERSION,
        pointer,
    };
    if place.record(COMMITTED)? == Some(record.clone()) {
        return Ok(summary(false));
    }
    let there = place.wait(index.current())?;
    if there.is_none_or(|there| there.pointer != record.pointer) && plan.job.shards.len() > 1 {
        refuse_repeated(&place, &plan, &partitions, scratch)?;
    }
    control.check()?;
    let committed = place.wait(publish(&index, plan.base.as_deref(), &bytes))?;
    fail_point!("bulk-committed");
    place.put_record(COMMITTED, &record, None)?;
    Ok(summary(committed == Committed::Now))
}

pub(super) fn shards_done(place: &JobPlace<'_>, plan: &BulkPlan) -> Result<Vec<Option<ShardDone>>, Error> {
    (0..plan.job.shards.len())
        .map(|shard| place.shard_done(shard))
        .collect()
}

/// The same bytes in every commit of a job.
fn manifest_of(plan: &BulkPlan, shards: impl Iterator<Item = ShardDone>, partitions: &[PartitionDone]) -> Manifest {
    let sum = |of: &dyn Fn(&PartitionDone) -> u64| partitions.iter().map(of).fold(0, u64::saturating_add);
    let truncated = partitions
        .iter()
        .try_fold(0_u64, |sum, done| Some(sum.saturating_add(done.truncated?)));
    let change = Change {
        operation: "bulk".to_owned(),
        read: sum(&|done| done.read),
        indexed: sum(&|done| done.documents),
        rejected: sum(&|done| done.rejected),
        truncated,
        ..Change::default()
    };
    Manifest {
        format_version: Manifest::version(&plan.job.model, None),
        generation: plan.generation,
        parent: plan
            .base
            .as_ref()
            .and_then(|base| manifest::parse_pointer(Path::new(PLAN), base).ok())
            .map(|(parent, _)| parent),
        created_unix_s: plan.created_unix_s,
        tool: plan.tool.clone(),
        model: plan.job.model.clone(),
        context: None,
        logit_scale: plan.logit_scale,
        min_recall: plan.job.graph.min_recall,
        language: plan.job.language,
        change: Some(change),
        shards: shards.map(|done| done.shard).collect(),
    }
}

/// Over all partitions; within a shard its task has looked.
fn refuse_repeated(place: &JobPlace<'_>, plan: &BulkPlan, done: &[PartitionDone], scratch: &Path) -> Result<(), Error> {
    fs_err::create_dir_all(scratch)?;
    let workspace = Workspace::create(scratch)?;
    let files = done
        .iter()
        .flat_map(|done| &done.files)
        .filter(|file| file.path == KEYS);
    let bytes = files.map(|file| file.bytes).fold(0, u64::saturating_add);
    check_space(scratch, bytes.saturating_mul(2), free_space)?;
    let mut merge = KeyMerge::new(workspace.path());
    for (number, (partition, done)) in plan.job.partitions.iter().zip(done).enumerate() {
        let keys: Vec<_> = done.files.iter().filter(|file| file.path == KEYS).cloned().collect();
        let to = workspace.path().join(format!("keys-{number:06}"));
        let name = format!("{}/{}", partition_folder(&partition.name), done.folder);
        place.wait(place.remote.fetch_directory(&name, &keys, &to, place.cancel))?;
        merge.add(&to.join(KEYS))?;
    }
    merge.refuse_repeated()
}

/// What is done of a job, from its files alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Status {
    /// Partitions, and how many of them are embedded.
    pub partitions: usize,
    /// Embedded partitions.
    pub partitions_done: usize,
    /// The first partitions that are not.
    pub partitions_missing: Vec<usize>,
    /// Shards.
    pub shards: usize,
    /// Built shards.
    pub shards_done: usize,
    /// The first shards that are not built.
    pub shards_missing: Vec<usize>,
    /// Records read so far.
    pub read: u64,
    /// Documents or passages embedded so far.
    pub documents: u64,
    /// Bad records so far.
    pub rejected: u64,
    /// Bad records by partition, where there are some.
    pub rejected_by_partition: BTreeMap<usize, u64>,
    /// Seconds of all tasks that have ended.
    pub task_s: f64,
    /// The largest peak memory of a shard's task.
    pub peak_memory_bytes: Option<u64>,
    /// The generation that the job publishes.
    pub generation: u64,
    /// Whether it has been published.
    pub committed: bool,
}

/// Numbers that a status lists.
const LISTED: usize = 1_000;

/// Looks at the records of the job at `url`.
pub fn status(url: &str, control: JobControl<'_>) -> Result<(BulkPlan, Status), Error> {
    let place = JobPlace::open(url, control.cancel)?;
    let plan = place.plan()?;
    let there: BTreeSet<String> = place
        .wait(place.remote.list(PARTITIONS))?
        .into_iter()
        .map(|object| object.name)
        .collect();
    let mut done = Vec::new();
    let mut partitions_missing = Vec::new();
    for (number, partition) in plan.job.partitions.iter().enumerate() {
        let is_there = there.contains(&partition_record(&partition.name));
        match if is_there {
            place.partition_done(partition)?
        } else {
            None
        } {
            Some(one) => done.push((number, one)),
            None => partitions_missing.push(number),
        }
    }
    let shards = shards_done(&place, &plan)?;
    let built: Vec<&ShardDone> = shards.iter().flatten().collect();
    let shards_missing: Vec<usize> = (0..shards.len())
        .filter(|at| shards.get(*at).is_none_or(Option::is_none))
        .collect();
    let committed = if partitions_missing.is_empty() && shards_missing.is_empty() {
        let partitions: Vec<PartitionDone> = done.iter().map(|(_, one)| one.clone()).collect();
        let manifest = manifest_of(&plan, shards.iter().flatten().cloned(), &partitions);
        let bytes = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::from)?;
        let record: Option<CommitDone> = place.record(COMMITTED)?;
        let is_recorded =
            record.is_some_and(|record| record.pointer == manifest::pointer_to(manifest.generation, &bytes));
        is_recorded || place.wait(is_published(&RemoteStore::open(&plan.job.index)?, &bytes))?
    } else {
        false
    };
    let sum = |of: &dyn Fn(&PartitionDone) -> u64| done.iter().map(|(_, one)| of(one)).fold(0, u64::saturating_add);
    let status = Status {
        partitions: plan.job.partitions.len(),
        partitions_done: done.len(),
        shards: shards.len(),
        shards_done: built.len(),
        read: sum(&|one| one.read),
        documents: sum(&|one| one.documents),
        rejected: sum(&|one| one.rejected),
        rejected_by_partition: done
            .iter()
            .filter(|(_, one)| one.rejected > 0)
            .map(|(number, one)| (*number, one.rejected))
            .take(LISTED)
            .collect(),
        task_s: done
            .iter()
            .map(|(_, one)| one.seconds)
            .chain(built.iter().map(|one| one.seconds))
            .sum(),
        peak_memory_bytes: built.iter().filter_map(|one| one.peak_memory_bytes).max(),
        generation: plan.generation,
        committed,
        partitions_missing: partitions_missing.into_iter().take(LISTED).collect(),
        shards_missing: shards_missing.into_iter().take(LISTED).collect(),
    };
    Ok((plan, status))
}
