//! The thread that keeps mirrors.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_files::space::ByteSize;
use dyad_store::{LearnedMove, LearnedOutcome, Pulled};
use futures_util::{StreamExt as _, stream};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::index::MirroredIndex;
use crate::error::{Error, Result};
use crate::metrics::SearcherMetrics;

/// Stores that are asked at once.
const AT_ONCE: usize = 8;
/// Between two tries at the start.
const RETRY: Duration = Duration::from_secs(1);
/// How long a reload waits for another searcher that fetches the same index into the same cache.
const OTHERS: Duration = Duration::from_mins(5);
/// Longest pause after failures, where the pause without any is shorter.
const LONGEST: Duration = Duration::from_mins(5);
/// The same after questions that a store has not answered, which cost little: what was published while it was away is
/// not to wait for minutes once it is back.
const LONGEST_UNANSWERED: Duration = Duration::from_secs(15);

/// What the thread is to do.
#[derive(Debug)]
pub(super) enum Order {
    /// To fetch the store's current generation, and say when it is there.
    Refresh {
        name: String,
        done: oneshot::Sender<Result<()>>,
    },
    /// To remove all generations but the current one and this one.
    Tidy { name: String, keep: u64 },
    /// To ask every store at these intervals.
    Follow {
        pause: Duration,
        metrics: Arc<SearcherMetrics>,
    },
}

/// A mirror, and what is known of its store.
struct KeptMirror {
    index: MirroredIndex,
    failures: u32,
    next: Instant,
}

/// All mirrors.
pub(super) struct Keeper {
    all: Vec<KeptMirror>,
    following: Option<(Duration, Arc<SearcherMetrics>)>,
    stop: Arc<AtomicBool>,
    fetched: Arc<Notify>,
}

impl Keeper {
    pub(super) fn new(indexes: Vec<MirroredIndex>, stop: Arc<AtomicBool>, fetched: Arc<Notify>) -> Self {
        let kept = |index| KeptMirror {
            index,
            failures: 0,
            next: Instant::now(),
        };
        Self {
            all: indexes.into_iter().map(kept).collect(),
            following: None,
            stop,
            fetched,
        }
    }

    /// Fetches what is not there yet; `wait` is the patience with all stores together.
    pub(super) async fn begin(&self, wait: Duration) -> Result<()> {
        let deadline = Instant::now() + wait;
        for kept in &self.all {
            kept.begin(deadline, &self.stop).await?;
        }
        Ok(())
    }

    /// Does what is ordered, until nobody can order any more.
    pub(super) async fn work(&mut self, mut orders: mpsc::Receiver<Order>) {
        loop {
            let next = self
                .all
                .iter()
                .map(|kept| kept.next)
                .min()
                .filter(|_| self.following.is_some());
            let due = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                order = orders.recv() => match order {
                    Some(order) => self.carry_out(order).await,
                    None => return,
                },
                () = due => self.look().await,
            }
        }
    }

    async fn carry_out(&mut self, order: Order) {
        match order {
            Order::Refresh { name, done } => {
                let Some(kept) = self.all.iter().find(|kept| kept.index.name == name) else {
                    return;
                };
                let fetched = match kept.index.look().await {
                    Ok(_) => kept.fetch_with_others(&self.stop).await.map(drop),
                    Err(error) => Err(error),
                };
                // One that does not wait any more has the generation served by the next reload.
                drop(done.send(fetched));
            }
            Order::Tidy { name, keep } => {
                self.all
                    .iter()
                    .filter(|kept| kept.index.name == name)
                    .for_each(|kept| kept.index.tidy(Some(keep)));
            }
            Order::Follow { pause, metrics } => {
                self.following = Some((pause, metrics));
                self.all.iter_mut().for_each(|kept| kept.next = Instant::now());
            }
        }
    }

    /// Asks the stores whose time has come, and fetches what they have.
    async fn look(&mut self) {
        let Some((pause, metrics)) = self.following.clone() else {
            return;
        };
        let now = Instant::now();
        let ask = async |kept: &KeptMirror| {
            if kept.next <= now {
                Some(kept.index.look().await)
            } else {
                None
            }
        };
        let asked: Vec<Option<Result<String>>> = stream::iter(&self.all).map(ask).buffered(AT_ONCE).collect().await;
        for (kept, pointer) in self.all.iter_mut().zip(asked) {
            let Some(pointer) = pointer else { continue };
            let longest = match &pointer {
                Err(error) if may_pass(error) => LONGEST_UNANSWERED,
                _ => LONGEST,
            };
            let fetched = match pointer {
                Ok(pointer) if kept.index.has(&pointer) => Ok(false),
                Ok(_) => kept.fetch(&self.stop).await,
                Err(error) => Err(error),
            };
            let name = &kept.index.name;
            match fetched {
                Ok(is_new) => {
                    if kept.failures > 0 {
                        tracing::info!(index = name, "the index's store can be followed again");
                    }
                    kept.failures = 0;
                    kept.next = Instant::now() + pause;
                    if is_new {
                        self.fetched.notify_one();
                    }
                }
                Err(error) if self.stop.load(Ordering::Relaxed) || is_held(&error) => {
                    kept.next = Instant::now() + pause;
                }
                Err(error) => {
                    let again = back_off(pause, kept.failures, longest);
                    kept.failures += 1;
                    kept.next = Instant::now() + again;
                    metrics.reload(name, false);
                    tracing::warn!(%error, "cannot follow a store; what is served is served on, next try in {again:?}");
                }
            }
        }
    }
}

impl KeptMirror {
    async fn begin(&self, deadline: Instant, stop: &AtomicBool) -> Result<()> {
        loop {
            let fetched = match self.index.look().await {
                // Of a rollback on this machine.
                Ok(pointer) if self.index.mirror.is_rolled_back(&pointer) => Ok(false),
                Ok(_) => self.fetch(stop).await,
                Err(error) => Err(error),
            };
            let Err(error) = fetched else {
                self.index.tidy(None);
                return Ok(());
            };
            let (name, url) = (&self.index.name, self.index.mirror.remote().url());
            if let Some(generation) = self.index.mirror.generation() {
                tracing::warn!(%error, index = name, generation, url, "serving what was fetched before: the store's generation cannot be");
                return Ok(());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !may_pass(&error) || stop.load(Ordering::Relaxed) {
                return Err(error);
            }
            tracing::info!(%error, "waiting {left:.0?} more for an index in a store");
            tokio::time::sleep(RETRY.min(left)).await;
        }
    }

    /// The same as [`Self::fetch`]; waits for a while where another searcher with the same cache fetches it.
    async fn fetch_with_others(&self, stop: &AtomicBool) -> Result<bool> {
        let deadline = Instant::now() + OTHERS;
        loop {
            match self.fetch(stop).await {
                Err(error) if is_held(&error) && Instant::now() < deadline && !stop.load(Ordering::Relaxed) => {}
                fetched => return fetched,
            }
        }
    }

    /// Fetches the store's current generation; says whether it is another one than before.
    async fn fetch(&self, stop: &AtomicBool) -> Result<bool> {
        let (name, began) = (&self.index.name, Instant::now());
        let of = |error| Error::Store {
            name: name.clone(),
            error: Box::new(error),
        };
        let Pulled {
            generation,
            files,
            bytes,
            present,
            is_new,
            learned,
        } = self.index.refresh(stop).await.map_err(of)?;
        if is_new {
            let (url, bytes, time) = (self.index.mirror.remote().url(), ByteSize(bytes), began.elapsed());
            tracing::info!(index = name, generation, url, files, %bytes, present, ?time, "fetched from a store");
        }
        for learned in &learned {
            self.tell(learned);
        }
        Ok(is_new)
    }

    /// Tells what became of a file of what was learned for the index.
    fn tell(&self, learned: &LearnedMove) {
        let (index, url) = (&self.index.name, self.index.mirror.remote().url());
        if matches!(learned.outcome, LearnedOutcome::Failed(_)) {
            tracing::warn!(index, url, "what was learned for the index: {learned}");
        } else {
            tracing::info!(index, url, "what was learned for the index: {learned}");
        }
    }
}

/// Whether another try may succeed without anyone's help.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::StoreLate { .. } => true,
        Error::Store { error, .. } => error.is_transient(),
        _ => false,
    }
}

/// Whether another searcher, with the same cache, fetches the index: then it is there soon.
fn is_held(error: &Error) -> bool {
    matches!(error, Error::Store { error, .. } if matches!(**error, dyad_store::Error::Held { .. }))
}

/// The pause after a failure that `failures` others came before.
fn back_off(pause: Duration, failures: u32, longest: Duration) -> Duration {
    pause.saturating_mul(1 << failures.min(20)).min(longest.max(pause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_never_shorter_than_asked_for() {
        let seconds = |pause, failures, longest| back_off(Duration::from_secs(pause), failures, longest).as_secs();
        assert_eq!(
            [0, 1, 2, 8, 9, 1_000].map(|failures| seconds(1, failures, LONGEST)),
            [1, 2, 4, 256, 300, 300]
        );
        assert_eq!(
            [0, 3, 4, 1_000].map(|failures| seconds(1, failures, LONGEST_UNANSWERED)),
            [1, 8, 15, 15]
        );
        assert_eq!(
            [0, 1, 1_000].map(|failures| seconds(3600, failures, LONGEST)),
            [3600; 3]
        );
    }
}
