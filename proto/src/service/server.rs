//! gRPC: a server's configuration, its services with health and reflection, and its drain.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::middleware::from_fn_with_state;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tonic::service::Routes;
use tonic_reflection::server::Builder;

use super::accept::serve_connections;
use super::bounded::{CallBounds, CallObserver};
use super::edge::{EdgeConfig, ServerEdge};
use super::health::Health;
use super::listen::ServeError;
use super::protocol::ServedProtocol;
use super::receive::inbox;
use super::schema::Schema;
use super::security::Security;
use crate::v1;

/// Time after which a connection on which no API key was accepted makes room, where others wait.
const STRANGER: Duration = Duration::from_secs(5);
/// Interval of the pings that find out whether a client is there.
const PING: Duration = Duration::from_secs(30);

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Time between `NOT_SERVING` and the end of listening, for load balancers to stop sending requests.
    pub lame_duck: Duration,
    /// Time for running requests to finish after that.
    pub drain: Duration,
    /// Connections at once; more wait in the system's queue.
    pub connections: usize,
    /// Age at which a connection ends, once its calls have: its client connects again, which a balancer of connections
    /// may send to another server.
    pub connection_age: Duration,
    /// Requests that one connection may have in flight.
    pub concurrency_per_connection: usize,
    /// Longest time for any request; a shorter client deadline wins.
    pub timeout: Duration,
    /// Longest time from the start of a connection to its HTTP/2 preface.
    pub preface_timeout: Duration,
    /// Longest time for a client to read the next 64 KiB of a reply. After it the connection is closed.
    pub reply_stall: Duration,
    /// TLS, and the check of callers.
    pub security: Security,
    /// Told of calls, for metrics.
    pub observer: Option<Arc<dyn CallObserver>>,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            lame_duck: Duration::ZERO,
            drain: Duration::from_secs(20),
            connections: 1024,
            connection_age: Duration::from_mins(30),
            concurrency_per_connection: 256,
            timeout: Duration::from_mins(10),
            preface_timeout: Duration::from_secs(10),
            reply_stall: Duration::from_secs(10),
            security: Security::default(),
            observer: None,
        }
    }
}

/// Serves until `shutdown` completes, then lets running requests finish within the drain deadline.
///
/// Health becomes `NOT_SERVING` first, so that load balancers stop sending requests during the lame-duck pause. Then
/// health watches end, the port is closed, and streams of requests end after the requests received so far. Connections
/// that are merely open at the deadline are closed; a request that is cut off is an error.
pub async fn serve(
    listener: TcpListener,
    routes: Routes,
    mut health: Health,
    shutdown: impl Future<Output = ()> + Send + 'static,
    config: ServerConfig,
) -> Result<(), ServeError> {
    let lame_duck = config.lame_duck;
    let edge = ServerEdge::new(edge_config(&config));
    let bounds = Arc::new(CallBounds {
        schema: Arc::new(schema()?),
        inbox: inbox(),
        draining: edge.draining(),
        timeout: config.timeout,
        access: config.security.access,
        observer: config.observer,
    });
    let routes = with_reflection(routes, &health)?.add_service(health.service());
    let stop = async move {
        tokio::select! {
            () = shutdown => {}
            () = health.follow() => {}
        }
        health.report(false).await;
        tokio::time::sleep(lame_duck).await;
        health.end().await;
    };
    let routes = routes
        .into_axum_router()
        .layer(from_fn_with_state(bounds, CallBounds::answer));
    serve_connections(listener, routes, stop, edge).await
}

fn edge_config(config: &ServerConfig) -> EdgeConfig {
    let mut wire = auto::Builder::new(TokioExecutor::new()).http2_only();
    wire.http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(config.concurrency_per_connection).ok())
        .keep_alive_interval(Some(PING));
    EdgeConfig {
        protocol: ServedProtocol::Grpc,
        wire,
        tls: config.security.tls.clone(),
        connections: config.connections,
        // A call with a key holds the slot for good.
        gives_way: (config.security.access.has_keys()).then_some(STRANGER.min(config.preface_timeout)),
        opening: config.preface_timeout,
        connection_age: config.connection_age,
        reply_stall: config.reply_stall,
        drain: config.drain,
    }
}

/// The messages that are checked before they are decoded.
fn schema() -> Result<Schema, ServeError> {
    Ok(Schema::new(&[
        v1::FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ])?)
}

/// The routes, and their reflection by both names: older clients, such as Python's, know only the first.
fn with_reflection(routes: Routes, health: &Health) -> Result<Routes, ServeError> {
    let builder = || {
        let builder = Builder::configure()
            .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .with_service_name("grpc.health.v1.Health");
        // The descriptors know every service of dyad; this server has these.
        health.services().fold(builder, Builder::with_service_name)
    };
    Ok(routes
        .add_service(builder().build_v1()?)
        .add_service(builder().build_v1alpha()?))
}
