//! `bulk plan`: inputs cut into partitions, partitions grouped into shards, and what all of it takes, by a sample.

use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use dyad_corpus::{CorpusReader, Document, Located, ReadOptions};
use dyad_index::ModelRecord;
use dyad_index::TextLanguage;
use dyad_index::format::RowType;
use dyad_store::{Object, RemoteStore, find, without_secrets};

use super::graph_settings::GraphSettings;
use super::input::{can_be_cut, cut, fetch, first_slice, refuse_texts};
use super::partitions::{group_partitions, group_shards};
use super::place::JobPlace;
use super::record::{BulkEstimate, BulkJob, BulkPlan, PLAN, Reading, Slice};
use crate::TOOL;
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::{BuildParams, BuilderKind};
use crate::job::{LanguageSample, Workspace};
use crate::job_error::BulkJobError;
use crate::plan::BuildPlan;
use crate::source::{ArraySource, DeclaredModel, OnLong, RemoteSource, UncheckedBatch, VectorSource};

/// Bytes of lines that are read as a sample.
const SAMPLE_BYTES: u64 = 1 << 20;
/// Documents of the sample that are embedded.
const SAMPLE_TEXTS: usize = 256;

/// What is planned.
#[derive(Debug, Clone)]
pub struct PlanConfig {
    /// Pattern of the inputs: `s3://BUCKET/DIR/*.parquet`, or a path of this machine.
    pub input: String,
    /// How they are read.
    pub read: ReadOptions,
    /// Most bad records to skip, of all inputs together.
    pub max_bad: u64,
    /// What becomes of documents that are longer than the model reads.
    pub on_long: OnLong,
    /// Documents of a shard, about.
    pub shard_documents: u64,
    /// Documents of a partition, about.
    pub partition_documents: u64,
    /// URL of the index.
    pub index: String,
    /// URL of the job.
    pub out: String,
    /// How shards are built.
    pub graph: GraphSettings,
    /// How many of the first values of each vector are kept; by default as in the index, where that is of the same
    /// model, or else all. See [`dyad_index::matryoshka`].
    pub dimensions: Option<usize>,
    /// The language by which BM25 analyses texts; by default that of a sample.
    pub language: Option<TextLanguage>,
    /// Directory for files that are in use.
    pub scratch: PathBuf,
}

/// Where vectors come from.
#[derive(Debug)]
pub enum VectorOrigin<'a> {
    /// From encoder services.
    Encoder(Box<RemoteSource>),
    /// The inputs are Parquet files that hold them.
    Input(DeclaredModel<'a>),
}

/// A plan, and whether it is new.
#[derive(Debug)]
pub struct PlannedJob {
    /// As it is at its place.
    pub plan: BulkPlan,
    /// Whether this call has put it there.
    pub is_new: bool,
}

/// Plans a job and puts its plan. Where the plan of this very job is there already, that one stays as it is; where
/// another is, it is refused.
pub fn plan(config: &PlanConfig, mut vectors: VectorOrigin<'_>, control: JobControl<'_>) -> Result<PlannedJob, Error> {
    let place = JobPlace::open(&config.out, control.cancel)?;
    let index = RemoteStore::open(&config.index)?;
    if place.remote.url() == index.url() {
        return Err(BulkJobError::SamePlace {
            url: index.url().to_owned(),
        }
        .into());
    }
    config.graph.params(1).validate()?;
    let (input, objects) = place.wait(find(&config.input))?;
    refuse_texts(&objects, config.read.format)?;
    fs_err::create_dir_all(&config.scratch)?;
    let workspace = Workspace::create(&config.scratch)?;
    let sample = InputSample::read(&place, &input, &objects, config, workspace.path())?;
    let model = match &mut vectors {
        VectorOrigin::Encoder(source) => source.model().clone(),
        VectorOrigin::Input(declared) => declared_model(&place, &input, &objects, declared, workspace.path())?,
    };
    let base = place.wait(index.current())?;
    let model = match (config.dimensions, &base) {
        (Some(dimensions), _) => model.leading(dimensions)?,
        (None, Some(base)) => model.like(&base.manifest.model),
        (None, None) => model,
    };
    let slices = slices(&place, &input, &objects, config, sample.bytes_per_document)?;
    let partitions = group_partitions(slices, config.partition_documents, sample.bytes_per_document);
    let shards = group_shards(&partitions, config.shard_documents);
    let language = config.language.unwrap_or_else(|| {
        let sampled = sample.language.language();
        sampled.told.iter().for_each(|told| control.progress.note(told));
        sampled.language
    });
    let job = BulkJob {
        index: index.url().to_owned(),
        input: input.url().to_owned(),
        reading: Reading::from(&config.read),
        max_bad: config.max_bad,
        model,
        has_vectors: matches!(vectors, VectorOrigin::Input(_)),
        on_long: config.on_long,
        graph: config.graph.clone(),
        language,
        partitions,
        shards,
    };
    if let Some(there) = place.plan_if_any()? {
        return same(&place, there, &job);
    }
    let estimate = estimate(&job, &sample, &mut vectors, control)?;
    let logit_scale = match &mut vectors {
        VectorOrigin::Encoder(source) => source.logit_scale(job.model.dim, control.cancel)?,
        VectorOrigin::Input(_) => None,
    };
    let before = base
        .as_ref()
        .map(|base| &base.manifest)
        .filter(|before| before.model.same_space(&job.model));
    let logit_scale = logit_scale.or_else(|| before.and_then(|before| before.logit_scale));
    let plan = BulkPlan {
        format_version: job.version(),
        tool: TOOL.to_owned(),
        created_unix_s: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
        // Above all that are there, also those that a rollback has left.
        generation: place
            .wait(index.manifests())?
            .last()
            .map_or(1, |newest| newest.saturating_add(1)),
        base: base.map(|base| base.pointer),
        job,
        estimate,
        logit_scale,
    };
    match place.put_record(PLAN, &plan, None)? {
        Some(there) => same(&place, there, &plan.job),
        None => Ok(PlannedJob { plan, is_new: true }),
    }
}

/// The plan that is there, if it is of the same job.
fn same(place: &JobPlace<'_>, there: BulkPlan, job: &BulkJob) -> Result<PlannedJob, Error> {
    let fields = |job: &BulkJob| {
        let inputs: Vec<&str> = job.partitions.iter().map(|partition| partition.name.as_str()).collect();
        [
            ("index", job.index.clone()),
            ("input", job.input.clone()),
            ("model", format!("{:?}", job.model)),
            ("way of reading", format!("{:?}", job.reading)),
            ("--max-bad", job.max_bad.to_string()),
            ("--on-long", format!("{:?}", job.on_long).to_lowercase()),
            ("vectors in the input", job.has_vectors.to_string()),
            ("graph", format!("{:?}", job.graph)),
            ("language", job.language.to_string()),
            ("partitions", format!("{} ({})", inputs.len(), inputs.join(" "))),
            ("shards", format!("{:?}", job.shards)),
        ]
    };
    let differs = fields(&there.job)
        .into_iter()
        .zip(fields(job))
        .find(|(there, here)| there != here);
    match differs {
        Some(((part, expected), (_, got))) => Err(BulkJobError::OtherPlan {
            url: place.remote.url().to_owned(),
            part,
            expected,
            got,
        }
        .into()),
        None => Ok(PlannedJob {
            plan: there,
            is_new: false,
        }),
    }
}

/// Documents of the inputs, some of which are kept.
struct InputSample {
    bytes_per_document: f64,
    text_bytes_per_document: f64,
    documents: u64,
    input_bytes: u64,
    language: LanguageSample,
    texts: Vec<Document>,
}

impl InputSample {
    /// The beginning of the first input that can be cut, or else an input whole: one of a middle size, since the
    /// smallest may hold next to nothing.
    fn read(
        place: &JobPlace<'_>,
        input: &RemoteStore,
        objects: &[Object],
        config: &PlanConfig,
        scratch: &Path,
    ) -> Result<Self, Error> {
        let cuttable = |object: &&Object| object.bytes > 0 && can_be_cut(&object.name, config.read.format);
        let cut_whole: Vec<&Object> = objects.iter().find(cuttable).into_iter().collect();
        let candidates = if cut_whole.is_empty() {
            by_size(objects)
        } else {
            cut_whole
        };
        for object in candidates {
            let slice = first_slice(place, input, object, config.read.format, SAMPLE_BYTES)?;
            let path = fetch(place, input, &slice, &scratch.join("sample"))?;
            let sample = Self::of(&path, &slice, config, objects)?;
            if sample.documents > 0 {
                return Ok(sample);
            }
        }
        let path = without_secrets(&config.input).into();
        Err(dyad_corpus::Error::Empty {
            path,
            expected: "documents in what was sampled",
        }
        .into())
    }

    /// Of one slice; without documents where there are none.
    fn of(path: &Path, slice: &Slice, config: &PlanConfig, objects: &[Object]) -> Result<Self, Error> {
        let read = ReadOptions {
            max_bad: Some(u64::MAX),
            ..config.read.clone()
        };
        let (mut documents, mut text_bytes, mut texts) = (0_u64, 0, Vec::new());
        let mut language = LanguageSample::default();
        for document in CorpusReader::open(path, &read)? {
            let document = match document {
                Ok(document) => document.value,
                Err(dyad_corpus::Error::Empty { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            documents += 1;
            text_bytes += document.passage().len();
            if !language.is_full() {
                language.add(&document);
            }
            if texts.len() < SAMPLE_TEXTS {
                texts.push(document);
            }
        }
        let per_document = |bytes: f64| bytes / documents.max(1) as f64;
        Ok(Self {
            bytes_per_document: per_document(slice.bytes as f64).max(1.0),
            text_bytes_per_document: per_document(text_bytes as f64),
            documents,
            input_bytes: objects.iter().map(|object| object.bytes).sum(),
            language,
            texts,
        })
    }
}

/// The model of vectors that the inputs hold, whose first one says how many values they have.
fn declared_model(
    place: &JobPlace<'_>,
    input: &RemoteStore,
    objects: &[Object],
    declared: &DeclaredModel<'_>,
    scratch: &Path,
) -> Result<ModelRecord, Error> {
    let mut refused = Error::NoVectors;
    for object in by_size(objects) {
        let slice = first_slice(place, input, object, dyad_corpus::CorpusFormat::Parquet, u64::MAX)?;
        let path = fetch(place, input, &slice, &scratch.join("vectors"))?;
        match ArraySource::open(&path, declared) {
            Ok(source) => return Ok(source.model().clone()),
            // Programs of several workers leave files without rows.
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Inputs that hold something: from the one of the middle size on to larger ones, then smaller ones.
fn by_size(objects: &[Object]) -> Vec<&Object> {
    let mut found: Vec<&Object> = objects.iter().filter(|object| object.bytes > 0).collect();
    found.sort_by_key(|object| (object.bytes, &object.name));
    let larger = found.split_off(found.len() / 2);
    larger.into_iter().chain(found.into_iter().rev()).collect()
}

fn slices(
    place: &JobPlace<'_>,
    input: &RemoteStore,
    objects: &[Object],
    config: &PlanConfig,
    bytes_per_document: f64,
) -> Result<Vec<Slice>, Error> {
    let bytes = ((config.partition_documents.max(1) as f64 * bytes_per_document) as u64).max(1);
    let mut slices = Vec::new();
    for object in objects {
        slices.extend(cut(place, input, object, config.read.format, bytes)?);
    }
    Ok(slices)
}

fn estimate(
    job: &BulkJob,
    sample: &InputSample,
    vectors: &mut VectorOrigin<'_>,
    control: JobControl<'_>,
) -> Result<BulkEstimate, Error> {
    let documents: u64 = job.partitions.iter().map(|partition| partition.documents).sum();
    let (mut tokens, mut truncated, mut embedding_s) = (None, None, None);
    if let VectorOrigin::Encoder(source) = vectors {
        let count = sample.texts.len();
        let mut given = UncheckedBatch(
            sample
                .texts
                .iter()
                .cloned()
                .zip(1..)
                .map(|(value, line)| Located { value, line }),
        );
        let began = Instant::now();
        while source.pull(&mut given, control.cancel)?.is_some() {}
        let scale = documents as f64 / count.max(1) as f64;
        tokens = source.tokens().map(|tokens| (tokens as f64 * scale) as u64);
        truncated = source.truncated().map(|truncated| (truncated as f64 * scale) as u64);
        embedding_s = Some(began.elapsed().as_secs_f64() * scale);
    }
    let mut partitions = job.partitions.iter();
    let shard = |count: &usize| {
        partitions
            .by_ref()
            .take(*count)
            .map(|partition| partition.documents)
            .sum()
    };
    let largest: u64 = job.shards.iter().map(shard).max().unwrap_or(0);
    let graph = job.graph.config(job.model.metric, 1);
    let one = BuildPlan {
        documents: Some(largest),
        text_bytes: Some((largest as f64 * sample.text_bytes_per_document) as u64),
        ..BuildPlan::new(graph, job.model.dim)
    };
    // What was embedded is there as well, as text and as f32.
    let fetched = one
        .text_bytes
        .unwrap_or(0)
        .saturating_add(largest.saturating_mul(job.model.dim as u64 * 4));
    Ok(BulkEstimate {
        documents,
        sampled: sample.documents,
        input_bytes: sample.input_bytes,
        text_bytes: (documents as f64 * sample.text_bytes_per_document) as u64,
        tokens,
        truncated,
        embedding_s,
        shard_memory_bytes: one.memory_bytes(largest),
        shard_disk_bytes: one.disk_bytes(largest).saturating_add(fetched),
        index_bytes: one.index_bytes(documents),
    })
}

/// Parameters of shards that nothing says otherwise of.
impl Default for GraphSettings {
    fn default() -> Self {
        let params = BuildParams {
            m: 16,
            ef_construction: 200,
            seed: 0,
            threads: 1,
        };
        Self::new(BuilderKind::Native, &params, RowType::F16, None)
    }
}
