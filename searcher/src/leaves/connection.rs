//! One leaf: a connection that is made again and again, what the leaf has said last, and its load.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use dyad_proto::client::{ClientConfig, ClientError, LeafClient};
use dyad_proto::v1;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::held::LeafState;
use super::load::LeafLoad;

/// A leaf that has reported nothing for so many of these does not count: it says something in each.
const TICK: Duration = Duration::from_secs(1);
/// They are counted one by one, each as it is seen to end: where this process itself did not run for a while, one has
/// passed, and what leaves have reported meanwhile is read before the next one has.
const SILENT_TICKS: u32 = 4;
/// Between two tries to connect.
const RETRY: Duration = Duration::from_millis(500);
/// How long a leaf that has said that it leaves may still answer calls: they are not given up because it reports
/// nothing any more.
const DRAIN: Duration = Duration::from_mins(1);
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
    /// The name that it has said last.
    said_name: ArcSwapOption<String>,
    state: ArcSwapOption<LeafState>,
    /// It has refused what it has reported, so that its report is asked for anew.
    is_distrusted: AtomicBool,
    /// When it has said that it leaves.
    leaving_since: ArcSwapOption<Instant>,
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
            said_name: ArcSwapOption::empty(),
            state: ArcSwapOption::empty(),
            is_distrusted: AtomicBool::new(false),
            leaving_since: ArcSwapOption::empty(),
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
        let watched = unless_silent(client.watch()).await;
        let watched = watched.unwrap_or_else(|| Err(self.is_silent()));
        let mut reports = watched.inspect_err(|_| self.forget(changed))?;
        loop {
            let contract = |reason: String| ClientError::Contract {
                url: self.address.url(),
                reason,
            };
            let report = match unless_silent(reports.message()).await {
                Some(Ok(Some(report))) => report,
                // It ends, or its connection has reached its age: it is called again.
                Some(Ok(None)) => return Ok(()),
                Some(Err(status)) => {
                    self.forget(changed);
                    return Err(ClientError::from_status(&self.address.url(), 1, &status));
                }
                None => {
                    self.forget(changed);
                    return Err(self.is_silent());
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
            self.keep(state);
            changed.notify_waiters();
        }
    }

    /// Its address is a leaf's no more: it is not followed further. Calls under way go on.
    pub(crate) fn end(&self) {
        if let Some(task) = self.task.get() {
            task.abort();
        }
    }

    fn is_silent(&self) -> ClientError {
        ClientError::Deadline {
            url: self.address.url(),
            reason: format!("no report for {:?}", TICK * SILENT_TICKS),
        }
    }

    fn keep(&self, state: LeafState) {
        let known = self.leaving_since.load_full();
        let since = state
            .is_leaving
            .then(|| known.unwrap_or_else(|| Arc::new(Instant::now())));
        self.leaving_since.store(since);
        if self.said_name.load().as_deref() != Some(&state.name) {
            self.said_name.store(Some(Arc::new(state.name.clone())));
        }
        self.state.store(Some(Arc::new(state)));
    }

    /// When it will have had enough time to end, where it has said that it leaves.
    fn drained_at(&self) -> Option<Instant> {
        let at = *self.leaving_since.load_full()? + DRAIN;
        (at > Instant::now()).then_some(at)
    }

    fn forget(&self, changed: &Notify) {
        self.state.store(None);
        changed.notify_waiters();
    }

    /// Where it is.
    pub(crate) fn address(&self) -> &LeafAddress {
        &self.address
    }

    /// Its name, also while it is not there; its URL before it has reported.
    pub(crate) fn name(&self) -> String {
        self.said_name
            .load()
            .as_deref()
            .map_or_else(|| self.address.url(), Clone::clone)
    }

    /// The name that it has said last; empty before it has reported.
    pub(crate) fn said_name(&self) -> String {
        self.said_name.load().as_deref().cloned().unwrap_or_default()
    }

    /// The connection, once there is one.
    pub(crate) fn client(&self) -> Option<Arc<LeafClient>> {
        self.client.load_full()
    }

    /// What it has said last; nothing where it is not there.
    pub(crate) fn state(&self) -> Option<Arc<LeafState>> {
        self.state.load_full()
    }

    /// Completes when it is not there any more: it has ended, or hangs. One that has said that it leaves may answer
    /// what it was asked before.
    pub(crate) async fn until_gone(&self, changed: &Notify) {
        loop {
            let next = changed.notified();
            tokio::pin!(next);
            // Before the look, so that no change is missed after it.
            next.as_mut().enable();
            if self.state().is_some() {
                next.await;
                continue;
            }
            let Some(drained) = self.drained_at() else { return };
            // Whichever comes first.
            _ = tokio::time::timeout_at(drained, next).await;
        }
    }

    /// Its load.
    pub(crate) fn load(&self) -> &Arc<LeafLoad> {
        &self.load
    }

    /// It has refused shards of a generation that it reports: they are asked for elsewhere until it reports anew.
    pub(crate) fn distrust(&self, generation: &v1::GenerationName, changed: &Notify) {
        let without = |state: &Option<Arc<LeafState>>| state.as_ref().map(|state| Arc::new(state.without(generation)));
        self.state.rcu(without);
        self.is_distrusted.store(true, Ordering::Relaxed);
        changed.notify_waiters();
    }
}

/// What a leaf says; nothing where it says nothing for too long.
async fn unless_silent<T>(said: impl Future<Output = T>) -> Option<T> {
    let mut said = std::pin::pin!(said);
    for _ in 0..SILENT_TICKS {
        if let Ok(said) = tokio::time::timeout(TICK, said.as_mut()).await {
            return Some(said);
        }
    }
    None
}

#[cfg(test)]
impl LeafConnection {
    /// A leaf that a test describes: nothing is connected to.
    pub(super) fn of_test(address: LeafAddress, client: LeafClient) -> Arc<Self> {
        Arc::new(Self {
            address,
            client: ArcSwapOption::from_pointee(client),
            said_name: ArcSwapOption::empty(),
            state: ArcSwapOption::empty(),
            is_distrusted: AtomicBool::new(false),
            leaving_since: ArcSwapOption::empty(),
            load: Arc::default(),
            task: OnceLock::new(),
        })
    }

    /// What it says from now on; nothing where it is gone.
    pub(super) fn say(&self, state: Option<LeafState>, changed: &Notify) {
        match state {
            Some(state) => self.keep(state),
            None => self.state.store(None),
        }
        changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_leaf_is_not_silent_where_this_process_did_not_run() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let listening = tokio::spawn(unless_silent(told));
        tokio::task::yield_now().await;
        // As where the process is stopped: no timer is seen to end meanwhile. What was said comes a moment later.
        std::thread::sleep(TICK * (SILENT_TICKS + 1));
        tokio::spawn(async move {
            tokio::time::sleep(TICK / 2).await;
            tell.send("report")
        });
        assert_eq!(listening.await.unwrap(), Some(Ok("report")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_leaf_that_says_nothing_is_silent() {
        let began = Instant::now();
        assert_eq!(unless_silent(std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed(), TICK * SILENT_TICKS);
    }
}
