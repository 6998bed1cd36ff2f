//! Binds and serves: health, reflection, limits on connections and messages, drain.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use super::bounded::{self, CallObserver};
use super::incoming::{self, incoming};
use super::schema::Schema;
use super::security::Security;
use crate::v1;

/// A server that cannot start or that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is not `HOST:PORT` or cannot be listened on.
    #[error("cannot listen on `{address}`: {reason}. {}", hint(reason, option))]
    Bind {
        /// As given.
        address: String,
        /// The system's reason.
        reason: io::Error,
        /// The option that the address was given with.
        option: &'static str,
    },
    /// The transport failed.
    #[error("serving failed")]
    Transport(#[from] tonic::transport::Error),
    /// The reflection service could not be built from the compiled `.proto` files.
    #[error("reflection cannot be built")]
    Reflection(#[from] tonic_reflection::server::Error),
    /// The compiled `.proto` files cannot be read.
    #[error("the descriptors of the services cannot be read")]
    Descriptors(#[from] prost::DecodeError),
    /// Requests were still running when the drain deadline passed.
    #[error("requests were still running {0:?} after the signal to stop, and were dropped")]
    Drain(Duration),
}

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

/// The standard health service (`grpc.health.v1`) and its switch. The name `""` is the server as a whole.
pub struct Health {
    reporter: HealthReporter,
    names: Vec<&'static str>,
    ready: watch::Receiver<bool>,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

impl Health {
    /// Everything unknown until [`Health::serving`] names it.
    pub fn new() -> Self {
        Self {
            reporter: HealthReporter::new(),
            names: Vec::new(),
            ready: watch::channel(true).1,
        }
    }

    /// Reports a service as serving, until the drain begins.
    pub async fn serving<S: NamedService>(mut self) -> Self {
        self.names.push(S::NAME);
        self.reporter.set_service_status(S::NAME, ServingStatus::Serving).await;
        self
    }

    /// Reports everything as not serving while `ready` is false.
    #[must_use]
    pub fn while_ready(mut self, ready: watch::Receiver<bool>) -> Self {
        self.ready = ready;
        self
    }
}

/// Reports everything as serving, or not.
async fn report(reporter: &HealthReporter, names: &[&str], serving: bool) {
    let status = if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    };
    for name in names.iter().copied().chain([""]) {
        reporter.set_service_status(name, status).await;
    }
}

/// Reports changes of `ready`, for ever.
async fn follow(mut ready: watch::Receiver<bool>, reporter: &HealthReporter, names: &[&str]) {
    let mut reported = true;
    loop {
        let serving = *ready.borrow_and_update();
        if serving != reported {
            report(reporter, names, serving).await;
            reported = serving;
        }
        // Nobody will say otherwise.
        if ready.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}

/// Listens on `HOST:PORT`, which the option `--listen` gave; port 0 lets the system choose.
pub async fn bind(address: &str) -> Result<TcpListener, ServeError> {
    bind_for(address, "--listen").await
}

/// As [`bind`], for an address that another option gave; errors name it.
pub async fn bind_for(address: &str, option: &'static str) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|reason| ServeError::Bind {
        address: address.to_owned(),
        reason,
        option,
    })
}

/// The fix for an address that cannot be listened on.
fn hint(reason: &io::Error, option: &str) -> String {
    match reason.kind() {
        io::ErrorKind::AddrInUse => {
            format!("End the process that holds the port, or choose another one with `{option}`")
        }
        io::ErrorKind::PermissionDenied => {
            format!("Ports below 1024 need privileges: choose a higher one with `{option}`")
        }
        _ => format!("`{option}` takes HOST:PORT, for example 127.0.0.1:7700"),
    }
}

/// Serves until `shutdown` completes, then lets running requests finish within the drain deadline.
///
/// Health becomes `NOT_SERVING` first, so that load balancers stop sending requests during the lame-duck pause. Then
/// the port is closed, health watches end, and streams of requests end after the requests received so far. Connections
/// that are merely open at the deadline are closed; a request that is cut off is an error.
pub async fn serve(
    listener: TcpListener,
    routes: Routes,
    health: Health,
    shutdown: impl Future<Output = ()> + Send + 'static,
    config: ServerConfig,
) -> Result<(), ServeError> {
    let address: Option<SocketAddr> = listener.local_addr().ok();
    let Health {
        mut reporter,
        names,
        ready,
    } = health;
    let health_service = tonic_health::pb::health_server::HealthServer::new(
        tonic_health::server::HealthService::from_health_reporter(reporter.clone()),
    );
    let reflection = || {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .with_service_name("grpc.health.v1.Health");
        // The descriptors know every service of dyad; this server has these.
        names
            .iter()
            .fold(builder, |builder, name| builder.with_service_name(*name))
    };
    // Older clients, such as Python's, know only the first name of the service.
    let (reflection, older_reflection) = (reflection().build_v1()?, reflection().build_v1alpha()?);
    let schema = Schema::new(&[
        v1::FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ])?;

    let (drain, lame_duck) = (config.drain, config.lame_duck);
    let (begun, drain_begins) = oneshot::channel::<()>();
    let (draining, drained) = watch::channel(false);
    let under_way = Arc::new(AtomicUsize::new(0));
    let stop = async move {
        tokio::select! {
            () = shutdown => {}
            () = follow(ready, &reporter, &names) => {}
        }
        report(&reporter, &names, false).await;
        tokio::time::sleep(lame_duck).await;
        // The receiver is gone once the server has failed, and then nothing is left to drain.
        let _ = draining.send(true);
        for name in names.iter().copied().chain([""]) {
            reporter.clear_service_status(name).await;
        }
        let _ = begun.send(());
    };
    let bounds = incoming::ConnectionBounds {
        connections: config.connections.max(1),
        preface: config.preface_timeout,
        reply_stall: config.reply_stall,
        draining: drained.clone(),
        tls: config.security.tls.clone(),
        has_keys: config.security.access.has_keys(),
    };
    let access = config.security.access.clone();
    let server = Server::builder()
        .concurrency_limit_per_connection(config.concurrency_per_connection)
        .max_concurrent_streams(u32::try_from(config.concurrency_per_connection).ok())
        .timeout(config.timeout)
        .max_connection_age(config.connection_age)
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .layer(bounded::BoundedLayer::new(
            schema,
            drained,
            Arc::clone(&under_way),
            (access, config.observer),
        ))
        .add_routes(routes)
        .add_service(health_service)
        .add_service(reflection)
        .add_service(older_reflection)
        .serve_with_incoming_shutdown(incoming(listener, bounds), stop);
    let deadline = async move {
        if drain_begins.await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        result = server => { result?; }
        () = deadline => {
            if under_way.load(Ordering::Relaxed) > 0 {
                return Err(ServeError::Drain(drain));
            }
            tracing::warn!("connections were still open {drain:?} after the end of listening, and were closed");
        }
    }
    tracing::info!(address = address.map(|a| a.to_string()), "stopped");
    Ok(())
}
