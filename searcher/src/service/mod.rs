//! gRPC: thin conversions around the engine.
//!
//! | file | contents |
//! |---|---|
//! | `search.rs` | `Searcher` |
//! | `search_stream.rs` | its stream of searches |
//! | `slow_call.rs` | slow calls in the log |
//! | `leaf.rs` | `Leaf` |
//! | `admin.rs` | `Admin` |
//! | `convert.rs` | conversion of answers to messages |
//! | `http/` | the calls of `Searcher` and what is served as JSON over HTTP, and the page at `/` |

mod admin;
mod convert;
mod http;
mod leaf;
mod search;
mod search_stream;
mod slow_call;

use std::future::Future;
use std::sync::Arc;

use dyad_proto::service::{self, Health, ServeError, ServerConfig};
use dyad_proto::v1::admin_server::AdminServer;
use dyad_proto::v1::leaf_server::LeafServer;
use dyad_proto::v1::searcher_server::SearcherServer;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;

use crate::run::Engine;

pub use admin::AdminService;
pub use http::{HTTP_BYTES, PagePlaces, RouterConfig, leaf_router, router};
pub use leaf::LeafService;
pub use search::SearchService;

/// Services of one listener.
#[derive(Debug, Clone)]
pub enum Services {
    /// `Searcher` alone.
    Searcher,
    /// `Admin` alone.
    Admin,
    /// Both.
    All,
    /// `Leaf` and `Admin`.
    Leaf(LeafService),
}

/// Serves `Searcher` and `Admin` until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    engine: Arc<Engine>,
    shutdown: impl Future<Output = ()> + Send + 'static,
    config: ServerConfig,
) -> Result<(), ServeError> {
    serve_some(listener, Services::All, engine, shutdown, config).await
}

/// Serves some of the services until `shutdown` completes.
pub async fn serve_some(
    listener: TcpListener,
    services: Services,
    engine: Arc<Engine>,
    shutdown: impl Future<Output = ()> + Send + 'static,
    config: ServerConfig,
) -> Result<(), ServeError> {
    let (mut routes, mut health) = (Routes::default(), Health::new());
    if let Services::Leaf(leaf) = &services {
        routes = routes.add_service(service::leaf(leaf.clone()));
        health = health.serving::<LeafServer<LeafService>>().await;
    }
    if matches!(services, Services::Searcher | Services::All) {
        routes = routes.add_service(service::searcher(SearchService::new(Arc::clone(&engine))));
        health = health.serving::<SearcherServer<SearchService>>().await;
    }
    if !matches!(services, Services::Searcher) {
        routes = routes.add_service(service::admin(AdminService::new(Arc::clone(&engine))));
        health = health.serving::<AdminServer<AdminService>>().await;
    }
    // A model thread that has died is not restarted, and indexes may come back: load balancers use other searchers
    // meanwhile.
    let mut changes = engine.readiness_changes();
    let (ready, follow) = watch::channel(changes.borrow().is_ok());
    let following = tokio::spawn(async move {
        while changes.changed().await.is_ok() {
            ready.send_replace(changes.borrow_and_update().is_ok());
        }
    });
    let health = health.while_ready(follow);
    let served = service::serve(listener, routes, health, shutdown, config).await;
    following.abort();
    served
}
