//! Searchers of several indexes.

use std::path::Path;
use std::sync::Arc;

use dyad_proto::client::{AdminClient, ClientConfig, Credentials};
use dyad_proto::v1;
use dyad_searcher::Engine;
use dyad_searcher::question::{QuestionTower, QuestionTowers};
use dyad_searcher::run::{EngineConfig, IndexPath};

use crate::encoder_service::{EncoderService, encoder};
use crate::fixture::{Served, keys, serve, write_index_of};

/// Documents of an index: their keys tell which one.
pub(crate) fn documents(hundred: usize, count: usize) -> Vec<(String, String)> {
    let document = |number: usize| {
        (
            format!("doc-{number}"),
            format!("the old river number {}", number % 100),
        )
    };
    (0..count).map(|number| document(100 * hundred + number)).collect()
}

/// Writes a generation of an index into a folder of this name.
pub(crate) fn write(
    directory: &Path,
    name: &str,
    hundred: usize,
    count: usize,
    generation: u64,
    fingerprint: &str,
) -> IndexPath {
    let path = directory.join(name);
    fs_err::create_dir_all(&path).unwrap();
    write_index_of(&documents(hundred, count), &path, generation, fingerprint);
    IndexPath::new(&path)
}

/// Of these names, the first of them the default: `doc-100` and others in the first, `doc-200` and others in the
/// second.
pub(crate) fn write_all(directory: &Path, names: &[&str]) -> Vec<IndexPath> {
    let all = (1..)
        .zip(names)
        .map(|(hundred, name)| write(directory, name, hundred, 10, 1, "f00d"));
    all.enumerate()
        .map(|(at, index)| IndexPath {
            is_default: at == 0,
            ..index
        })
        .collect()
}

pub(crate) async fn towers(services: &[&EncoderService]) -> QuestionTowers {
    let connected = services
        .iter()
        .map(|service| QuestionTower::connect(&service.url, Credentials::default()));
    QuestionTowers::new(futures_util::future::try_join_all(connected).await.unwrap(), false).unwrap()
}

/// A searcher over the indexes `zoo`, which is the default, and `alp` of one directory.
pub(crate) struct Several {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) _encoder: EncoderService,
    pub(crate) engine: Arc<Engine>,
    pub(crate) served: Served,
    pub(crate) admin: AdminClient,
}

pub(crate) const NAMES: [&str; 2] = ["zoo", "alp"];

pub(crate) async fn several() -> Several {
    let (directory, encoder) = (tempfile::tempdir().unwrap(), encoder("f00d").await);
    let caches = EngineConfig {
        filter_cache: 1 << 20,
        question_cache: 1 << 20,
        ..EngineConfig::default()
    };
    let indexes = write_all(directory.path(), &NAMES);
    let engine = Arc::new(Engine::open_all(indexes, towers(&[&encoder]).await, caches).unwrap());
    let served = serve(Arc::clone(&engine)).await;
    let admin = AdminClient::connect(&served.url, ClientConfig::default())
        .await
        .unwrap();
    Several {
        directory,
        _encoder: encoder,
        engine,
        served,
        admin,
    }
}

pub(crate) fn with_index(index: &str, request: v1::SearchRequest) -> v1::SearchRequest {
    v1::SearchRequest {
        index: index.to_owned(),
        ..request
    }
}

/// Whether all hits are of an index, by its hundred.
pub(crate) fn are_of(hits: &[v1::Hit], hundred: usize) -> bool {
    let prefix = format!("doc-{hundred}");
    !hits.is_empty() && keys(hits).iter().all(|key| key.len() == 7 && key.starts_with(&prefix))
}
