//! `bulk shard`: the partitions of one shard -> its files in the index, and a record that names them.

use std::path::Path;
use std::time::Instant;

use dyad_corpus::{CorpusReader, ReadOptions};
use dyad_files::space::{check_space, free_space};
use dyad_index::manifest::{SHARDS_DIR, ShardEntry};
use dyad_store::{PushOptions, RemoteStore};
use fail::fail_point;

use super::embed::{DOCUMENTS, KEYS};
use super::keys::KeyMerge;
use super::place::{JobPlace, partition_folder, shard_record};
use super::record::{ATTEMPTS, BulkPlan, Partition, PartitionDone, ShardDone, VERSION};
use crate::control::{JobControl, Unit};
use crate::error::Error;
use crate::graph_build::{RecallGate, RecallTarget};
use crate::job::{ShardBuilder, ShardJob, Spool, thread_pool};
use crate::job_error::BulkJobError;
use crate::memory;
use crate::shard_names::shard_id;
use crate::source::{FileSource, VectorSource as _};

/// Beam width of the recall in the record.
const EF: usize = 64;

/// What a task did.
#[derive(Debug)]
pub struct BuiltShard {
    /// The shard's record.
    pub done: ShardDone,
    /// Whether this task has put it; another one had before, or was faster.
    pub is_new: bool,
}

/// Builds shard `number` of the job at `url`, whose partitions have to be embedded; where it is done already, nothing
/// is done. Two tasks of one shard do no harm: the first record counts.
pub fn shard(
    url: &str,
    number: usize,
    scratch: &Path,
    threads: usize,
    control: JobControl<'_>,
) -> Result<BuiltShard, Error> {
    let began = Instant::now();
    let place = JobPlace::open(url, control.cancel)?;
    let plan = place.plan()?;
    let count = plan.job.shards.len();
    let Some(partitions) = partitions_of(&plan, number) else {
        return Err(BulkJobError::NoTask {
            option: "shard",
            count,
            got: number,
        }
        .into());
    };
    let index = RemoteStore::open(&plan.job.index)?;
    let before = place.shard_done(number)?;
    if let Some(done) = &before {
        let name = format!("{SHARDS_DIR}/{}", done.shard.id);
        if place.wait(index.has_directory(&name, &done.shard.files))? {
            return Ok(BuiltShard {
                done: done.clone(),
                is_new: false,
            });
        }
        // `gc` of the index, or a change of an index in a directory, removes what no generation names.
        control
            .progress
            .warn(&format!("files of shard {} are gone: it is built again", done.shard.id));
    }
    let done = all_done(&place, partitions)?;
    fs_err::create_dir_all(scratch)?;
    let builder = ShardBuilder {
        model: &plan.job.model,
        graph: plan.job.graph.config(plan.job.model.metric, threads),
        codec: None,
        language: plan.job.language,
        gate: RecallGate::new(None, plan.job.graph.min_recall.map(RecallTarget::from)),
        control,
    };
    builder.graph.params.validate()?;
    let threads = thread_pool(threads)?;
    let mut job = ShardJob::begin(scratch, builder, &threads)?;
    check_space(scratch, plan.estimate.shard_disk_bytes, free_space)?;
    let spooled = gather(&place, partitions.iter().zip(&done), &plan, job.workspace(), control)?;
    let built = job.build(spooled, &format!("{}/{count}", number + 1))?;
    let id = shard_id(plan.generation, number, &built.files);
    // By this `gc` knows whose the files are.
    place.wait(place.remote.put(&format!("{ATTEMPTS}/{id}"), Vec::new()))?;
    fail_point!("bulk-files");
    let name = format!("{SHARDS_DIR}/{id}");
    place.wait(index.put_directory(&built.dir, &name, &built.files, &PushOptions::default(), place.cancel))?;
    let recall = built.certificate.recall.iter().find(|point| point.ef == EF);
    let shard = ShardEntry {
        id,
        documents: built.documents,
        files: built.files.clone(),
        deleted: None,
        metadata: None,
        calibration: None,
    };
    let done = ShardDone {
        format_version: VERSION,
        shard,
        recall_at_ef_64: recall.map_or(0.0, |point| point.recall_at_10),
        peak_memory_bytes: memory::peak_bytes(),
        seconds: began.elapsed().as_secs_f64(),
    };
    fail_point!("bulk-record");
    Ok(match place.put_record(&shard_record(number), &done, before.as_ref())? {
        Some(done) => BuiltShard { done, is_new: false },
        None => BuiltShard { done, is_new: true },
    })
}

/// The partitions of a shard; none where there is no such shard.
pub(super) fn partitions_of(plan: &BulkPlan, shard: usize) -> Option<&[Partition]> {
    let count = *plan.job.shards.get(shard)?;
    let first: usize = plan.job.shards.iter().take(shard).sum();
    plan.job.partitions.get(first..first.checked_add(count)?)
}

/// The records of partitions, all of which have to be there.
pub(super) fn all_done(place: &JobPlace<'_>, partitions: &[Partition]) -> Result<Vec<PartitionDone>, Error> {
    let (mut done, mut missing) = (Vec::with_capacity(partitions.len()), Vec::new());
    for partition in partitions {
        match place.partition_done(partition)? {
            Some(one) => done.push(one),
            None => missing.push(partition.name.clone()),
        }
    }
    if missing.is_empty() {
        return Ok(done);
    }
    let (total, count) = (missing.len(), partitions.len());
    missing.truncate(5);
    Err(BulkJobError::NotDone {
        what: "partitions",
        total,
        count,
        first: missing,
        command: "embed",
    }
    .into())
}

/// Fetches partitions one after another into one spool.
fn gather<'a>(
    place: &JobPlace<'_>,
    partitions: impl Iterator<Item = (&'a Partition, &'a PartitionDone)>,
    plan: &BulkPlan,
    scratch: &Path,
    control: JobControl<'_>,
) -> Result<crate::job::Spooled, Error> {
    let mut spool = Spool::create(scratch, 0, plan.job.language, None)?;
    let mut merge = KeyMerge::new(scratch);
    let documents = plan.estimate.documents / plan.job.shards.len().max(1) as u64;
    control.progress.begin("documents", Unit::Documents, Some(documents));
    for (number, (partition, done)) in partitions.enumerate() {
        let dir = scratch.join(format!("partition-{number:06}"));
        let name = format!("{}/{}", partition_folder(&partition.name), done.folder);
        place.wait(place.remote.fetch_directory(&name, &done.files, &dir, place.cancel))?;
        if done.documents > 0 {
            // What was read once is taken as it is.
            let read = ReadOptions {
                max_text_bytes: usize::MAX,
                ..ReadOptions::default()
            };
            let mut corpus = CorpusReader::open(&dir.join(DOCUMENTS), &read)?;
            let mut source = FileSource::open_of(&dir, &plan.job.model)?;
            while let Some(embedded) = source.pull(&mut corpus, control.cancel)? {
                spool.add(&embedded.document, &embedded.row)?;
                control.progress.advance(1);
            }
        }
        let keys = scratch.join(format!("keys-{number:06}"));
        fs_err::rename(dir.join(KEYS), &keys)?;
        merge.add(&keys)?;
        fs_err::remove_dir_all(&dir)?;
    }
    control.progress.finish();
    merge.refuse_repeated()?;
    if spool.len() == 0 {
        return Err(Error::NoVectors);
    }
    spool.close()
}
