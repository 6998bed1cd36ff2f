//! `bulk embed`: the documents of one partition with their vectors, put next to a record that says that they are whole.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use dyad_corpus::embeddings::EmbeddingsWriter;
use dyad_corpus::{CorpusReader, Document, Error as CorpusError, Metadata, ReadOptions};
use dyad_files::{crc32c_of_file, space};
use dyad_index::ModelRecord;
use dyad_index::format::RowType;
use dyad_index::manifest::FileEntry;
use dyad_store::{PushOptions, RemoteStore};
use fail::fail_point;
use serde::Serialize;
use serde_json::value::RawValue;

use super::input::fetch;
use super::place::{JobPlace, partition_folder, partition_record};
use super::record::{BulkPlan, Partition, PartitionDone, Slice, VERSION};
use crate::control::{JobControl, Unit};
use crate::error::Error;
use crate::graph_build::validate::RowCheck;
use crate::job::Workspace;
use crate::job_error::BulkJobError;
use crate::shard_names::content_hash;
use crate::source::{
    ArraySource, DeclaredModel, KeptSource, LeadingSource, LongTexts, OnLong, VectorSource, header_of,
};

/// File of the documents, in the form of a corpus.
pub(super) const DOCUMENTS: &str = "documents.jsonl";
/// File of the keys in their order, one JSON text per line.
pub(super) const KEYS: &str = "keys.jsonl";
/// File of bad records.
const REJECTS: &str = "rejects.jsonl";
/// Vectors that are held in memory.
const PART_ROWS: u64 = 8_192;

/// A line of the documents.
#[derive(Serialize)]
struct TextLine<'a> {
    #[serde(rename = "_id")]
    key: &'a str,
    title: &'a str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawValue>,
}

/// What a task did.
#[derive(Debug)]
pub struct EmbeddedPartition {
    /// The partition's record.
    pub done: PartitionDone,
    /// Whether this task has put it; another one had before, or was faster.
    pub is_new: bool,
}

/// Embeds partition `number` of the job at `url`, by `source` or with the vectors of its inputs; where it is done
/// already, nothing is done. Two tasks of one partition do no harm: the first record counts. `connect` is called only
/// where there is something to embed.
pub fn embed(
    url: &str,
    number: usize,
    scratch: &Path,
    connect: &mut dyn FnMut() -> Result<Box<dyn VectorSource>, Error>,
    control: JobControl<'_>,
) -> Result<EmbeddedPartition, Error> {
    let began = Instant::now();
    let place = JobPlace::open(url, control.cancel)?;
    let plan = place.plan()?;
    let count = plan.job.partitions.len();
    let Some(partition) = plan.job.partitions.get(number) else {
        return Err(BulkJobError::NoTask {
            option: "partition",
            count,
            got: number,
        }
        .into());
    };
    // What a task on this machine has embedded that was ended is not embedded again.
    let kept = scratch.join(format!("partition-{}", partition.name));
    let before = place.partition_done(partition)?;
    if let Some(done) = &before {
        let folder = format!("{}/{}", partition_folder(&partition.name), done.folder);
        if place.wait(place.remote.has_directory(&folder, &done.files))? {
            // Another machine has done it.
            drop(fs_err::remove_dir_all(kept));
            return Ok(EmbeddedPartition {
                done: done.clone(),
                is_new: false,
            });
        }
        control.progress.warn(&format!(
            "files of partition {} are gone: it is embedded again",
            partition.name
        ));
    }
    fs_err::create_dir_all(scratch)?;
    let workspace = Workspace::create(scratch)?;
    let bytes: u64 = partition.slices.iter().map(|slice| slice.bytes).sum();
    let vectors = partition
        .documents
        .saturating_mul(plan.job.model.own_dim() as u64)
        .saturating_mul(4);
    space::check_space(
        scratch,
        bytes.saturating_mul(3).saturating_add(vectors),
        space::free_space,
    )?;
    let mut task = PartitionTask::begin(&plan, partition, &place, workspace.path())?;
    let input = RemoteStore::open(&plan.job.input)?;
    let mut source = if plan.job.has_vectors {
        None
    } else {
        let passages = if plan.job.on_long == OnLong::Split {
            Some(connect()?)
        } else {
            None
        };
        Some(LongTexts::new(
            KeptSource::new(connect()?, &kept),
            plan.job.on_long,
            passages,
        ))
    };
    if let Some(source) = &mut source {
        check_model(&plan, LeadingSource::like(source, &plan.job.model).model())?;
    }
    control
        .progress
        .begin("embedding", Unit::Documents, Some(partition.documents));
    for slice in &partition.slices {
        let source = source.as_mut().map(|source| source as &mut dyn VectorSource);
        let read = task.slice(slice, &input, source, control);
        read.map_err(|error| wrapped(&input, slice, error))?;
    }
    control.progress.finish();
    let truncated = source.as_ref().and_then(VectorSource::truncated);
    let (folder, files) = task.finish()?;
    let name = format!("{}/{folder}", partition_folder(&partition.name));
    fail_point!("bulk-files");
    place.wait(
        place
            .remote
            .put_directory(&task.dir, &name, &files, &PushOptions::default(), place.cancel),
    )?;
    let (documents, rejected) = (task.documents, task.rejected);
    let done = PartitionDone {
        format_version: VERSION,
        folder,
        files,
        read: documents + rejected,
        documents,
        rejected,
        truncated,
        seconds: began.elapsed().as_secs_f64(),
    };
    fail_point!("bulk-record");
    let first = place.put_record(&partition_record(&partition.name), &done, before.as_ref())?;
    if let Some(source) = &mut source {
        source.published();
        // Another attempt may keep its vectors there.
        let _ = fs_err::remove_dir(kept);
    }
    Ok(match first {
        Some(done) => EmbeddedPartition { done, is_new: false },
        None => EmbeddedPartition { done, is_new: true },
    })
}

/// Names the input, unless the job was cancelled.
fn wrapped(input: &RemoteStore, slice: &Slice, error: Error) -> Error {
    match error {
        Error::Cancelled => error,
        error => Error::Input {
            url: input.url().to_owned(),
            name: slice.name.clone(),
            first: slice.first,
            source: Box::new(error),
        },
    }
}

fn check_model(plan: &BulkPlan, got: &ModelRecord) -> Result<(), Error> {
    let expected = &plan.job.model;
    if got.same_space(expected) {
        return Ok(());
    }
    Err(BulkJobError::PlannedModel {
        expected: Box::new(expected.clone()),
        got: Box::new(got.clone()),
    }
    .into())
}

/// What is written for a partition.
struct PartitionTask<'a> {
    plan: &'a BulkPlan,
    partition: &'a Partition,
    place: &'a JobPlace<'a>,
    scratch: &'a Path,
    /// What will be put.
    dir: PathBuf,
    texts: BufWriter<fs_err::File>,
    writer: Option<EmbeddingsWriter>,
    check: RowCheck,
    keys: Vec<String>,
    documents: u64,
    rejected: u64,
}

impl<'a> PartitionTask<'a> {
    fn begin(
        plan: &'a BulkPlan,
        partition: &'a Partition,
        place: &'a JobPlace<'a>,
        scratch: &'a Path,
    ) -> Result<Self, Error> {
        let dir = scratch.join("partition");
        fs_err::create_dir_all(&dir)?;
        let model = &plan.job.model;
        let header = header_of(model, PART_ROWS);
        Ok(Self {
            plan,
            partition,
            place,
            scratch,
            texts: BufWriter::new(fs_err::File::create(dir.join(DOCUMENTS))?),
            writer: Some(EmbeddingsWriter::open(&dir, header)?),
            check: RowCheck::new(model.dim, model.metric, RowType::F16),
            keys: Vec::new(),
            documents: 0,
            rejected: 0,
            dir,
        })
    }

    /// Reads and embeds one input.
    fn slice(
        &mut self,
        slice: &Slice,
        input: &RemoteStore,
        source: Option<&mut dyn VectorSource>,
        control: JobControl<'_>,
    ) -> Result<(), Error> {
        let folder = self.scratch.join("input");
        let path = fetch(self.place, input, slice, &folder)?;
        let rejects = self.scratch.join(REJECTS);
        let max_bad = Some(self.plan.job.max_bad.saturating_sub(self.rejected));
        let read = ReadOptions {
            max_bad,
            rejects: Some(rejects.clone()),
            ..self.plan.job.reading.options()
        };
        let mut corpus = CorpusReader::open(&path, &read)?;
        let mut declared = None;
        let source: &mut dyn VectorSource = if let Some(source) = source {
            source
        } else {
            let model = &self.plan.job.model;
            let of = DeclaredModel {
                name: &model.name,
                fingerprint: Some(&model.fingerprint),
                metric: model.metric,
            };
            if matches!(
                CorpusReader::open(&path, &read)?.next(),
                Some(Err(CorpusError::Empty { .. }))
            ) {
                // Programs of several workers leave files without rows.
                return Ok(fs_err::remove_dir_all(folder)?);
            }
            let source = declared.insert(ArraySource::open(&path, &of)?);
            // Row i of a file is its record i: no record is skipped.
            source.ignore_keys();
            source
        };
        let mut source = LeadingSource::like(source, &self.plan.job.model);
        check_model(self.plan, source.model())?;
        loop {
            match source.pull(&mut corpus, control.cancel) {
                Ok(Some(mut embedded)) => {
                    self.check.check(&embedded.document.key, &mut embedded.row)?;
                    self.add(&embedded.document, &embedded.row)?;
                    control.progress.advance(1);
                }
                // The second of an input of bad records alone.
                Ok(None) | Err(Error::Corpus(CorpusError::Empty { .. })) => break,
                Err(error) => return Err(error),
            }
        }
        corpus
            .warnings()
            .iter()
            .for_each(|warning| control.progress.warn(warning));
        self.rejected += corpus.rejected();
        drop(corpus);
        self.note_rejects(slice, input, &rejects)?;
        Ok(fs_err::remove_dir_all(folder)?)
    }

    fn add(&mut self, document: &Document, row: &[f32]) -> Result<(), Error> {
        let metadata = document
            .metadata
            .as_ref()
            .map(Metadata::as_raw)
            .transpose()
            .map_err(std::io::Error::from)?;
        let Document { key, title, text, .. } = document;
        let line = TextLine {
            key,
            title,
            text,
            metadata,
        };
        serde_json::to_writer(&mut self.texts, &line).map_err(std::io::Error::from)?;
        self.texts.write_all(b"\n")?;
        if let Some(writer) = &mut self.writer {
            writer.push(document, row, false)?;
        }
        self.keys.push(document.key.clone());
        self.documents += 1;
        Ok(())
    }

    /// Bad records of an input, with its name in place of the fetched file's.
    fn note_rejects(&self, slice: &Slice, input: &RemoteStore, from: &Path) -> Result<(), Error> {
        if !from.exists() {
            return Ok(());
        }
        let text = fs_err::read_to_string(from)?;
        fs_err::remove_file(from)?;
        if text.is_empty() {
            return Ok(());
        }
        let mut out = fs_err::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.dir.join(REJECTS))?;
        for line in text.lines() {
            let mut reject: serde_json::Value = serde_json::from_str(line).map_err(std::io::Error::from)?;
            if let Some(reject) = reject.as_object_mut() {
                reject.insert("file".to_owned(), format!("{}/{}", input.url(), slice.name).into());
                // Lines are counted from here.
                reject.insert("first_byte".to_owned(), slice.first.into());
            }
            writeln!(out, "{reject}")?;
        }
        Ok(())
    }

    /// The name of the folder and the files; keys have to be unique.
    fn finish(&mut self) -> Result<(String, Vec<FileEntry>), Error> {
        self.texts.flush()?;
        self.texts.get_ref().sync_all()?;
        if let Some(writer) = self.writer.take() {
            writer.finish()?;
        }
        self.keys.sort_unstable();
        let repeated: Vec<&String> = self
            .keys
            .windows(2)
            .filter_map(|pair| pair.first().filter(|key| pair.last() == Some(key)))
            .collect();
        if !repeated.is_empty() {
            let first = repeated.iter().take(5).map(|key| (*key).clone()).collect();
            return Err(BulkJobError::RepeatedKeys {
                total: repeated.len() as u64,
                first,
            }
            .into());
        }
        let mut out = BufWriter::new(fs_err::File::create(self.dir.join(KEYS))?);
        for key in &self.keys {
            serde_json::to_writer(&mut out, key).map_err(std::io::Error::from)?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        let mut names = Vec::new();
        for entry in fs_err::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            // Locks of the writer.
            if !name.starts_with('.') && name != "LOCK" {
                names.push(name);
            }
        }
        names.sort_unstable();
        let mut files = Vec::with_capacity(names.len());
        for path in names {
            let (bytes, crc32c) = crc32c_of_file(&self.dir.join(&path))?;
            files.push(FileEntry { path, bytes, crc32c });
        }
        tracing::debug!("partition {}: {} documents", self.partition.name, self.documents);
        Ok((format!("{:016x}", content_hash(&files)), files))
    }
}
