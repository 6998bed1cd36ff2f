//! Bind and serve: health, reflection, message limits, drain.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic_health::server::HealthReporter;

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
    /// Requests were still running when the drain deadline passed.
    #[error("requests were still running {0:?} after the signal to stop, and were dropped")]
    Drain(Duration),
}

/// How a server runs.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// How long running requests may take to finish after the signal to stop.
    pub drain: Duration,
    /// Requests that one connection may have under way.
    pub concurrency_per_connection: usize,
    /// Longest time for any request; a shorter client deadline wins.
    pub timeout: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { drain: Duration::from_secs(20), concurrency_per_connection: 256, timeout: Duration::from_mins(10) }
    }
}

/// The standard health service (`grpc.health.v1`) and its switch.
#[derive(Debug)]
pub struct Health {
    reporter: HealthReporter,
    names: Vec<&'static str>,
}

impl Health {
    /// Everything unknown until [`Health::serving`] names it.
    pub fn new() -> Self {
        Self { reporter: HealthReporter::new(), names: Vec::new() }
    }

    /// Reports a service as serving, until the drain begins.
    pub async fn serving<S: NamedService>(mut self) -> Self {
        self.names.push(S::NAME);
        self.reporter.set_service_status(S::NAME, tonic_health::ServingStatus::Serving).await;
        self
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
    TcpListener::bind(address).await.map_err(|reason| ServeError::Bind { address: address.to_owned(), reason, option })
}

/// What to do about an address that cannot be listened on.
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
/// Health flips to `NOT_SERVING` before the drain, so that load balancers turn away first.
pub async fn serve(
    listener: TcpListener,
    routes: Routes,
    health: Health,
    shutdown: impl Future<Output = ()> + Send + 'static,
    config: ServerConfig,
) -> Result<(), ServeError> {
    let address: Option<SocketAddr> = listener.local_addr().ok();
    let Health { reporter, names } = health;
    let health_service = tonic_health::pb::health_server::HealthServer::new(
        tonic_health::server::HealthService::from_health_reporter(reporter.clone()),
    );
    let reflection = || {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .with_service_name("grpc.health.v1.Health");
        // The descriptors know every service of dyad; this server has these.
        names.iter().fold(builder, |builder, name| builder.with_service_name(*name))
    };
    // Python's and other older clients know the first name of the service only.
    let (reflection, older_reflection) = (reflection().build_v1()?, reflection().build_v1alpha()?);

    let drain = config.drain;
    let (begun, drain_begins) = oneshot::channel::<()>();
    let stop = async move {
        shutdown.await;
        for name in names {
            reporter.set_service_status(name, tonic_health::ServingStatus::NotServing).await;
        }
        // Nobody listens any more once the server has failed, and then nothing is left to drain.
        let _ = begun.send(());
    };
    let server = Server::builder()
        .concurrency_limit_per_connection(config.concurrency_per_connection)
        .timeout(config.timeout)
        .tcp_nodelay(true)
        .http2_keepalive_interval(Some(Duration::from_secs(30)))
        .add_routes(routes)
        .add_service(health_service)
        .add_service(reflection)
        .add_service(older_reflection)
        .serve_with_incoming_shutdown(TcpListenerStream::new(listener), stop);
    let deadline = async move {
        if drain_begins.await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(drain).await;
    };
    tokio::select! {
        result = server => { result?; }
        () = deadline => return Err(ServeError::Drain(drain)),
    }
    tracing::info!(address = address.map(|a| a.to_string()), "stopped");
    Ok(())
}
