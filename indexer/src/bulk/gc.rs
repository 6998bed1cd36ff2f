//! `bulk gc`: what killed tasks of a job have left.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use dyad_index::manifest::{self, SHARDS_DIR};
use dyad_store::{Object, RemoteStore};
use serde::Serialize;

use super::commit::shards_done;
use super::place::{JobPlace, partition_folder};
use super::record::{ATTEMPTS, PARTITIONS, is_digest};
use crate::control::JobControl;
use crate::error::Error;
use crate::shard_names::is_shard_id;

/// What was removed, or would be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Swept {
    /// Objects.
    pub files: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// Removes what tasks of the job at `url` have put before `older_than` and no record names: vectors and texts at its
/// place, and, of the shards in its index, those that its own tasks have put and no generation names. The age has to be
/// longer than any task takes.
pub fn gc(url: &str, older_than: Duration, dry_run: bool, control: JobControl<'_>) -> Result<Swept, Error> {
    let place = JobPlace::open(url, control.cancel)?;
    let plan = place.plan()?;
    let index = RemoteStore::open(&plan.job.index)?;
    let now = SystemTime::now();
    let is_old = |object: &Object| now.duration_since(object.modified).is_ok_and(|age| age >= older_than);
    let planned: BTreeSet<&str> = plan
        .job
        .partitions
        .iter()
        .map(|partition| partition.name.as_str())
        .collect();
    let of_partitions: Vec<Object> = place
        .wait(place.remote.list(PARTITIONS))?
        .into_iter()
        .filter(|object| is_of_a_partition(&planned, &object.name) && is_old(object))
        .collect();
    let attempts: Vec<Object> = place
        .wait(place.remote.list(ATTEMPTS))?
        .into_iter()
        .filter(is_old)
        .collect();
    let mut of_shards = Vec::new();
    for attempt in &attempts {
        let Some(id) = attempt.name.rsplit('/').next().filter(|id| is_shard_id(id)) else {
            continue;
        };
        let files = place.wait(index.list(&format!("{SHARDS_DIR}/{id}")))?;
        if files.iter().all(is_old) {
            of_shards.push((id, attempt, files));
        }
    }
    // Records last: a task puts its own after its files.
    let mut named = BTreeSet::new();
    for partition in &plan.job.partitions {
        let Some(done) = place.partition_done(partition)? else {
            continue;
        };
        let folder = format!("{}/{}", partition_folder(&partition.name), done.folder);
        named.extend(done.files.iter().map(|file| format!("{folder}/{}", file.path)));
    }
    let mut shards: BTreeSet<String> = shards_done(&place, &plan)?
        .into_iter()
        .flatten()
        .map(|done| done.shard.id)
        .collect();
    for generation in generations(&place, &index)? {
        shards.extend(generation);
    }
    let (mut swept, mut at_place, mut in_index) = (Swept::default(), Vec::new(), Vec::new());
    let mut take = |object: &Object, names: &mut Vec<String>| {
        swept.files += 1;
        swept.bytes += object.bytes;
        names.push(object.name.clone());
    };
    of_partitions
        .iter()
        .filter(|object| !named.contains(&object.name))
        .for_each(|object| take(object, &mut at_place));
    for (id, attempt, files) in &of_shards {
        if !shards.contains(*id) {
            for file in files {
                take(file, &mut in_index);
            }
            // The mark goes with its files.
            at_place.push(attempt.name.clone());
        }
    }
    if !dry_run {
        place.wait(index.remove(&in_index))?;
        place.wait(place.remote.remove(&at_place))?;
    }
    Ok(swept)
}

/// Whether an object is a file of one of the planned partitions: users may have other things there.
fn is_of_a_partition(planned: &BTreeSet<&str>, name: &str) -> bool {
    let mut parts = name.splitn(4, '/').skip(1);
    let (Some(partition), Some(folder), Some(_)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    planned.contains(partition) && is_digest(folder)
}

/// Shards that each manifest in the index names.
fn generations(place: &JobPlace<'_>, index: &RemoteStore) -> Result<Vec<Vec<String>>, Error> {
    let mut found = Vec::new();
    for generation in place.wait(index.manifests())? {
        let name = manifest::manifest_name(generation);
        let Some(bytes) = place.wait(index.read(&name))? else {
            continue;
        };
        let manifest = manifest::parse(&std::path::Path::new(index.url()).join(&name), &bytes)?;
        found.push(manifest.shards.into_iter().map(|shard| shard.id).collect());
    }
    Ok(found)
}
