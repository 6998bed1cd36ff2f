//! CPU work off the I/O threads: three thread pools, and admission by number of requests and by expected wait.
//!
//! A rayon thread that waits for a part of one job steals another job meanwhile. So that a graph search of a millisecond
//! never waits for a scan of a second, bulk work (exact scans, explanations, batches) has a thread pool of its own. What one thread
//! does alone needs no rayon, and has [`Threads`].

use std::cell::Cell;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::cancellation::Cancellation;
use super::threads::Threads;
use crate::error::{Error, Result};

/// Batches and streams take at most a quarter of the request slots, and so do single bulk requests.
const SHARE: usize = 4;

thread_local! {
    /// Time that the current job has spent on other jobs, which its thread stole while it waited for its parts.
    static STOLEN: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Which thread pool does the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// One question, by graph or BM25.
    Interactive,
    /// The same over an index of one shard: nothing is shared among threads.
    SingleShard,
    /// Exact scans, explanations, batches.
    Bulk,
}

impl Class {
    /// That of the same work once it is known how many shards it is over.
    pub(super) fn over(self, shards: usize) -> Self {
        if self == Self::Interactive && shards == 1 { Self::SingleShard } else { self }
    }
}

/// Admission control and the thread pools.
#[derive(Debug)]
pub(super) struct Pool {
    single: Slots,
    single_bulk: Slots,
    many: Slots,
    /// Requests in flight of all classes.
    limit: usize,
    interactive: Workers,
    /// Their jobs count as interactive ones.
    single_shard: Threads,
    bulk: Workers,
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
        Self { free: Arc::new(Semaphore::new(count)), count }
    }
}

/// A thread pool and its load.
#[derive(Debug)]
struct Workers {
    threads: rayon::ThreadPool,
    load: Arc<Load>,
}

/// Number of jobs queued or running, and how long one takes.
#[derive(Debug, Default)]
struct Load {
    jobs: AtomicUsize,
    /// Moving average in microseconds.
    mean_us: AtomicU64,
}

impl Load {
    /// Time until a new job would be done on `threads` threads; zero where it would start at once.
    fn wait(&self, threads: usize) -> Duration {
        let ahead = (self.jobs.load(Ordering::Relaxed) / threads.max(1)) as u64;
        let rounds = if ahead == 0 { 0 } else { ahead + 1 };
        Duration::from_micros(self.mean_us.load(Ordering::Relaxed).saturating_mul(rounds))
    }

    /// Updates the average by the time of one job.
    fn record(&self, time: Duration) {
        let (took, before) = (time.as_micros() as u64, self.mean_us.load(Ordering::Relaxed));
        // Of two jobs that end at once one value may be lost, which does not matter for an average.
        let mean = if before == 0 { took } else { before - before / 8 + took / 8 };
        self.mean_us.store(mean, Ordering::Relaxed);
    }

    /// Work that counts as a job from now until it is done, and records its time.
    fn counted(self: &Arc<Self>, work: impl FnOnce() -> u32 + Send + 'static) -> impl FnOnce() + Send + 'static {
        let load = Arc::clone(self);
        load.jobs.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&load));
        move || {
            let _counted = counted;
            let (started, before) = (Instant::now(), STOLEN.replace(Duration::ZERO));
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or(1);
            let took = started.elapsed();
            let own = took.saturating_sub(STOLEN.replace(before + took));
            if served > 0 {
                load.record(own / served);
            }
        }
    }
}

/// Counts a job until it is dropped, also where it panics or never starts.
struct Counted(Arc<Load>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    fn new(name: &'static str, threads: usize) -> Result<Self> {
        let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let threads = builder.thread_name(move |number| format!("{name}-{number}")).build();
        let threads = threads.map_err(|error| Error::Threads(error.to_string()))?;
        Ok(Self { threads, load: Arc::default() })
    }
}

impl Pool {
    /// For `limit` requests in flight, with a thread of each class for every core.
    pub(super) fn new(limit: usize) -> Result<Self> {
        Self::with_threads(limit, std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }

    pub(super) fn with_threads(limit: usize, threads: usize) -> Result<Self> {
        let share = limit / SHARE;
        Ok(Self {
            single: Slots::new(limit - 2 * share),
            single_bulk: Slots::new(share),
            many: Slots::new(share),
            limit,
            interactive: Workers::new("dyad-search", threads)?,
            single_shard: Threads::new("dyad-single", threads)?,
            bulk: Workers::new("dyad-bulk", threads)?,
        })
    }

    /// Request slots by class: how many are taken, and how many there are.
    pub(super) fn load(&self) -> [SlotLoad; 3] {
        let load = |class, slots: &Slots| {
            let taken = slots.count.saturating_sub(slots.free.available_permits());
            SlotLoad { class, taken, limit: slots.count }
        };
        [load("single", &self.single), load("bulk", &self.single_bulk), load("many", &self.many)]
    }

    /// Jobs that are queued or run, by thread pool.
    pub(super) fn jobs(&self) -> [(&'static str, usize); 2] {
        let jobs = |workers: &Workers| workers.load.jobs.load(Ordering::Relaxed);
        [("interactive", jobs(&self.interactive)), ("bulk", jobs(&self.bulk))]
    }

    /// Threads of a class.
    pub(super) fn threads(&self, class: Class) -> usize {
        self.workers(class).threads.current_num_threads()
    }

    fn workers(&self, class: Class) -> &Workers {
        match class {
            Class::Interactive | Class::SingleShard => &self.interactive,
            Class::Bulk => &self.bulk,
        }
    }

    /// Admits one request, or refuses it at once where the searcher is full or the answer would be late. The request counts
    /// until its permit is dropped.
    pub(super) fn admit(&self, class: Class, time: Duration) -> Result<OwnedSemaphorePermit> {
        let workers = self.workers(class);
        let wait = workers.load.wait(workers.threads.current_num_threads());
        if wait > time {
            return Err(Error::Overloaded { wait, time });
        }
        let (slots, class) = match class {
            Class::Interactive | Class::SingleShard => (&self.single, "single searches"),
            Class::Bulk => (&self.single_bulk, "exact searches and explanations"),
        };
        let busy = |_| Error::Busy { class, limit: slots.count, all: self.limit };
        Arc::clone(&slots.free).try_acquire_owned().map_err(busy)
    }

    /// Admits a batch of `requests`, or one request of a stream, first come first served. It takes at most half of the slots
    /// for batches and streams, so that others are answered meanwhile.
    pub(super) async fn admit_many(&self, requests: usize, cancel: &Cancellation) -> Result<OwnedSemaphorePermit> {
        let slots = requests.clamp(1, (self.many.count / 2).max(1)) as u32;
        let turn = Arc::clone(&self.many.free).acquire_many_owned(slots);
        match tokio::time::timeout_at(cancel.deadline().into(), turn).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(Error::Internal),
            Err(_) => Err(cancel.deadline_error()),
        }
    }

    /// Starts work; the receiver gets its result.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        class: Class,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, result) = oneshot::channel();
        self.start(class, move || {
            // The caller may have left: its work need not be done.
            if done.is_closed() {
                return 0;
            }
            let _ = done.send(work());
            1
        });
        result
    }

    /// Starts work, which returns for how many requests it was. Where it panics, what it holds is dropped.
    pub(super) fn start(&self, class: Class, work: impl FnOnce() -> u32 + Send + 'static) {
        let workers = self.workers(class);
        let job = workers.load.counted(work);
        match class {
            Class::SingleShard => self.single_shard.add(job),
            Class::Interactive | Class::Bulk => workers.threads.spawn(job),
        }
    }
}

/// Waits for spawned work until the deadline.
pub(super) async fn finish<T>(result: oneshot::Receiver<T>, cancel: &Cancellation) -> Result<T> {
    match tokio::time::timeout_at(cancel.deadline().into(), result).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(Error::Internal),
        Err(_) => Err(cancel.deadline_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    /// rayon's threads share shards; on any other thread that would take the whole process's pool.
    #[tokio::test]
    async fn what_is_over_several_shards_runs_on_rayon_threads() {
        let pool = Pool::with_threads(8, 2).unwrap();
        let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), HOUR);
        for (class, shards, rayon) in [
            (Class::Interactive, 1, false),
            (Class::Interactive, 2, true),
            (Class::Bulk, 1, true),
            (Class::Bulk, 2, true),
        ] {
            let index = pool.spawn(class.over(shards), rayon::current_thread_index);
            assert_eq!(finish(index, &cancel).await.unwrap().is_some(), rayon, "{class:?} over {shards}");
        }
    }

    #[tokio::test]
    async fn batches_take_their_slots_and_wait_for_them() {
        let pool = Pool::new(8).unwrap();
        let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), HOUR);
        let batch = pool.admit_many(1000, &cancel).await.unwrap();
        let other_batch = pool.admit_many(1000, &cancel).await.unwrap();
        // The slots for batches are taken, the others are not; nor do bulk requests take the slots of others.
        let bulk: Vec<_> = (0..2).map(|_| pool.admit(Class::Bulk, HOUR).unwrap()).collect();
        assert!(matches!(pool.admit(Class::Bulk, HOUR), Err(Error::Busy { limit: 2, all: 8, .. })));
        let singles: Vec<_> = (0..4).map(|_| pool.admit(Class::Interactive, HOUR).unwrap()).collect();
        assert!(matches!(pool.admit(Class::Interactive, HOUR), Err(Error::Busy { limit: 4, all: 8, .. })));
        let (short, _other_guard) = Cancellation::with_deadline(Instant::now(), Duration::from_millis(20));
        assert!(matches!(pool.admit_many(1, &short).await, Err(Error::Deadline(_))));
        let next = async {
            tokio::task::yield_now().await;
            drop(batch);
        };
        let (admitted, ()) = tokio::join!(pool.admit_many(1000, &cancel), next);
        assert!(admitted.is_ok());
        drop((singles, bulk, other_batch));
        assert!(pool.admit(Class::Interactive, HOUR).is_ok());
        assert!(Pool::new(1).unwrap().admit(Class::Interactive, HOUR).is_ok());
    }

    #[tokio::test]
    async fn requests_that_would_be_late_are_refused_at_once() {
        let pool = Pool::new(1000).unwrap();
        let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), HOUR);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let held = Arc::new(held);
        pool.interactive.load.mean_us.store(1_000_000, Ordering::Relaxed);
        let threads = pool.interactive.threads.current_num_threads();
        let jobs: Vec<_> = (0..threads * 3)
            .map(|_| {
                let held = Arc::clone(&held);
                pool.spawn(Class::Interactive, move || held.lock().unwrap().recv().is_err())
            })
            .collect();
        let refused = pool.admit(Class::Interactive, Duration::from_secs(2)).unwrap_err();
        assert!(matches!(refused, Error::Overloaded { wait, .. } if wait == Duration::from_secs(4)), "{refused}");
        assert!(pool.admit(Class::Interactive, Duration::from_secs(4)).is_ok());
        assert!(pool.admit(Class::Bulk, Duration::from_millis(1)).is_ok(), "other threads");
        drop(release);
        for job in jobs {
            finish(job, &cancel).await.unwrap();
        }
        // Nothing is queued, so nothing is refused, however long jobs took.
        while pool.interactive.load.jobs.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(pool.admit(Class::Interactive, Duration::from_millis(1)).is_ok());
    }

    #[tokio::test]
    async fn bulk_work_does_not_keep_an_answer_waiting() {
        let pool = Pool::new(10).unwrap();
        let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), HOUR);
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        // More scans than threads: every one of them is taken.
        let scans: Vec<_> = (0..64)
            .map(|_| {
                let held = Arc::clone(&held);
                pool.spawn(Class::Bulk, move || held.lock().unwrap().recv().is_err())
            })
            .collect();
        let joined = pool.spawn(Class::Interactive, || rayon::join(|| 3, || 4));
        assert_eq!(finish(joined, &cancel).await.unwrap(), (3, 4));
        drop(release);
        for scan in scans {
            finish(scan, &cancel).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_deadline_holds() {
        let pool = Pool::new(10).unwrap();
        let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), Duration::from_secs(5));
        for class in [Class::Interactive, Class::SingleShard, Class::Bulk] {
            // More than there are threads: none of them ends.
            for _ in 0..=pool.threads(class) {
                let failed = finish(pool.spawn(class, || -> u32 { panic!("on purpose") }), &cancel).await;
                assert!(matches!(failed, Err(Error::Internal)));
            }
            assert_eq!(finish(pool.spawn(class, || 7), &cancel).await.unwrap(), 7);
        }
        while pool.jobs().iter().any(|(_, jobs)| *jobs > 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (cancel, _guard) = Cancellation::with_deadline(Instant::now(), Duration::from_millis(10));
        let slow = pool.spawn(Class::Interactive, || std::thread::sleep(Duration::from_millis(200)));
        let late = finish(slow, &cancel).await;
        assert!(matches!(late, Err(Error::Deadline(_))));
    }
}
