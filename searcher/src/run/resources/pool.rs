//! CPU work off the I/O threads: three thread pools, and admission by number of requests and by expected wait.
//!
//! A rayon thread that waits for a part of one job steals another job meanwhile. So that a graph search of a
//! millisecond never waits for a scan of a second, bulk work (costly searches, explanations, batches) has a thread pool
//! of its own, whose threads yield to the others. What one thread does alone needs no rayon, and has
//! [`SleepingThreads`].

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

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
    /// The same over an index of one shard: nothing is shared among threads.
    SingleShard,
    /// Costly questions, explanations, batches.
    Bulk,
}

impl RequestClass {
    /// That of a request with this cost.
    pub(in crate::run) fn of(cost: Duration, size: IndexSize) -> Self {
        if size.is_costly(cost) {
            Self::Bulk
        } else {
            Self::Interactive
        }
    }

    /// That of the same work once it is known how many shards it is over.
    pub(in crate::run) fn over(self, shards: usize) -> Self {
        if self == Self::Interactive && shards == 1 {
            Self::SingleShard
        } else {
            self
        }
    }
}

/// Admission control and the thread pools.
#[derive(Debug)]
pub(in crate::run) struct SearchPools {
    single: Slots,
    single_bulk: Slots,
    many: Slots,
    /// Requests in flight of all classes.
    limit: usize,
    interactive: PoolWorkers,
    /// Their jobs count as interactive ones.
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

/// Slots for requests in flight.
#[derive(Debug)]
struct Slots {
    free: Arc<Semaphore>,
    count: usize,
}

impl Slots {
    fn new(count: usize) -> Self {
        let count = count.max(1);
        Self {
            free: Arc::new(Semaphore::new(count)),
            count,
        }
    }
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
            single: Slots::new(limit - 2 * share),
            single_bulk: Slots::new(share),
            many: Slots::new(share),
            limit,
            interactive: PoolWorkers::new("dyad-search", threads, || ())?,
            single_shard: SleepingThreads::new("dyad-single", threads)?,
            bulk: PoolWorkers::new("dyad-bulk", threads, || yield_to_others(BULK_NICENESS))?,
        })
    }

    /// Request slots by class: how many are taken, and how many there are.
    pub(in crate::run) fn load(&self) -> [SlotLoad; 3] {
        let load = |class, slots: &Slots| {
            let taken = slots.count.saturating_sub(slots.free.available_permits());
            SlotLoad {
                class,
                taken,
                limit: slots.count,
            }
        };
        [
            load("single", &self.single),
            load("bulk", &self.single_bulk),
            load("many", &self.many),
        ]
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
    pub(in crate::run) fn admit(
        &self,
        class: RequestClass,
        cost: Duration,
        time: Duration,
    ) -> Result<OwnedSemaphorePermit> {
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
            limit: slots.count,
            all: self.limit,
        };
        Arc::clone(&slots.free).try_acquire_owned().map_err(busy)
    }

    /// Admits a batch of `requests`, or one request of a stream, first come first served. It takes at most half of the
    /// slots for batches and streams, so that others are answered meanwhile.
    pub(in crate::run) async fn admit_many(
        &self,
        requests: usize,
        cancel: &SearchCancellation,
    ) -> Result<OwnedSemaphorePermit> {
        let slots = requests.clamp(1, (self.many.count / 2).max(1)) as u32;
        let turn = Arc::clone(&self.many.free).acquire_many_owned(slots);
        match tokio::time::timeout_at(cancel.deadline().into(), turn).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(Error::Internal),
            Err(_) => Err(cancel.deadline_error()),
        }
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
mod tests {
    use std::time::Instant;

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);
    const MS: Duration = Duration::from_millis(1);

    async fn at_rest(pool: &SearchPools) {
        while pool.jobs().iter().any(|(_, jobs)| *jobs > 0) {
            tokio::time::sleep(MS).await;
        }
    }

    /// rayon's threads share shards; on any other thread that would take the whole process's pool.
    #[tokio::test]
    async fn what_is_over_several_shards_runs_on_rayon_threads() {
        let pool = SearchPools::with_threads(8, 2).unwrap();
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), HOUR);
        for (class, shards, rayon) in [
            (RequestClass::Interactive, 1, false),
            (RequestClass::Interactive, 2, true),
            (RequestClass::Bulk, 1, true),
            (RequestClass::Bulk, 2, true),
        ] {
            let index = pool.spawn(class.over(shards), MS, rayon::current_thread_index);
            assert_eq!(
                finish(index, &cancel).await.unwrap().is_some(),
                rayon,
                "{class:?} over {shards}"
            );
        }
    }

    #[tokio::test]
    async fn batches_take_their_slots_and_wait_for_them() {
        let pool = SearchPools::new(8).unwrap();
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), HOUR);
        let batch = pool.admit_many(1000, &cancel).await.unwrap();
        let other_batch = pool.admit_many(1000, &cancel).await.unwrap();
        // The slots for batches are taken, the others are not; nor do bulk requests take the slots of others.
        let bulk: Vec<_> = (0..2)
            .map(|_| pool.admit(RequestClass::Bulk, MS, HOUR).unwrap())
            .collect();
        assert!(matches!(
            pool.admit(RequestClass::Bulk, MS, HOUR),
            Err(Error::Busy { limit: 2, all: 8, .. })
        ));
        let singles: Vec<_> = (0..4)
            .map(|_| pool.admit(RequestClass::Interactive, MS, HOUR).unwrap())
            .collect();
        assert!(matches!(
            pool.admit(RequestClass::Interactive, MS, HOUR),
            Err(Error::Busy { limit: 4, all: 8, .. })
        ));
        let (short, _other_guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_millis(20));
        assert!(matches!(pool.admit_many(1, &short).await, Err(Error::Deadline(_))));
        let next = async {
            tokio::task::yield_now().await;
            drop(batch);
        };
        let (admitted, ()) = tokio::join!(pool.admit_many(1000, &cancel), next);
        assert!(admitted.is_ok());
        drop((singles, bulk, other_batch));
        assert!(pool.admit(RequestClass::Interactive, MS, HOUR).is_ok());
        assert!(
            SearchPools::new(1)
                .unwrap()
                .admit(RequestClass::Interactive, MS, HOUR)
                .is_ok()
        );
    }

    /// Costly requests wait in a queue of their own: a cheap one is admitted while an hour of them is ahead of the next
    /// costly one.
    #[tokio::test]
    async fn requests_that_would_be_late_are_refused_at_once_and_others_are_not() {
        let pool = SearchPools::new(1000).unwrap();
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), HOUR);
        // All threads take as long as expected.
        for class in [RequestClass::Interactive, RequestClass::Bulk] {
            let cost = Duration::from_micros(100);
            finish(
                pool.spawn(class, cost, || std::thread::sleep(Duration::from_micros(100))),
                &cancel,
            )
            .await
            .unwrap();
        }
        at_rest(&pool).await;
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        let threads = pool.threads(RequestClass::Bulk);
        let costly: Vec<_> = (0..threads * 3)
            .map(|_| {
                let held = Arc::clone(&held);
                pool.spawn(RequestClass::Bulk, HOUR, move || held.lock().unwrap().recv().is_err())
            })
            .collect();
        let refused = pool.admit(RequestClass::Bulk, HOUR, HOUR).unwrap_err();
        // Three before it on each thread, and itself, at no less than the expected time.
        assert!(
            matches!(refused, Error::Overloaded { wait, .. } if wait >= HOUR),
            "{refused}"
        );
        assert!(pool.admit(RequestClass::Interactive, MS, MS).is_ok(), "other threads");
        drop(release);
        for job in costly {
            finish(job, &cancel).await.unwrap();
        }
        // Nothing is queued, so nothing is refused, however long jobs took.
        at_rest(&pool).await;
        assert!(pool.admit(RequestClass::Bulk, HOUR, MS).is_ok());
    }

    #[tokio::test]
    async fn bulk_work_does_not_keep_an_answer_waiting() {
        let pool = SearchPools::new(10).unwrap();
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), HOUR);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        // More scans than threads: every one of them is taken.
        let scans: Vec<_> = (0..64)
            .map(|_| {
                let held = Arc::clone(&held);
                pool.spawn(RequestClass::Bulk, MS, move || held.lock().unwrap().recv().is_err())
            })
            .collect();
        let joined = pool.spawn(RequestClass::Interactive, MS, || rayon::join(|| 3, || 4));
        assert_eq!(finish(joined, &cancel).await.unwrap(), (3, 4));
        drop(release);
        for scan in scans {
            finish(scan, &cancel).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_deadline_holds() {
        let pool = SearchPools::new(10).unwrap();
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_secs(5));
        for class in [RequestClass::Interactive, RequestClass::SingleShard, RequestClass::Bulk] {
            // More than there are threads: none of them ends.
            for _ in 0..=pool.threads(class) {
                let failed = finish(pool.spawn(class, MS, || -> u32 { panic!("on purpose") }), &cancel).await;
                assert!(matches!(failed, Err(Error::Internal)));
            }
            assert_eq!(finish(pool.spawn(class, MS, || 7), &cancel).await.unwrap(), 7);
        }
        at_rest(&pool).await;
        let (cancel, _guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_millis(10));
        let slow = pool.spawn(RequestClass::Interactive, MS, || {
            std::thread::sleep(Duration::from_millis(200))
        });
        let late = finish(slow, &cancel).await;
        assert!(matches!(late, Err(Error::Deadline(_))));
    }
}
