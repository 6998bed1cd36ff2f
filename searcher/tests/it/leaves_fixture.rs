//! Leaves and a root over them, in this process, next to an engine that serves the whole index.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use dyad_proto::client::{ClientConfig, Credentials};
use dyad_proto::service::{self, Security, ServerConfig};
use dyad_searcher::leaves::{HeldShards, Leaves};
use dyad_searcher::question::{QuestionTower, QuestionTowers};
use dyad_searcher::run::{EngineConfig, IndexPath};
use dyad_searcher::service::{LeafService, Services, serve_some};
use dyad_searcher::{Engine, Error};

use crate::encoder_service::{EncoderService, encoder};

/// A leaf; it ends, without a word, when this is dropped.
pub(crate) struct RunningLeaf {
    pub(crate) url: String,
    pub(crate) engine: Arc<Engine>,
    pub(crate) is_leaving: Arc<AtomicBool>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Drop for RunningLeaf {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Which leaf, of how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafPlace {
    pub(crate) number: usize,
    pub(crate) of: usize,
    pub(crate) replicas: usize,
}

fn leaf_name(number: usize) -> String {
    format!("leaf-{number}")
}

/// Starts a leaf on a runtime of its own, so that all of it ends at once.
pub(crate) fn leaf(index: &Path, place: LeafPlace) -> RunningLeaf {
    secured_leaf(index, place, Security::default())
}

/// The same, for roots that show what it asks for.
pub(crate) fn secured_leaf(index: &Path, place: LeafPlace, security: Security) -> RunningLeaf {
    let scheme = security.scheme();
    let held = HeldShards::OfLeaf {
        name: leaf_name(place.number),
        leaves: vec![(0..place.of).map(leaf_name).collect()],
        replicas: place.replicas,
    };
    let config = EngineConfig {
        held,
        filter_cache: 1 << 20,
        ..EngineConfig::default()
    };
    let engine = Engine::open_all(vec![named(index)], QuestionTowers::default(), config).unwrap();
    let engine = Arc::new(engine);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let (told, listening) = std::sync::mpsc::channel();
    let is_leaving = Arc::new(AtomicBool::new(false));
    let name = leaf_name(place.number);
    let service = LeafService::new(Arc::clone(&engine), &name, Arc::clone(&is_leaving), Duration::ZERO);
    let (served, followed) = (Arc::clone(&engine), Arc::clone(&engine));
    runtime.spawn(async move {
        let listener = service::bind("127.0.0.1:0").await.unwrap();
        told.send(listener.local_addr().unwrap()).unwrap();
        let stop = std::future::pending();
        let config = ServerConfig {
            security,
            ..ServerConfig::default()
        };
        serve_some(listener, Services::Leaf(service), served, stop, config).await
    });
    runtime.spawn(async move { followed.follow(Duration::from_millis(50)).await });
    let url = format!("{scheme}://{}", listening.recv().unwrap());
    RunningLeaf {
        url,
        engine,
        is_leaving,
        runtime: Some(runtime),
    }
}

fn named(index: &Path) -> IndexPath {
    IndexPath {
        name: "all".to_owned(),
        ..IndexPath::new(index)
    }
}

/// A root over leaves, and one process that has all.
pub(crate) struct Roots {
    pub(crate) leaves: Vec<RunningLeaf>,
    pub(crate) root: Arc<Engine>,
    pub(crate) whole: Arc<Engine>,
    pub(crate) encoder: EncoderService,
}

/// A root over these leaves.
pub(crate) async fn root(
    index: &Path,
    encoder: &EncoderService,
    urls: &[String],
    replicas: usize,
) -> Result<Engine, Error> {
    let wait = Duration::from_secs(20);
    root_that_shows(index, encoder, urls, replicas, Credentials::default(), wait).await
}

/// The same, which shows these credentials to leaves and waits for them for a time.
pub(crate) async fn root_that_shows(
    index: &Path,
    encoder: &EncoderService,
    urls: &[String],
    replicas: usize,
    credentials: Credentials,
    wait: Duration,
) -> Result<Engine, Error> {
    let tower = QuestionTower::connect(&encoder.url, Credentials::default()).await?;
    let config = EngineConfig {
        held: HeldShards::None,
        ..EngineConfig::default()
    };
    let engine = Engine::open_all(vec![named(index)], Some(tower).into(), config)?;
    let leaves = Leaves::new(urls, replicas, ClientConfig::for_questions(credentials))?;
    engine.with_leaves(Arc::new(leaves), wait).await
}

/// A root over so many leaves, which hold each shard so often, and an engine over the whole index.
pub(crate) async fn roots(index: &Path, count: usize, replicas: usize) -> Roots {
    let place = |number| LeafPlace {
        number,
        of: count,
        replicas,
    };
    let leaves: Vec<RunningLeaf> = (0..count).map(|number| leaf(index, place(number))).collect();
    let encoder = encoder("f00d").await;
    let urls: Vec<String> = leaves.iter().map(|leaf| leaf.url.clone()).collect();
    let root = Arc::new(root(index, &encoder, &urls, replicas).await.unwrap());
    let tower = QuestionTower::connect(&encoder.url, Credentials::default())
        .await
        .unwrap();
    let whole = Engine::open_all(vec![named(index)], Some(tower).into(), EngineConfig::default()).unwrap();
    Roots {
        leaves,
        root,
        whole: Arc::new(whole),
        encoder,
    }
}
