//! Threads that share the work of kernels, tens of microseconds of it at a time, with those that compute passes.
//!
//! A pass runs on the thread that asks for it. Where a kernel has pieces to give, it opens the pass's *slot* and takes
//! the pieces one by one itself; helpers that see the open slot take some of them. So no pass waits for a helper to
//! begin, only for a piece that one is at. A helper is woken when a pass turns out to be long, and spins for some
//! microseconds before it sleeps again, since the next kernel of a pass comes soon. Where the passes and the helpers
//! that are awake are more than the threads that may run, helpers sleep as soon as they have no piece.
//!
//! In a pool of tasks (rayon's) each kernel waits for the thread that was given its second half, which may have to be
//! woken first; and several passes that share one pool wait for each other's pieces.

mod slot;

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::slot::Slot;
use crate::device::{OperatorThreads, set_operator_threads};
use crate::error::Error;

/// When threads wake and sleep.
#[derive(Debug, Clone, Copy)]
struct WakeTimes {
    /// A pass that has taken that long is worth waking helpers for, one with each kernel.
    long: Duration,
    /// How long a helper spins while passes are under way: longer than a pass computes what it does not share.
    spin: Duration,
    /// How long it spins while there is none.
    idle: Duration,
}

/// To wake a thread takes about 50 microseconds.
const TIMES: WakeTimes = WakeTimes {
    long: Duration::from_micros(100),
    spin: Duration::from_micros(200),
    idle: Duration::ZERO,
};

/// Rounds of a spinning thread between two readings of the clock.
const ROUNDS: usize = 64;

/// What passes and helpers know of each other.
#[derive(Debug)]
struct SharedPool {
    slots: Box<[Slot]>,
    /// Passes under way.
    passes: AtomicUsize,
    /// Helpers that do not sleep, the called ones included.
    awake: AtomicUsize,
    /// Helpers that spin, or compute a piece of any pass.
    active: AtomicUsize,
    times: WakeTimes,
    /// Helpers that were called and have not woken yet.
    called: Mutex<usize>,
    wake: Condvar,
    ended: AtomicBool,
}

/// The pass that a thread computes.
#[derive(Debug)]
struct ForwardPass {
    shared: Arc<SharedPool>,
    slot: usize,
    since: Instant,
}

thread_local! {
    static HERE: RefCell<Option<ForwardPass>> = const { RefCell::new(None) };
}

/// The threads of one model: a pass on each, or fewer passes and helpers.
#[derive(Debug, Clone)]
pub(crate) struct KernelPool(Arc<KernelThreads>);

#[derive(Debug)]
struct KernelThreads {
    shared: Arc<SharedPool>,
    helpers: Vec<JoinHandle<()>>,
}

impl KernelPool {
    /// Starts helpers: one fewer than `threads`, since each pass has a thread already. Torch's operators on each of
    /// them run on it alone, since threads of theirs would wait for more work in a loop, and take the cores from the
    /// kernels.
    pub(crate) fn new(threads: usize) -> Result<Self, Error> {
        Self::with_times(threads, TIMES)
    }

    fn with_times(threads: usize, times: WakeTimes) -> Result<Self, Error> {
        // libtorch keeps the last number of operator threads that any thread has set, for threads to come.
        let _kept = OperatorThreads::kept();
        let shared = Arc::new(SharedPool {
            slots: (0..threads).map(|_| Slot::new()).collect(),
            passes: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
            active: AtomicUsize::new(0),
            times,
            called: Mutex::default(),
            wake: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let mut pool = KernelThreads {
            shared,
            helpers: Vec::new(),
        };
        let (ready, all_ready) = mpsc::sync_channel::<()>(1);
        for number in 1..threads {
            let (shared, ready) = (Arc::clone(&pool.shared), ready.clone());
            let work = move || {
                set_operator_threads(1);
                drop(ready);
                shared.help();
            };
            match std::thread::Builder::new()
                .name(format!("dyad-kernel-{number}"))
                .spawn(work)
            {
                Ok(helper) => pool.helpers.push(helper),
                Err(source) if number == 1 => {
                    return Err(Error::Thread {
                        name: "dyad-kernel",
                        source,
                    });
                }
                Err(error) => {
                    tracing::warn!(threads = number, %error, "the system gives no more threads; going on with fewer");
                    break;
                }
            }
        }
        drop(ready);
        // Nobody sends: it ends when all have set their number.
        let _ = all_ready.recv();
        Ok(Self(Arc::new(pool)))
    }

    /// Passes that may be computed at once.
    pub(crate) fn threads(&self) -> usize {
        self.0.shared.slots.len()
    }

    /// Threads that a pass could have, its own included, if it began now.
    pub(crate) fn free_threads(&self) -> usize {
        self.0.shared.most_helpers().max(1)
    }

    /// Computes a pass on this thread, whose kernels share their work while no more passes than threads are under way;
    /// torch's operators run on this thread alone.
    pub(crate) fn run<R>(&self, pass: impl FnOnce() -> R) -> R {
        let _kept = one_operator_thread();
        let shared = &self.0.shared;
        let slot = shared.slots.iter().position(Slot::take);
        shared.passes.fetch_add(1, Ordering::Relaxed);
        let here = slot.map(|slot| ForwardPass {
            shared: Arc::clone(shared),
            slot,
            since: Instant::now(),
        });
        let _running = PassUnderWay {
            shared,
            slot,
            before: HERE.replace(here),
        };
        pass()
    }

    /// Each piece by `one`, on this thread and on as many as are free, in no order: for pieces that are long.
    pub(crate) fn share_long<T: Send>(&self, pieces: impl ExactSizeIterator<Item = T>, one: impl Fn(T) + Sync) {
        self.run(|| {
            let shared = &self.0.shared;
            let wanted = pieces.len().saturating_sub(1).min(shared.most_helpers());
            (shared.awake.load(Ordering::Relaxed)..wanted).for_each(|_| shared.call());
            share(pieces, one);
        });
    }

    /// A pool whose helpers are awake and stay so.
    #[cfg(test)]
    pub(crate) fn awake(threads: usize) -> Self {
        let pool = Self::with_times(
            threads,
            WakeTimes {
                spin: Duration::MAX,
                idle: Duration::MAX,
                ..TIMES
            },
        )
        .unwrap();
        (1..threads).for_each(|_| pool.0.shared.call());
        while pool.0.shared.active.load(Ordering::Relaxed) + 1 < threads {
            std::thread::yield_now();
        }
        pool
    }
}

impl Drop for KernelThreads {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        drop(self.shared.called());
        self.shared.wake.notify_all();
        for helper in self.helpers.drain(..) {
            // It has none of its own to report: panics of pieces go to their passes.
            drop(helper.join());
        }
    }
}

/// Gives this thread one operator thread until what it returns is dropped.
fn one_operator_thread() -> Option<OperatorThreads> {
    let kept = (tch::get_num_threads() != 1).then(OperatorThreads::kept);
    if kept.is_some() {
        set_operator_threads(1);
    }
    kept
}

/// A pass under way; what this thread was at before comes back when it is dropped.
struct PassUnderWay<'a> {
    shared: &'a SharedPool,
    slot: Option<usize>,
    before: Option<ForwardPass>,
}

impl Drop for PassUnderWay<'_> {
    fn drop(&mut self) {
        HERE.set(self.before.take());
        self.shared.passes.fetch_sub(1, Ordering::Relaxed);
        if let Some(slot) = self.slot.and_then(|slot| self.shared.slots.get(slot)) {
            slot.give_back();
        }
    }
}

/// Threads that may share the work of the next kernel on this thread, at most `most`: this one, and the helpers that
/// are active. Where there may be more, and the pass is long, one more is woken.
pub(in crate::nn) fn threads_here(most: usize) -> usize {
    HERE.with_borrow(|here| {
        let Some(ForwardPass { shared, since, .. }) = here else {
            return 1;
        };
        let wanted = most.saturating_sub(1).min(shared.most_helpers());
        if wanted > shared.awake.load(Ordering::Relaxed) && since.elapsed() >= shared.times.long {
            shared.call();
        }
        1 + wanted.min(shared.active.load(Ordering::Relaxed))
    })
}

/// Each piece by `one`, on this thread and on those that help it, in no order. A piece that shares in its turn does so
/// on its own thread.
pub(in crate::nn) fn share<T: Send>(pieces: impl Iterator<Item = T>, one: impl Fn(T) + Sync) {
    let here = Hidden(HERE.take());
    let slot = here.0.as_ref().and_then(|pass| pass.shared.slots.get(pass.slot));
    let Some(slot) = slot else { return pieces.for_each(one) };
    let pieces: Vec<Mutex<Option<T>>> = pieces.map(|piece| Mutex::new(Some(piece))).collect();
    let next = AtomicUsize::new(0);
    let job = || {
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let piece = piece.lock().unwrap_or_else(PoisonError::into_inner).take();
            piece.into_iter().for_each(&one);
        }
    };
    if pieces.len() < 2 {
        return job();
    }
    {
        // SAFETY: the slot is that of this thread's pass, which nobody else opens, and this thread not again while
        // `share` hides the pass. The guard is dropped at the end of the block, also while it unwinds, before `job`.
        #[expect(unsafe_code, reason = "hands work with borrows to other threads")]
        let _opened = unsafe { slot.open(&job) };
        job();
    }
    if let Some(panic) = slot.take_panic() {
        resume_unwind(panic);
    }
}

/// The pass of this thread, which is its pass again when this is dropped.
struct Hidden(Option<ForwardPass>);

impl Drop for Hidden {
    fn drop(&mut self) {
        HERE.set(self.0.take());
    }
}

impl SharedPool {
    fn called(&self) -> MutexGuard<'_, usize> {
        self.called.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many helpers may be awake.
    fn most_helpers(&self) -> usize {
        self.slots.len().saturating_sub(self.passes.load(Ordering::Relaxed))
    }

    /// Wakes a helper.
    fn call(&self) {
        let mut called = self.called();
        self.awake.fetch_add(1, Ordering::Relaxed);
        *called += 1;
        drop(called);
        self.wake.notify_one();
    }

    /// What a helper's thread does.
    fn help(&self) {
        while self.sleep() {
            self.active.fetch_add(1, Ordering::Relaxed);
            self.spin();
            self.active.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sleeps until called; false at the end.
    fn sleep(&self) -> bool {
        let asleep = |called: &mut usize| *called == 0 && !self.ended.load(Ordering::Relaxed);
        let mut called = self
            .wake
            .wait_while(self.called(), asleep)
            .unwrap_or_else(PoisonError::into_inner);
        *called = called.saturating_sub(1);
        !self.ended.load(Ordering::Relaxed)
    }

    /// How long a helper looks for work before it sleeps.
    fn spin_time(&self) -> Duration {
        if self.passes.load(Ordering::Relaxed) > 0 {
            self.times.spin
        } else {
            self.times.idle
        }
    }

    /// Takes pieces until none came for a while, or there are more helpers than there may be; no longer counts as awake
    /// then.
    fn spin(&self) {
        let too_many = |awake| (awake > self.most_helpers()).then(|| awake - 1);
        let mut since = Instant::now();
        while since.elapsed() < self.spin_time() && !self.ended.load(Ordering::Relaxed) {
            for _ in 0..ROUNDS {
                if self
                    .awake
                    .fetch_update(Ordering::Relaxed, Ordering::Relaxed, too_many)
                    .is_ok()
                {
                    return;
                }
                if self.slots.iter().any(Slot::help) {
                    since = Instant::now();
                    break;
                }
                std::hint::spin_loop();
            }
        }
        self.awake.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
