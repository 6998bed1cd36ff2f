//! Searchers that are made to serve a change before its reply is sent, for clients that read what they have written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::admission::AdmissionLimit;
use dyad_proto::client::{AdminClient, ClientConfig, ClientError, check_url};
use dyad_proto::v1;
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout_at};

/// After the first attempt to have a searcher serve a generation; doubles from there.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Calls that may wait at once. Their changes are made: others are told at once that theirs are not searchable yet.
const WAITING: usize = 256;
/// How long the look at the searchers takes at most when the server starts.
const START_CHECK: Duration = Duration::from_secs(30);

/// The searchers of an index. Clones share them.
#[derive(Debug, Clone)]
pub struct IndexSearchers {
    searchers: Arc<[IndexSearcher]>,
    waiting: AdmissionLimit,
}

/// One searcher. It is connected to when it is first needed: it may start after this server.
#[derive(Debug)]
struct IndexSearcher {
    url: String,
    /// The name of the index there.
    index: String,
    config: ClientConfig,
    /// Locked while a call is under way: others that wait find what it came to.
    state: Mutex<SearcherState>,
}

#[derive(Debug, Default)]
struct SearcherState {
    client: Option<AdminClient>,
    last: Option<SearcherReload>,
}

/// What a reload came to.
#[derive(Debug, Clone, Copy)]
struct SearcherReload {
    began: Instant,
    /// The generation that the searcher served afterwards.
    generation: u64,
}

impl Default for IndexSearchers {
    fn default() -> Self {
        Self {
            searchers: Arc::default(),
            waiting: AdmissionLimit::new(WAITING),
        }
    }
}

impl IndexSearchers {
    /// The searchers whose `Admin` is at these addresses, and which know the index by `name`. Fails where one is not a
    /// server's URL.
    pub fn new(urls: &[String], name: &str, config: &ClientConfig) -> Result<Self, ClientError> {
        let urls: BTreeSet<&String> = urls.iter().collect();
        for url in &urls {
            check_url(url)?;
        }
        let searcher = |url: &String| IndexSearcher {
            url: url.clone(),
            index: name.to_owned(),
            config: config.clone(),
            state: Mutex::default(),
        };
        let searchers = urls.into_iter().map(searcher).collect();
        Ok(Self {
            searchers,
            ..Self::default()
        })
    }

    /// Has each of them reload the index once, and warns of those that do not: at the start, so that a wrong address or
    /// key is not found by the first client that waits.
    pub async fn check(&self) {
        let until = Instant::now() + START_CHECK;
        join_all(self.searchers.iter().map(|searcher| searcher.serve(0, until))).await;
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.searchers.is_empty()
    }

    /// Has all of them serve a generation, or a later one. Whether they do by then.
    pub(super) async fn serve(&self, generation: u64, until: Instant) -> bool {
        let Ok(_waiting) = self.waiting.try_admit(1) else {
            tracing::warn!(
                generation,
                "more than {WAITING} calls wait for searchers: another is told that its change is not served yet"
            );
            return false;
        };
        let served = self.searchers.iter().map(|searcher| searcher.serve(generation, until));
        join_all(served).await.into_iter().all(|is_served| is_served)
    }
}

impl IndexSearcher {
    async fn serve(&self, generation: u64, until: Instant) -> bool {
        let mut pause = FIRST_PAUSE;
        loop {
            // What others have come to meanwhile counts, and nothing before: the index may have been rolled back.
            let since = Instant::now();
            match timeout_at(until, self.reload_since(since)).await {
                Ok(Ok(served)) if served >= generation => return true,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    let hint = "`serve --searcher` is the address of its `Admin`, that of `dyad-searcher serve --admin-listen` where it has one";
                    tracing::warn!(searcher = self.url, generation, %error, hint, "a searcher does not serve a change");
                    if !error.is_transient() {
                        return false;
                    }
                }
                Err(_) => {
                    tracing::warn!(
                        searcher = self.url,
                        generation,
                        "a searcher has not served a change in time"
                    );
                    return false;
                }
            }
            sleep_until(until.min(Instant::now() + pause)).await;
            pause = LONGEST_PAUSE.min(2 * pause);
        }
    }

    /// The generation that it served after a reload that began at this time or later.
    async fn reload_since(&self, since: Instant) -> Result<u64, ClientError> {
        let mut state = self.state.lock().await;
        if let Some(last) = state.last.filter(|last| last.began >= since) {
            return Ok(last.generation);
        }
        let client = match &state.client {
            Some(client) => client.clone(),
            None => AdminClient::connect(&self.url, self.config.clone()).await?,
        };
        state.client = Some(client.clone());
        let began = Instant::now();
        let request = v1::ReloadRequest {
            index: self.index.clone(),
        };
        let generation = client.reload(request).await?.generation;
        state.last = Some(SearcherReload { began, generation });
        Ok(generation)
    }
}
