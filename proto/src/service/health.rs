//! The standard health service (`grpc.health.v1`).

use tokio::sync::watch;
use tonic::server::NamedService;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};

/// The standard health service (`grpc.health.v1`) and its switch. The name `""` is the server as a whole.
pub struct Health {
    reporter: HealthReporter,
    /// Of the services; the first is the server as a whole.
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
            names: vec![""],
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

    /// The names of the services.
    pub(super) fn services(&self) -> impl Iterator<Item = &'static str> {
        self.names.iter().copied().skip(1)
    }

    /// The gRPC service.
    pub(super) fn service(&self) -> HealthServer<HealthService> {
        HealthServer::new(HealthService::from_health_reporter(self.reporter.clone()))
    }

    /// Reports everything as serving, or not.
    pub(super) async fn report(&self, serving: bool) {
        let status = if serving {
            ServingStatus::Serving
        } else {
            ServingStatus::NotServing
        };
        for name in &self.names {
            self.reporter.set_service_status(name, status).await;
        }
    }

    /// Reports changes of what `while_ready` gave, for ever.
    pub(super) async fn follow(&mut self) {
        let mut reported = true;
        loop {
            let serving = *self.ready.borrow_and_update();
            if serving != reported {
                self.report(serving).await;
                reported = serving;
            }
            // Nobody will say otherwise.
            if self.ready.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Ends watches: nothing is known any more.
    pub(super) async fn end(mut self) {
        for name in &self.names {
            self.reporter.clear_service_status(name).await;
        }
    }
}

impl Default for Health {
    fn default() -> Self {
        Self::new()
    }
}
