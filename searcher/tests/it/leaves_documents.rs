//! Leaves that answer searches, and do not read the documents of the hits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_proto::v1::leaf_server::{Leaf, LeafServer};
use dyad_proto::v1::{self, Mode};
use dyad_searcher::run::QueuePolicy;
use dyad_searcher::service::LeafService;
use dyad_searcher::{Engine, Error};
use tonic::{Request, Response, Status};

use crate::encoder_service::encoder;
use crate::fixture::{US, documents, request, write_index_of_shards};
use crate::leaves_fixture::{LeafPlace, RunningLeaf, leaf, root};

/// A leaf that reads no documents, once it is told so.
struct WithoutDocuments {
    leaf: LeafService,
    fails: Arc<AtomicBool>,
}

#[tonic::async_trait]
impl Leaf for WithoutDocuments {
    type WatchStream = <LeafService as Leaf>::WatchStream;

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        self.leaf.watch(request).await
    }

    async fn terms(&self, request: Request<v1::TermsRequest>) -> Result<Response<v1::TermsResponse>, Status> {
        self.leaf.terms(request).await
    }

    async fn search(
        &self,
        request: Request<v1::LeafSearchRequest>,
    ) -> Result<Response<v1::LeafSearchResponse>, Status> {
        self.leaf.search(request).await
    }

    async fn read(&self, request: Request<v1::LeafReadRequest>) -> Result<Response<v1::LeafReadResponse>, Status> {
        self.leaf.read(request).await
    }

    async fn explain(
        &self,
        request: Request<v1::LeafExplainRequest>,
    ) -> Result<Response<v1::LeafExplainResponse>, Status> {
        self.leaf.explain(request).await
    }

    async fn other_groups(
        &self,
        request: Request<v1::OtherGroupsRequest>,
    ) -> Result<Response<v1::OtherGroupsResponse>, Status> {
        self.leaf.other_groups(request).await
    }

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<v1::FetchResponse>, Status> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(Status::unavailable("it reads no documents"));
        }
        self.leaf.fetch(request).await
    }
}

/// Serves a leaf's shards so; returns the address.
async fn serve(leaf: &RunningLeaf, name: &str, fails: &Arc<AtomicBool>) -> SocketAddr {
    let (engine, is_leaving) = (Arc::clone(&leaf.engine), Arc::clone(&leaf.is_leaving));
    let service = WithoutDocuments {
        leaf: LeafService::new(engine, name, is_leaving, Duration::ZERO),
        fails: Arc::clone(fails),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    let server = tonic::transport::Server::builder().add_service(LeafServer::new(service));
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}

async fn ask(root: &Engine, min_coverage: f64) -> Result<v1::SearchResponse, Error> {
    let asked = v1::SearchRequest {
        min_coverage: Some(min_coverage),
        ..request(Mode::Hybrid, "the bright planet number 20", 40)
    };
    let time = Some(Duration::from_secs(5));
    let answered = root.search(asked, &US, time, QueuePolicy::Refused).await?;
    Ok(answered.0.into_response())
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_without_documents_are_left_out_where_less_than_all_will_do() {
    let index = tempfile::tempdir().unwrap();
    write_index_of_shards(&documents(), index.path(), 1, 4);
    let place = |number| LeafPlace {
        number,
        of: 2,
        replicas: 1,
    };
    let (one, other) = (leaf(index.path(), place(0)), leaf(index.path(), place(1)));
    let fails = Arc::new(AtomicBool::new(false));
    let urls = [
        one.url.clone(),
        format!("http://{}", serve(&other, "leaf-1", &fails).await),
    ];
    let encoder = encoder("f00d").await;
    let root = root(index.path(), &encoder, &urls, 1).await.unwrap();
    let lost = other.engine.indexes().next().unwrap().snapshot();
    let (numbers, lost_documents) = (lost.numbers().to_vec(), lost.len() as u64);
    let is_lost = |hit: &v1::Hit| lost.find(&hit.key).unwrap().is_some();

    let whole = ask(&root, 1.0).await.unwrap();
    assert!(whole.hits.iter().any(is_lost) && !whole.degraded);
    fails.store(true, Ordering::Relaxed);
    let error = ask(&root, 1.0).await.unwrap_err().to_string();
    assert!(error.contains("it reads no documents"), "{error}");
    let reply = ask(&root, 0.1).await.unwrap();
    let left: Vec<&str> = whole
        .hits
        .iter()
        .filter(|hit| !is_lost(hit))
        .map(|hit| hit.key.as_str())
        .collect();
    assert_eq!(reply.hits.iter().map(|hit| hit.key.as_str()).collect::<Vec<_>>(), left);
    assert!(reply.hits.iter().all(|hit| hit.document.is_some()));
    assert!(
        reply.degraded && reply.degraded_reason.contains("it reads no documents"),
        "{}",
        reply.degraded_reason
    );
    let coverage = reply.coverage.unwrap();
    let missing: Vec<usize> = coverage
        .missing_shards
        .iter()
        .map(|shard| shard.number as usize)
        .collect();
    assert_eq!(missing, numbers);
    assert_eq!(coverage.intact_documents, coverage.documents - lost_documents);
    let error = ask(&root, 0.99).await.unwrap_err().to_string();
    assert!(error.contains("it reads no documents"), "{error}");
}
