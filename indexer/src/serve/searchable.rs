//! Searchers that are made to serve a change before its reply is sent, for clients that read what they have written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::client::{AdminClient, ClientConfig, ClientError, check_url};
use dyad_proto::v1;
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

/// Between two attempts to have a searcher serve a generation.
const PAUSE: Duration = Duration::from_millis(50);

/// The searchers of an index. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct IndexSearchers {
    searchers: Arc<[IndexSearcher]>,
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
    /// The generation that the searcher served last, as far as is known.
    served: u64,
}

/// What a searcher has to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WantedGeneration {
    /// This one, or a later one.
    AtLeast(u64),
    /// The current one, whatever was served before.
    Current,
}

impl IndexSearchers {
    /// The searchers at these addresses, which know the index by `name`. Fails where one is not a server's URL.
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
        Ok(Self { searchers })
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.searchers.is_empty()
    }

    /// Has all of them serve the generation of a change, or the current one where it has changed nothing. Whether they
    /// do by then.
    pub(super) async fn serve(&self, made: &v1::ChangeResponse, until: Instant) -> bool {
        let wanted = match made.generation {
            0 => WantedGeneration::Current,
            generation => WantedGeneration::AtLeast(generation),
        };
        let served = self.searchers.iter().map(|searcher| searcher.serve(wanted, until));
        join_all(served).await.into_iter().all(|is_served| is_served)
    }
}

impl IndexSearcher {
    async fn serve(&self, wanted: WantedGeneration, until: Instant) -> bool {
        loop {
            match timeout_at(until, self.attempt(wanted)).await {
                Ok(Ok(true)) => return true,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(searcher = self.url, %error, "a searcher does not serve a change yet");
                    if !error.is_transient() {
                        return false;
                    }
                }
                Err(_) => {
                    let index = &*self.index;
                    tracing::warn!(
                        searcher = self.url,
                        index,
                        ?wanted,
                        "a searcher has not served a change in time"
                    );
                    return false;
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Has it serve what `CURRENT` names, unless it serves what is wanted. Whether it does now.
    async fn attempt(&self, wanted: WantedGeneration) -> Result<bool, ClientError> {
        let mut state = self.state.lock().await;
        if wanted.is_met_by(state.served) {
            return Ok(true);
        }
        let client = match &state.client {
            Some(client) => client.clone(),
            None => AdminClient::connect(&self.url, self.config.clone()).await?,
        };
        state.client = Some(client.clone());
        let request = v1::ReloadRequest {
            index: self.index.clone(),
        };
        state.served = client.reload(request).await?.generation;
        Ok(wanted == WantedGeneration::Current || wanted.is_met_by(state.served))
    }
}

impl WantedGeneration {
    /// Whether a searcher that served this generation a moment ago need not be asked.
    const fn is_met_by(self, served: u64) -> bool {
        match self {
            Self::AtLeast(generation) => served >= generation,
            Self::Current => false,
        }
    }
}
