//! CPU work off the I/O threads: three thread pools, and admission by number of requests and by expected wait.
//!
//! A rayon thread that waits for a part of one job steals another job meanwhile. So that a graph search of a
//! millisecond never waits for a scan of a second, bulk work (costly searches, explanations, batches) has a thread pool
//! of its own, whose threads yield to the others. What one thread does alone needs no rayon, and has
//! [`SleepingThreads`].

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::admission::{AdmissionLimit, Admitted};
use tokio::sync::oneshot;

use super::cancellation::SearchCancellation;
use super::load::PoolLoad;
use super::threads::{SleepingThreads, yield_to_others};
use crate::error::{Error, Result};
use crate::plan::IndexSize;

/// Batches and streams take at most a quarter of the request slots, and so do single bulk requests.
const SHARE: usize = 4;

/// Of the threads for bulk work, as `nice` has it: where a thread for ordinary searches wants the same core, it gets
/// three times as much of it.
const BULK_NICENESS: i32 = 5;

/// Which thread pool does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) enum RequestClass {
    /// One question that costs about as much as an ordinary one.
    Interactive,
    /// The same over an index of one shard, or of none here, since leaves hold them: nothing is shared among threads.
    SingleShard,
    /// Costly questions, explanations, batches.
    Bulk,
}

impl RequestClass {
    /// That of a request with this cost.
    pub(in crate::run) fn from_cost(cost: Duration, size: IndexSize) -> Self {
        if size.is_costly(cost) {
            Self::Bulk
        } else {
            Self::Interactive
        }
    }

    /// That of the same work once it is known how many shards it is over.
    pub(in crate::run) fn over(self, shards: usize) -> Self {
        if self == Self::Interactive && shards <= 1 {
            Self::SingleShard
        } else {
            self
        }
    }
}

/// Admission control and the thread pools.
#[derive(Debug)]
pub(in crate::run) struct SearchPools {
    single: AdmissionLimit,
    single_bulk: AdmissionLimit,
    many: AdmissionLimit,
    /// Requests in flight of all classes.
    limit: usize,
    interactive: PoolWorkers,
    /// Threads for searches of one shard, whose jobs count as interactive ones.
    single_shard: SleepingThreads,
    bulk: PoolWorkers,
}

/// Slots of a class of requests: single searches, bulk ones, and batches and streams (many).
#[derive(Debug, Clone, Copy)]
pub struct SlotLoad {
    /// The class.
    pub class: &'static str,
    /// Slots that are taken.
    pub taken: usize,
    /// All of them.
    pub limit: usize,
}

/// A thread pool and its load.
#[derive(Debug)]
struct PoolWorkers {
    threads: rayon::ThreadPool,
    load: Arc<PoolLoad>,
}

impl PoolWorkers {
    /// `start` is called by each thread.
    fn new(name: &'static str, threads: usize, start: fn()) -> Result<Self> {
        let builder = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .start_handler(move |_| start());
        let threads = builder.thread_name(move |number| format!("{name}-{number}")).build();
        let threads = threads.map_err(|error| Error::Threads(error.to_string()))?;
        Ok(Self {
            threads,
            load: Arc::default(),
        })
    }
}

impl SearchPools {
    /// For `limit` requests in flight, with a thread of each class for every core.
    pub(in crate::run) fn new(limit: usize) -> Result<Self> {
        Self::with_threads(limit, std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }

    pub(in crate::run) fn with_threads(limit: usize, threads: usize) -> Result<Self> {
        let share = limit / SHARE;
        Ok(Self {
            single: AdmissionLimit::new((limit - 2 * share).max(1)),
            single_bulk: AdmissionLimit::new(share.max(1)),
            many: AdmissionLimit::new(share.max(1)),
            limit,
            interactive: PoolWorkers::new("dyad-search", threads, || ())?,
            single_shard: SleepingThreads::new("dyad-single", threads)?,
            bulk: PoolWorkers::new("dyad-bulk", threads, || yield_to_others(BULK_NICENESS))?,
        })
    }

    /// Request slots by class: how many are taken, and how many there are.
    pub(in crate::run) fn load(&self) -> [SlotLoad; 3] {
        [
            ("single", &self.single),
            ("bulk", &self.single_bulk),
            ("many", &self.many),
        ]
        .map(|(class, slots)| SlotLoad {
            class,
            taken: slots.taken(),
            limit: slots.limit(),
        })
    }

    /// Jobs that are queued or run, by thread pool.
    pub(in crate::run) fn jobs(&self) -> [(&'static str, usize); 2] {
        let jobs = |workers: &PoolWorkers| workers.load.jobs();
        [("interactive", jobs(&self.interactive)), ("bulk", jobs(&self.bulk))]
    }

    /// Threads of a class.
    pub(in crate::run) fn threads(&self, class: RequestClass) -> usize {
        self.workers(class).threads.current_num_threads()
    }

    fn workers(&self, class: RequestClass) -> &PoolWorkers {
        match class {
            RequestClass::Interactive | RequestClass::SingleShard => &self.interactive,
            RequestClass::Bulk => &self.bulk,
        }
    }

    /// Admits one request of this expected cost, or refuses it at once where the searcher is full or the answer would
    /// be late. The request counts until its permit is dropped.
    pub(in crate::run) fn admit(&self, class: RequestClass, cost: Duration, time: Duration) -> Result<Admitted> {
        let workers = self.workers(class);
        let wait = workers.load.wait(cost, workers.threads.current_num_threads());
        if wait > time {
            return Err(Error::Overloaded { wait, time });
        }
        let (slots, class) = match class {
            RequestClass::Interactive | RequestClass::SingleShard => (&self.single, "single searches"),
            RequestClass::Bulk => (&self.single_bulk, "costly searches and explanations"),
        };
        let busy = |_| Error::Busy {
            class,
            limit: slots.limit(),
            all: self.limit,
        };
        slots.try_admit(1).map_err(busy)
    }

    /// Admits a batch of `requests`, or one request of a stream, first come first served. It takes at most half of the
    /// slots for batches and streams, so that others are answered meanwhile.
    pub(in crate::run) async fn admit_many(&self, requests: usize, cancel: &SearchCancellation) -> Result<Admitted> {
        let slots = requests.clamp(1, (self.many.limit() / 2).max(1));
        let admitted = self.many.admit(slots, cancel.deadline()).await;
        admitted.map_err(|error| cancel.not_admitted(error))
    }

    /// Starts work of this expected cost; the receiver gets its result.
    pub(in crate::run) fn spawn<T: Send + 'static>(
        &self,
        class: RequestClass,
        cost: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, result) = oneshot::channel();
        self.start(class, cost, move || {
            // The caller may have left: its work need not be done.
            if done.is_closed() {
                return 0;
            }
            let _ = done.send(work());
            1
        });
        result
    }

    /// Starts work of this expected cost, which returns for how many requests it was. Where it panics, what it holds is
    /// dropped.
    pub(in crate::run) fn start(
        &self,
        class: RequestClass,
        cost: Duration,
        work: impl FnOnce() -> u32 + Send + 'static,
    ) {
        let workers = self.workers(class);
        let job = workers.load.counted(cost, work);
        match class {
            RequestClass::SingleShard => self.single_shard.add(job),
            RequestClass::Interactive | RequestClass::Bulk => workers.threads.spawn(job),
        }
    }
}

/// Waits for spawned work until the deadline.
pub(in crate::run) async fn finish<T>(result: oneshot::Receiver<T>, cancel: &SearchCancellation) -> Result<T> {
    match tokio::time::timeout_at(cancel.deadline().into(), result).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(Error::Internal),
        Err(_) => Err(cancel.deadline_error()),
    }
}

#[cfg(test)]
mod tests;
