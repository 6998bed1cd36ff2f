//! One leaf: a connection that is made again and again, what the leaf has said last, and its load.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use dyad_proto::client::{ClientConfig, ClientError, LeafClient};
use dyad_proto::v1;
use tokio::sync::Notify;

use super::held::LeafState;
use super::load::LeafLoad;

/// A leaf that has reported nothing for so long does not count: it says something every second.
const SILENCE: Duration = Duration::from_secs(4);
/// Between two tries to connect.
const RETRY: Duration = Duration::from_millis(500);
/// Longest try to connect.
const CONNECT: Duration = Duration::from_secs(2);

/// Where a leaf is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LeafAddress {
    /// `https`, or `http`.
    pub(crate) scheme: String,
    /// The name that was looked up, of which the leaf's certificate is.
    pub(crate) host: String,
    /// Where it is.
    pub(crate) address: SocketAddr,
}

impl LeafAddress {
    /// As a URL.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }
}

/// A leaf.
#[derive(Debug)]
pub(crate) struct LeafConnection {
    address: LeafAddress,
    client: ArcSwapOption<LeafClient>,
    state: ArcSwapOption<LeafState>,
    /// It has refused what it has reported, so that its report is asked for anew.
    is_distrusted: AtomicBool,
    load: Arc<LeafLoad>,
    task: OnceLock<tokio::task::AbortHandle>,
}

impl Drop for LeafConnection {
    fn drop(&mut self) {
        self.end();
    }
}

impl LeafConnection {
    /// A leaf that is connected to from now on, until this is dropped. `changed` is told of every report that differs
    /// from the one before in what is held.
    pub(crate) fn start(address: LeafAddress, config: ClientConfig, changed: Arc<Notify>) -> Arc<Self> {
        let connection = Arc::new(Self {
            address,
            client: ArcSwapOption::empty(),
            state: ArcSwapOption::empty(),
            is_distrusted: AtomicBool::new(false),
            load: Arc::default(),
            task: OnceLock::new(),
        });
        let followed = Arc::downgrade(&connection);
        let task = tokio::spawn(async move {
            while let Some(leaf) = followed.upgrade() {
                let url = leaf.address.url();
                match leaf.connect(&config).await {
                    Ok(client) => {
                        leaf.client.store(Some(Arc::new(client)));
                        if let Err(error) = leaf.follow(&changed).await {
                            tracing::warn!(leaf = url, %error, "a leaf is not followed any more");
                        }
                    }
                    Err(error) => {
                        leaf.forget(&changed);
                        tracing::debug!(leaf = url, %error, "a leaf cannot be reached");
                    }
                }
                drop(leaf);
                tokio::time::sleep(RETRY).await;
            }
        });
        // Nobody else sets it.
        _ = connection.task.set(task.abort_handle());
        connection
    }

    async fn connect(&self, config: &ClientConfig) -> Result<LeafClient, ClientError> {
        let config = ClientConfig {
            connect_timeout: CONNECT,
            attempts: 1,
            ..config.clone()
        };
        LeafClient::connect(&self.address.url(), &self.address.host, &config).await
    }

    /// Keeps what the leaf reports, until it reports nothing any more.
    async fn follow(&self, changed: &Notify) -> Result<(), ClientError> {
        let Some(client) = self.client() else { return Ok(()) };
        let watched = tokio::time::timeout(SILENCE, client.watch()).await;
        let watched = watched.unwrap_or_else(|_| {
            Err(ClientError::Deadline {
                url: self.address.url(),
                reason: format!("no report for {SILENCE:?}"),
            })
        });
        let mut reports = watched.inspect_err(|_| self.forget(changed))?;
        loop {
            let contract = |reason: String| ClientError::Contract {
                url: self.address.url(),
                reason,
            };
            let next = tokio::time::timeout(SILENCE, reports.message()).await;
            let report = match next {
                Ok(Ok(Some(report))) => report,
                // It ends, or its connection has reached its age: it is called again.
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(status)) => {
                    self.forget(changed);
                    return Err(ClientError::from_status(&self.address.url(), 1, &status));
                }
                Err(_) => {
                    self.forget(changed);
                    return Err(ClientError::Deadline {
                        url: self.address.url(),
                        reason: format!("no report for {SILENCE:?}"),
                    });
                }
            };
            if report.is_unchanged {
                if self.is_distrusted.load(Ordering::Relaxed) {
                    return Ok(());
                }
                continue;
            }
            let state = LeafState::new(report)
                .map_err(|error| contract(format!("`certificate_json`: {error}")))
                .inspect_err(|_| self.forget(changed))?;
            self.is_distrusted.store(false, Ordering::Relaxed);
            self.state.store(Some(Arc::new(state)));
            changed.notify_waiters();
        }
    }

    /// Its address is a leaf's no more: it is not followed further. Calls under way go on.
    pub(crate) fn end(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    fn forget(&self, changed: &Notify) {
        self.state.store(None);
        changed.notify_waiters();
    }

    /// Where it is.
    pub(crate) fn address(&self) -> &LeafAddress {
        &self.address
    }

    /// Its name; its URL before it has reported.
    pub(crate) fn name(&self) -> String {
        self.state()
            .map_or_else(|| self.address.url(), |state| state.name.clone())
    }

    /// The connection, once there is one.
    pub(crate) fn client(&self) -> Option<Arc<LeafClient>> {
        self.client.load_full()
    }

    /// What it has said last; nothing where it is not there.
    pub(crate) fn state(&self) -> Option<Arc<LeafState>> {
        self.state.load_full()
    }

    /// Completes when it is not there any more: it has ended, or hangs.
    pub(crate) async fn until_gone(&self, changed: &Notify) {
        loop {
            let next = changed.notified();
            tokio::pin!(next);
            // Before the look, so that no change is missed after it.
            next.as_mut().enable();
            if self.state().is_none() {
                return;
            }
            next.await;
        }
    }

    /// Its load.
    pub(crate) fn load(&self) -> &Arc<LeafLoad> {
        &self.load
    }

    /// It has refused shards of a generation that it reports: they are asked for elsewhere until it reports anew.
    pub(crate) fn distrust(&self, generation: &v1::GenerationName, changed: &Notify) {
        self.is_distrusted.store(true, Ordering::Relaxed);
        if let Some(state) = self.state() {
            self.state.store(Some(Arc::new(state.without(generation))));
            changed.notify_waiters();
        }
    }
}

#[cfg(test)]
impl LeafConnection {
    /// A leaf that a test describes: nothing is connected to.
    pub(super) fn of_test(address: LeafAddress, client: LeafClient) -> Arc<Self> {
        Arc::new(Self {
            address,
            client: ArcSwapOption::from_pointee(client),
            state: ArcSwapOption::empty(),
            is_distrusted: AtomicBool::new(false),
            load: Arc::default(),
            task: OnceLock::new(),
        })
    }

    /// What it says from now on; nothing where it is gone.
    pub(super) fn say(&self, state: Option<LeafState>, changed: &Notify) {
        self.state.store(state.map(Arc::new));
        changed.notify_waiters();
    }
}
