//! A directory with a corpus, its embeddings and an index to be.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use dyad_corpus::embeddings::{EmbeddingsHeader, EmbeddingsModel, EmbeddingsWriter, VectorType};
use dyad_corpus::{Document, Metadata, ReadOptions};
use dyad_files::space::boundless;
use dyad_index::format::RowType;
use dyad_indexer::Error;
use dyad_indexer::change::{
    ChangeOutcome, MergeConfig, MetadataConfig, Operation, Passages, PurgeConfig, UpsertConfig, delete,
    update_metadata, upsert,
};
use dyad_indexer::control::{JobControl, JobProgress, Unit};
use dyad_indexer::graph_build::{BuildParams, BuilderKind};
use dyad_indexer::job::{BuildConfig, BuildSummary, build_index};
use dyad_indexer::source::{Corpus, FileSource, VectorSource};
use tempfile::TempDir;

use crate::hash_source::HashSource;

pub(crate) const DIM: usize = 24;

pub(crate) struct Fixture {
    dir: PathBuf,
    _owned: Option<TempDir>,
}

/// The metadata that are an object.
pub(crate) fn metadata(object: &serde_json::Value) -> Option<Metadata> {
    Metadata::parse(&object.to_string()).unwrap()
}

pub(crate) fn document(number: usize) -> Document {
    let metadata = number
        .is_multiple_of(3)
        .then(|| metadata(&serde_json::json!({ "number": number, "source": "tests" })).unwrap());
    Document {
        key: format!("doc-{number:04}"),
        title: if number.is_multiple_of(2) {
            format!("Title {number}")
        } else {
            String::new()
        },
        text: format!("text of document {number} about subject {}", number % 7),
        metadata,
        place: None,
    }
}

pub(crate) fn documents(n: usize) -> Vec<Document> {
    (0..n).map(document).collect()
}

/// A unit vector that depends on a text only.
pub(crate) fn row_of(text: &str) -> Vec<f32> {
    let value = |at: usize| {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(text.as_bytes(), at as u64);
        (hash >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    let row: Vec<f32> = (0..DIM).map(value).collect();
    let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
    row.into_iter().map(|value| value / length).collect()
}

/// Whether a model reads less than this text, here and at the service of these tests.
pub(crate) fn is_truncated(text: &str) -> bool {
    text.ends_with("subject 3")
}

pub(crate) fn header() -> EmbeddingsHeader {
    EmbeddingsHeader {
        model: EmbeddingsModel {
            name: "hash".into(),
            fingerprint: "f00d".into(),
            dim: DIM,
            metric: "cosine".into(),
            max_tokens: 64,
        },
        tower: "answer".into(),
        vectors: VectorType::F32,
        part_rows: 64,
        dtype: Some("f32".into()),
        two_towers: None,
        logit_scale: None,
        context: dyad_corpus::PassageContext::default(),
    }
}

pub(crate) fn line_of(document: &Document) -> String {
    let mut line = serde_json::json!({ "_id": document.key, "title": document.title, "text": document.text });
    if let Some(metadata) = &document.metadata {
        line["metadata"] = serde_json::from_str(metadata.as_json()).unwrap();
    }
    line.to_string()
}

impl Fixture {
    /// Documents and their vectors.
    pub(crate) fn new(n: usize) -> Self {
        let fixture = Self::empty();
        fixture.write_corpus(&documents(n));
        fixture.write_embeddings("embeddings", header(), &documents(n));
        fixture
    }

    /// Nothing at all.
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            dir: dir.path().to_owned(),
            _owned: Some(dir),
        }
    }

    /// A directory that belongs to another process.
    pub(crate) fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            _owned: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.path("index")
    }

    pub(crate) fn write_corpus(&self, documents: &[Document]) {
        let mut text = String::new();
        for document in documents {
            writeln!(text, "{}", line_of(document)).unwrap();
        }
        fs_err::write(self.path("corpus.jsonl"), text).unwrap();
    }

    pub(crate) fn write_embeddings(&self, name: &str, header: EmbeddingsHeader, documents: &[Document]) {
        let mut writer = EmbeddingsWriter::open(&self.path(name), header).unwrap();
        for document in documents {
            writer
                .push(document, &row_of(&document.passage()), is_truncated(&document.text))
                .unwrap();
        }
        writer.finish().unwrap();
    }

    pub(crate) fn corpus(&self) -> Corpus {
        Corpus::File {
            path: self.path("corpus.jsonl"),
            read: ReadOptions::default(),
        }
    }

    pub(crate) fn config(&self) -> BuildConfig {
        BuildConfig {
            corpus: self.corpus(),
            index: self.index(),
            shards: 2,
            builder: BuilderKind::Native,
            params: BuildParams {
                m: 8,
                ef_construction: 40,
                seed: 1,
                threads: 1,
            },
            row_type: RowType::F32,
            dimensions: None,
            language: None,
            queries: None,
            target: None,
            new_model: false,
            allow_empty: false,
            memory: None,
            free_space: boundless,
        }
    }

    pub(crate) fn build(&self) -> Result<BuildSummary, Error> {
        let mut source = FileSource::open(&self.path("embeddings"))?;
        self.build_from(&mut source)
    }

    pub(crate) fn build_from(&self, source: &mut dyn VectorSource) -> Result<BuildSummary, Error> {
        build_index(&self.config(), source, JobControl::silent())
    }

    /// Documents of `corpus.jsonl` for the index, one thread.
    pub(crate) fn upsert_config(&self, operation: Operation) -> UpsertConfig {
        UpsertConfig {
            passages: Passages::None,
            index: self.index(),
            operation,
            sample: dyad_indexer::graph_build::CertificateSample::Full,
            threads: 1,
            queries: None,
            dry_run: false,
            free_space: boundless,
        }
    }

    /// Appends or upserts documents, embedded by a [`HashSource`].
    pub(crate) fn upsert(&self, operation: Operation, documents: &[Document]) -> Result<ChangeOutcome, Error> {
        self.write_corpus(documents);
        self.upsert_from(
            "corpus.jsonl",
            &self.upsert_config(operation),
            &mut HashSource::default(),
            JobControl::silent(),
        )
    }

    /// The documents of a file.
    pub(crate) fn upsert_from(
        &self,
        name: &str,
        config: &UpsertConfig,
        source: &mut dyn VectorSource,
        control: JobControl<'_>,
    ) -> Result<ChangeOutcome, Error> {
        let corpus = Corpus::File {
            path: self.path(name),
            read: ReadOptions::default(),
        };
        let mut batch = corpus.open(config.operation == Operation::Upsert && !source.is_in_step())?;
        upsert(config, batch.as_mut(), source, control)
    }

    pub(crate) fn update_metadata(&self, documents: &[Document]) -> Result<ChangeOutcome, Error> {
        self.write_corpus(documents);
        let (corpus, index) = (self.path("corpus.jsonl"), self.index());
        let config = MetadataConfig {
            corpus,
            read: ReadOptions::default(),
            index,
            dry_run: false,
        };
        update_metadata(&config, JobControl::silent())
    }

    pub(crate) fn delete(&self, keys: &[String]) -> Result<ChangeOutcome, Error> {
        delete(&self.index(), keys, false, JobControl::silent())
    }

    pub(crate) fn merge_config(&self, all: bool) -> MergeConfig {
        let (dry_run, free_space) = (false, boundless);
        MergeConfig {
            index: self.index(),
            all,
            candidates: dyad_indexer::change::MergeCandidates::default(),
            sample: dyad_indexer::graph_build::CertificateSample::Full,
            rebuild: false,
            language: None,
            max_documents: 10_000,
            threads: 1,
            memory: None,
            dry_run,
            free_space,
        }
    }

    pub(crate) fn purge_config(&self) -> PurgeConfig {
        PurgeConfig {
            rewrite: self.merge_config(false),
            passages: false,
            wait: Duration::ZERO,
        }
    }

    /// Directories of builds, running or killed.
    pub(crate) fn building(&self) -> usize {
        let names = fs_err::read_dir(self.index())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with(".dyad-building"))
            .count()
    }

    /// Every file of the index but locks and shards that are kept for the next build, with its content.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        if self.index().exists() {
            collect(&self.index(), &mut files);
        }
        let kept = self.index().join(".built-").display().to_string();
        files.retain(|path, _| !path.display().to_string().starts_with(&kept));
        files.retain(|path, _| !path.ends_with("LOCK") && path.extension().is_none_or(|extension| extension != "lock"));
        files
    }
}

fn collect(dir: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs_err::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else {
            files.insert(path.clone(), fs_err::read(&path).unwrap());
        }
    }
}

/// Remembers stages and notes; acts when a stage begins.
pub(crate) struct Recorder<'a> {
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) at_stage: &'a (dyn Fn(&str) + Sync),
}

impl Recorder<'_> {
    pub(crate) fn control(&self) -> JobControl<'_> {
        JobControl {
            progress: self,
            ..JobControl::silent()
        }
    }

    pub(crate) fn new(at_stage: &(dyn Fn(&str) + Sync)) -> Recorder<'_> {
        Recorder {
            lines: Mutex::default(),
            at_stage,
        }
    }
}

impl JobProgress for Recorder<'_> {
    fn begin(&self, stage: &str, _unit: Unit, _total: Option<u64>) {
        self.lines.lock().unwrap().push(stage.to_owned());
        (self.at_stage)(stage);
    }

    fn advance(&self, _steps: u64) {}

    fn finish(&self) {}

    fn note(&self, text: &str) {
        self.lines.lock().unwrap().push(text.to_owned());
    }
}
