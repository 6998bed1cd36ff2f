//! Indexes of object stores, mirrored into directories, which are served as any other.
//!
//! Stores are asked, and generations fetched, verified and removed, on one thread with a small runtime of its own:
//! files are read and written there too, and an I/O thread of requests must not wait for them. Indexes are fetched one
//! after another, so that they share the cache's limit.
//!
//! | file | contents |
//! |---|---|
//! | `index.rs` | an index that is mirrored |
//! | `keeper.rs` | the thread: what it fetches, when it looks again, and what it removes |

mod index;
mod keeper;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};

use crate::error::{Error, Result};
use crate::metrics::SearcherMetrics;
pub use index::MirroredIndex;
use keeper::{Keeper, Order};

/// Orders that wait.
const ORDERS: usize = 64;
/// How long a reload waits until its generation has been fetched.
const PATIENCE: Duration = Duration::from_mins(10);

/// The mirrors of a searcher. Their thread ends when this is dropped, after what it is doing.
#[derive(Debug)]
pub struct Mirrors {
    names: BTreeSet<String>,
    orders: mpsc::Sender<Order>,
    fetched: Arc<Notify>,
}

impl Mirrors {
    /// Fetches the current generation of every index. Where a store does not answer, or its generation cannot be
    /// fetched, one that was fetched before is taken, with a warning; without one, a store that does not answer or has
    /// no index yet is asked again until `wait` is over. Once `stop` is true, what is being fetched is left for the
    /// next start.
    pub async fn start(indexes: Vec<MirroredIndex>, wait: Duration, stop: Arc<AtomicBool>) -> Result<Self> {
        let names = indexes.iter().map(|index| index.name.clone()).collect();
        let (orders, queue) = mpsc::channel(ORDERS);
        let (begun, outcome) = oneshot::channel();
        let fetched = Arc::new(Notify::new());
        let mut keeper = Keeper::new(indexes, stop, Arc::clone(&fetched));
        let failed = |error: std::io::Error| Error::Threads(error.to_string());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let work = move || {
            runtime.block_on(async {
                let first = keeper.begin(wait).await;
                let goes_on = first.is_ok();
                // Nobody waits for it where the start was interrupted.
                if begun.send(first).is_ok() && goes_on {
                    keeper.work(queue).await;
                }
            });
        };
        std::thread::Builder::new()
            .name("dyad-mirrors".to_owned())
            .spawn(work)
            .map_err(failed)?;
        outcome.await.map_err(|_| Error::Internal)??;
        Ok(Self { names, orders, fetched })
    }

    /// Fetches the store's current generation, where an index of this name is mirrored, and it is not there yet.
    pub(crate) async fn refresh(&self, name: &str) -> Result<()> {
        if !self.names.contains(name) {
            return Ok(());
        }
        let fetched = async {
            let (done, outcome) = oneshot::channel();
            let order = Order::Refresh {
                name: name.to_owned(),
                done,
            };
            self.orders.send(order).await.map_err(|_| Error::Internal)?;
            outcome.await.map_err(|_| Error::Internal)?
        };
        let late = |_| {
            let reason =
                format!("generations are still being fetched after {PATIENCE:?}; that goes on. Reload again later");
            Err(Error::StoreLate {
                name: name.to_owned(),
                reason,
            })
        };
        tokio::time::timeout(PATIENCE, fetched).await.unwrap_or_else(late)
    }

    /// Another generation than `before` is served now: what neither is goes, unless it is read.
    pub(crate) fn served(&self, name: &str, before: u64) {
        if self.names.contains(name) {
            // Where too many orders wait, the next one does it.
            drop(self.orders.try_send(Order::Tidy {
                name: name.to_owned(),
                keep: before,
            }));
        }
    }

    /// Asks every store at intervals of `pause` from now on; failures are counted as those of reloads.
    pub(crate) async fn follow(&self, pause: Duration, metrics: Arc<SearcherMetrics>) {
        drop(self.orders.send(Order::Follow { pause, metrics }).await);
    }

    /// Completes when a generation has been fetched.
    pub(crate) async fn fetched(&self) {
        self.fetched.notified().await;
    }
}
