//! Threads that sleep while there is no work, for work that each does alone. A thread of rayon looks for more 32 times
//! before it sleeps, with a `sched_yield` after each look: where searches come one by one and take some tens of
//! microseconds, that took a tenth of the machine, and a core away from whoever had the next one to send.

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result};

type ThreadJob = Box<dyn FnOnce() + Send>;

/// For how long a thread of lower priority keeps a core that another one waits for. By itself the system lets it have
/// the core for milliseconds, and an ordinary request waits for a core several times.
const KEEPS_CORE: Duration = Duration::from_micros(200);

thread_local! {
    /// When a thread of lower priority has last let others have its core; none on others.
    static LET_OTHERS_AT: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Called now and then by work, at `now`: on a thread of lower priority, lets others have the core that wait for it.
pub(in crate::run) fn let_others(now: Instant) {
    if let Some(before) = LET_OTHERS_AT.get()
        && now.saturating_duration_since(before) >= KEEPS_CORE
    {
        thread::yield_now();
        LET_OTHERS_AT.set(Some(Instant::now()));
    }
}

/// Lowers the priority of the calling thread: the cores are first for those that others wait for.
pub(in crate::run) fn yield_to_others(niceness: i32) {
    LET_OTHERS_AT.set(Some(Instant::now()));
    // The system takes a thread for a process here.
    if let Err(error) = rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness) {
        tracing::debug!(%error, "a background thread has the priority of others");
    }
}

/// Some threads and their queue, which whoever adds to it bounds. They end once this is dropped and all jobs are done.
pub(in crate::run) struct SleepingThreads(Arc<SharedThreads>);

#[derive(Default)]
struct SharedThreads {
    queue: Mutex<ThreadQueue>,
    added: Condvar,
}

#[derive(Default)]
struct ThreadQueue {
    jobs: VecDeque<ThreadJob>,
    /// Threads that sleep and that nobody has woken yet.
    asleep: usize,
    closed: bool,
}

impl SharedThreads {
    fn lock(&self) -> MutexGuard<'_, ThreadQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job, when there is one; none at the end.
    fn next(&self) -> Option<ThreadJob> {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                return Some(job);
            }
            if queue.closed {
                return None;
            }
            queue.asleep += 1;
            queue = self.added.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl SleepingThreads {
    pub(in crate::run) fn new(name: &str, threads: usize) -> Result<Self> {
        let this = Self(Arc::default());
        for number in 0..threads.max(1) {
            let shared = Arc::clone(&this.0);
            let run = move || {
                while let Some(job) = shared.next() {
                    job();
                }
            };
            let started = thread::Builder::new().name(format!("{name}-{number}")).spawn(run);
            started.map_err(|error| Error::Threads(error.to_string()))?;
        }
        Ok(this)
    }

    /// Adds a job, which must not panic.
    pub(in crate::run) fn add(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.0.lock();
        queue.jobs.push_back(Box::new(job));
        // A call of the system, so only for a thread that needs it.
        let wakes = queue.asleep > 0;
        queue.asleep -= usize::from(wakes);
        drop(queue);
        if wakes {
            self.0.added.notify_one();
        }
    }
}

impl Drop for SleepingThreads {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.added.notify_all();
    }
}

impl std::fmt::Debug for SleepingThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads")
            .field("waiting", &self.0.lock().jobs.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn threads_of_lower_priority_let_others_have_their_core_and_no_other_threads_do() {
        let_others(Instant::now() + SOON);
        assert_eq!(LET_OTHERS_AT.get(), None);
        let lower = thread::spawn(|| {
            yield_to_others(5);
            let before = LET_OTHERS_AT.get().unwrap();
            let_others(before + KEEPS_CORE / 2);
            assert_eq!(LET_OTHERS_AT.get(), Some(before), "too early");
            let_others(before + KEEPS_CORE);
            assert!(LET_OTHERS_AT.get().unwrap() > before);
        });
        lower.join().unwrap();
    }

    #[test]
    fn every_job_is_done_and_in_order_by_one_thread() {
        let threads = SleepingThreads::new("one", 1).unwrap();
        let (done, numbers) = mpsc::channel();
        for number in 0..1_000 {
            let done = done.clone();
            threads.add(move || done.send(number).unwrap());
            if number % 100 == 0 {
                // The thread sleeps meanwhile.
                thread::sleep(Duration::from_millis(2));
            }
        }
        drop((threads, done));
        assert_eq!(numbers.iter().collect::<Vec<_>>(), (0..1_000).collect::<Vec<_>>());
    }

    /// Each waits for the other.
    #[test]
    fn jobs_are_done_by_all_threads() {
        let threads = SleepingThreads::new("two", 2).unwrap();
        for _ in 0..200 {
            let (here, there) = (mpsc::channel(), mpsc::channel());
            let (met, both) = mpsc::channel();
            let other = met.clone();
            threads.add(move || {
                here.0.send(()).unwrap();
                met.send(there.1.recv_timeout(SOON).is_ok()).unwrap();
            });
            threads.add(move || {
                there.0.send(()).unwrap();
                other.send(here.1.recv_timeout(SOON).is_ok()).unwrap();
            });
            assert_eq!(both.iter().collect::<Vec<_>>(), [true, true]);
        }
    }
}
