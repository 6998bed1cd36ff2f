//! A small index, a searcher over it, and an encoder service that hashes words into vectors.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use dyad_files::crc32c_of_file;
use dyad_index::format::RowType;
use dyad_index::lexical::{TextDocument, TextWriter};
use dyad_index::manifest::{self, FileEntry, Manifest, ShardEntry};
use dyad_index::quant::{Codec, Codes};
use dyad_index::search::DenseRows;
use dyad_index::shard::{self, DENSE_FILE, ShardInput, ShardMeta, TEXT_DIR};
use dyad_index::storage::WriteLock;
use dyad_index::{
    Arranged, BuildRecord, Certificate, Graph, GraphLayer, Metric, ModelRecord, QuerySource, RankScore, RecallPoint,
    TextLanguage,
};
use dyad_proto::access::Caller;
use dyad_proto::client::{AdminClient, ClientConfig, Credentials, SearcherClient};
use dyad_proto::service::{self, Security, ServerConfig};
use dyad_proto::v1;
use dyad_searcher::question::QuestionTower;
use dyad_searcher::run::EngineConfig;
use dyad_searcher::{Engine, Error};
use tokio::sync::oneshot;

use crate::encoder_service::{EncoderService, encoder};
use crate::fields::metadata;

pub(crate) const DIM: usize = 24;
/// Words that the stand-in for a model says it reads; it embeds all.
pub(crate) const MAX_TOKENS: u32 = 64;
pub(crate) const DOCUMENTS: usize = 60;

/// The caller that may do everything.
pub(crate) static US: LazyLock<Caller> = LazyLock::new(Caller::default);

pub(crate) fn model(fingerprint: &str) -> ModelRecord {
    let (name, fingerprint) = ("words".to_owned(), fingerprint.to_owned());
    ModelRecord {
        name,
        fingerprint,
        dim: DIM,
        full_dim: None,
        metric: Metric::Cosine,
        max_tokens: MAX_TOKENS as usize,
    }
}

/// A unit vector whose values count hashed words.
pub(crate) fn embed(text: &str) -> Vec<f32> {
    let mut values = [0.01; DIM];
    for word in text.to_lowercase().split_whitespace() {
        let hash = word.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        values[(hash >> 32) as usize % DIM] += 1.0;
    }
    let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.iter().map(|value| value / norm).collect()
}

pub(crate) const THINGS: [&str; 6] = ["river", "mountain", "planet", "composer", "metal", "bird"];

/// Key and text of every document.
pub(crate) fn documents() -> Vec<(String, String)> {
    let words = [
        "old", "deep", "bright", "famous", "heavy", "quick", "silent", "northern", "curious", "golden",
    ];
    (0..DOCUMENTS)
        .map(|i| {
            (
                format!("doc-{i:02}"),
                format!("the {} {} number {i}", words[i / 6], THINGS[i % 6]),
            )
        })
        .collect()
}

/// Scores of one rank alone, from which no margin follows: beams are as wide as they are asked to be.
pub(crate) fn one_rank() -> Vec<RankScore> {
    vec![RankScore {
        rank: 1,
        score: 0.0,
        low: -1.0,
    }]
}

/// What a shard says of itself.
pub(crate) fn certificate(part: usize, vectors: usize) -> Certificate {
    let (recall_at_100, distance_computations, scored) = (None, 0.0, 0.0);
    let point = |ef, recall_at_10| RecallPoint {
        ef,
        recall_at_10,
        recall_at_100,
        distance_computations,
        scored,
    };
    let recall = [
        vec![point(48, 0.9), point(200, 0.99)],
        vec![point(64, 0.9), point(300, 0.98)],
    ][part % 2]
        .clone();
    Certificate {
        vectors: vectors as u64,
        calibration: one_rank(),
        adaptive: recall.clone(),
        recall,
        source: QuerySource::HeldOut,
        ..Certificate::default()
    }
}

/// Every node linked with every other, so that the graph search is exact.
fn complete_graph(n: usize) -> Graph {
    let lists: Vec<Vec<u32>> = (0..n as u32)
        .map(|node| (0..n as u32).filter(|other| *other != node).collect())
        .collect();
    Graph {
        entry: 0,
        layers: vec![GraphLayer::from_lists((0..n as u32).collect(), &lists)],
    }
}

/// Writes generation `generation` with two shards.
pub(crate) fn write_index(index: &Path, generation: u64, fingerprint: &str) {
    write_index_of(&documents(), index, generation, fingerprint);
}

/// The same of other documents.
pub(crate) fn write_index_of(documents: &[(String, String)], index: &Path, generation: u64, fingerprint: &str) {
    write_certified_index(documents, index, generation, fingerprint, certificate);
}

/// The same with other certificates, by shard and its number of vectors.
pub(crate) fn write_certified_index(
    documents: &[(String, String)],
    index: &Path,
    generation: u64,
    fingerprint: &str,
    certificate: impl Fn(usize, usize) -> Certificate,
) {
    write_linked_index(documents, index, generation, fingerprint, certificate, complete_graph);
}

/// The same of so many shards.
pub(crate) fn write_index_of_shards(documents: &[(String, String)], index: &Path, generation: u64, count: usize) {
    let written = WrittenIndex {
        documents,
        index,
        generation,
        fingerprint: "f00d",
        shards: count,
        small: None,
    };
    write_shards(&written, certificate, complete_graph);
}

/// A large shard, and two small ones of so many documents, which are searched by what was found in the large one.
pub(crate) fn write_index_with_small_shards(documents: &[(String, String)], index: &Path, small: usize) {
    let written = WrittenIndex {
        documents,
        index,
        generation: 1,
        fingerprint: "f00d",
        shards: 3,
        small: Some(small),
    };
    let rank = |(rank, score)| RankScore { rank, score, low: -1.0 };
    let certificate = |part, vectors| Certificate {
        calibration: [(1, 0.9), (10, 0.6), (1000, 0.1)].map(rank).to_vec(),
        ..certificate(part, vectors)
    };
    write_shards(&written, certificate, complete_graph);
}

/// Two shards with other graphs, by the number of vectors.
pub(crate) fn write_linked_index(
    documents: &[(String, String)],
    index: &Path,
    generation: u64,
    fingerprint: &str,
    certificate: impl Fn(usize, usize) -> Certificate,
    graph: impl Fn(usize) -> Graph,
) {
    let written = WrittenIndex {
        documents,
        index,
        generation,
        fingerprint,
        shards: 2,
        small: None,
    };
    write_shards(&written, certificate, graph);
}

/// What is written where.
struct WrittenIndex<'a> {
    documents: &'a [(String, String)],
    index: &'a Path,
    generation: u64,
    fingerprint: &'a str,
    shards: usize,
    /// Documents of every shard but the first, where they are not all of one size.
    small: Option<usize>,
}

impl WrittenIndex<'_> {
    fn documents_of(&self, part: usize) -> Vec<&(String, String)> {
        let in_small = |small: usize| small * (self.shards - 1);
        match self.small {
            None => self.documents.iter().skip(part).step_by(self.shards).collect(),
            Some(small) if part == 0 => self.documents.iter().skip(in_small(small)).collect(),
            Some(small) => self.documents.iter().skip((part - 1) * small).take(small).collect(),
        }
    }
}

fn write_shards(
    written: &WrittenIndex<'_>,
    certificate: impl Fn(usize, usize) -> Certificate,
    graph: impl Fn(usize) -> Graph,
) {
    let WrittenIndex {
        index,
        generation,
        fingerprint,
        shards: count,
        ..
    } = *written;
    fs_err::create_dir_all(index).unwrap();
    let lock = WriteLock::acquire(index).unwrap();
    let (builder, tool) = ("complete".into(), "test".into());
    let build = BuildRecord {
        builder,
        m: 0,
        ef_construction: 0,
        seed: 0,
        threads: 1,
        tool,
    };
    let meta = ShardMeta {
        model: model(fingerprint),
        build,
    };
    let mut shards = Vec::new();
    for part in 0..count {
        let id = format!("g{generation}-{part}");
        let dir = index.join("shards").join(&id);
        fs_err::create_dir_all(&dir).unwrap();
        let mine = written.documents_of(part);
        let mut text = TextWriter::create(&dir.join(TEXT_DIR), TextLanguage::English).unwrap();
        for (key, body) in &mine {
            text.add(TextDocument {
                key,
                title: "Title",
                text: body,
                metadata_json: &metadata(key),
            })
            .unwrap();
        }
        text.finish().unwrap();
        let values: Vec<f32> = mine.iter().flat_map(|(_, text)| embed(text)).collect();
        let rows = DenseRows::new(&values, DIM);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 0));
        let input = ShardInput {
            meta: &meta,
            vectors: &rows,
            row_type: RowType::F32,
            arranged: &Arranged::new(&graph(mine.len()), &codes).unwrap(),
            keys: &mine.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(),
            certificate: &certificate(part, mine.len()),
        };
        shard::write(&dir.join(DENSE_FILE), &input).unwrap();
        let names = fs_err::read_dir(dir.join(TEXT_DIR)).unwrap();
        let mut names: Vec<_> = names
            .map(|name| format!("{TEXT_DIR}/{}", name.unwrap().file_name().to_string_lossy()))
            .collect();
        names.push(DENSE_FILE.to_owned());
        let file = |path: String| {
            let (bytes, crc32c) = crc32c_of_file(&dir.join(&path)).unwrap();
            FileEntry { path, bytes, crc32c }
        };
        shards.push(ShardEntry {
            id,
            documents: mine.len() as u64,
            files: names.into_iter().map(file).collect(),
            deleted: None,
            metadata: None,
            calibration: None,
        });
    }
    let manifest = Manifest {
        format_version: 1,
        generation,
        parent: None,
        created_unix_s: 1,
        tool: "test".into(),
        model: model(fingerprint),
        context: None,
        logit_scale: None,
        min_recall: None,
        language: TextLanguage::English,
        change: None,
        shards,
    };
    manifest::publish(index, &manifest, &[], &lock).unwrap();
}

/// A searcher over a fresh index.
pub(crate) struct Searcher {
    pub(crate) index: tempfile::TempDir,
    pub(crate) url: String,
    pub(crate) client: SearcherClient,
    pub(crate) encoder: EncoderService,
    pub(crate) engine: Arc<Engine>,
    _stop: oneshot::Sender<()>,
}

pub(crate) async fn open(index: &Path, encoder: &EncoderService, config: EngineConfig) -> Result<Engine, Error> {
    Engine::open(
        index,
        Some(QuestionTower::connect(&encoder.url, Credentials::default()).await?),
        config,
    )
}

pub(crate) async fn searcher() -> Searcher {
    searcher_with(EngineConfig::default()).await
}

pub(crate) async fn searcher_with(config: EngineConfig) -> Searcher {
    let index = tempfile::tempdir().unwrap();
    write_index(index.path(), 1, "f00d");
    searcher_over(index, config).await
}

/// A searcher over an index with a generation 1.
pub(crate) async fn searcher_over(index: tempfile::TempDir, config: EngineConfig) -> Searcher {
    let encoder = encoder("f00d").await;
    let engine = Arc::new(open(index.path(), &encoder, config).await.unwrap());
    let Served { url, client, stop } = serve(Arc::clone(&engine)).await;
    Searcher {
        index,
        url,
        client,
        encoder,
        engine,
        _stop: stop,
    }
}

/// An engine that is served over gRPC until this is dropped.
pub(crate) struct Served {
    pub(crate) url: String,
    pub(crate) client: SearcherClient,
    stop: oneshot::Sender<()>,
}

pub(crate) async fn serve(engine: Arc<Engine>) -> Served {
    serve_with(engine, Security::default()).await
}

pub(crate) async fn serve_with(engine: Arc<Engine>, security: Security) -> Served {
    let listener = service::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = async { drop(stopped.await) };
    let observer = Some(Arc::clone(engine.metrics()) as _);
    let config = ServerConfig {
        security,
        observer,
        ..ServerConfig::default()
    };
    tokio::spawn(dyad_searcher::service::serve(listener, engine, shutdown, config));
    let client = SearcherClient::connect(&url, ClientConfig::default()).await.unwrap();
    Served { url, client, stop }
}

impl Searcher {
    pub(crate) async fn admin(&self) -> AdminClient {
        AdminClient::connect(&self.url, ClientConfig::default()).await.unwrap()
    }
}

pub(crate) fn request(mode: v1::Mode, query: &str, k: u32) -> v1::SearchRequest {
    v1::SearchRequest {
        query: query.into(),
        mode: mode.into(),
        k,
        ..Default::default()
    }
}

pub(crate) fn keys(hits: &[v1::Hit]) -> Vec<&str> {
    hits.iter().map(|hit| hit.key.as_str()).collect()
}
