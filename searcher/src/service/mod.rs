//! gRPC: thin conversions around the engine.
//!
//! | file | contents |
//! |---|---|
//! | `search.rs` | `Searcher` |
//! | `admin.rs` | `Admin` |
//! | `convert.rs` | conversion of answers to messages |
//! | `http/` | the calls of `Searcher` and what is served as JSON over HTTP, and the page at `/` |

mod admin;
mod convert;
mod http;
mod search;

use std::future::Future;
use std::sync::Arc;

use dyad_proto::service::{self, Health, ServeError, ServerConfig};
use dyad_proto::v1::admin_server::AdminServer;
use dyad_proto::v1::searcher_server::SearcherServer;
use tokio::net::TcpListener;
use tonic::service::Routes;

use crate::run::Engine;

pub use admin::AdminService;
pub use http::{HTTP_BYTES, router};
pub use search::SearchService;

/// Serves `Searcher` and `Admin` until `shutdown` completes.
pub async fn serve(
    listener: TcpListener,
    engine: Arc<Engine>,
    shutdown: impl Future<Output = ()> + Send + 'static,
    config: ServerConfig,
) -> Result<(), ServeError> {
    let towers: Vec<_> = engine.towers().iter().map(|one| one.tower.clone()).collect();
    let routes = Routes::new(service::searcher(SearchService::new(Arc::clone(&engine))))
        .add_service(service::admin(AdminService::new(engine)));
    let health = Health::new().serving::<SearcherServer<SearchService>>().await;
    let health = health.serving::<AdminServer<AdminService>>().await;
    // A model thread that has died is not restarted: load balancers should use another searcher.
    let health = health.until(async move {
        if towers.is_empty() {
            std::future::pending::<()>().await;
        }
        futures_util::future::select_all(towers.iter().map(|tower| Box::pin(tower.ended()))).await;
    });
    service::serve(listener, routes, health, shutdown, config).await
}
