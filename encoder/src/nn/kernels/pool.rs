//! Threads that share the work of kernels, tens of microseconds of it at a time, with those that compute passes.
//!
//! A pass runs on the thread that asks for it. Where a kernel has pieces to give, it opens the pass's *slot* and takes the pieces one by one itself; helpers
//! that see the open slot take some of them. So no pass waits for a helper to begin, only for a piece that one is at. A helper is woken when a pass
//! turns out to be long, looks for pieces for some microseconds before it sleeps again, since the next kernel of a pass comes soon, and sleeps at once
//! where the passes and the helpers that are awake are more than the threads that may run.
//!
//! A pool of tasks (rayon's) makes each kernel wait until the thread that was given its second half has begun, been woken where it slept, and ended. That is as
//! fast for one pass at a time, but several passes that share the threads of one pool wait for each other's pieces.

use std::any::Any;
use std::cell::{RefCell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::device::{OperatorThreads, set_operator_threads};
use crate::error::Error;

/// A pass that has taken that long is worth waking helpers for, one with each kernel: to wake one takes about half of that.
const LONG: Duration = Duration::from_micros(100);

/// How long a helper looks for pieces before it sleeps: longer than a pass is at what it does not share.
const LOOKING: Duration = Duration::from_micros(200);

/// How often a thread looks before it asks for the time; 32 times as often, before it gives its core away.
const LOOKS: usize = 64;

/// Of a slot's state: helpers may enter. The rest of the number counts those inside, in steps of [`INSIDE`].
const OPEN: usize = 1;
const INSIDE: usize = 2;

/// Takes pieces until there are none.
type Job = dyn Fn() + Sync;

/// Where one pass gives pieces.
#[derive(Debug)]
struct Slot {
    taken: AtomicBool,
    state: AtomicUsize,
    /// Written by the pass while the slot is closed and nobody is inside, read by those inside.
    job: UnsafeCell<Option<*const Job>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is guarded by `state`, as it says, and what it points to is `Sync`.
#[expect(unsafe_code, reason = "a pointer to work of another thread")]
unsafe impl Sync for Slot {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a pointer to work of another thread")]
unsafe impl Send for Slot {}

/// What passes and helpers know of each other.
#[derive(Debug)]
struct Shared {
    slots: Box<[Slot]>,
    /// Passes under way.
    passes: AtomicUsize,
    /// Helpers that do not sleep, the called ones included.
    awake: AtomicUsize,
    /// Helpers that look for pieces, or are at one.
    looking: AtomicUsize,
    /// How long they look.
    patience: Duration,
    /// Helpers that were called and have not woken yet.
    called: Mutex<usize>,
    wake: Condvar,
    ended: AtomicBool,
}

/// The pass that a thread computes.
#[derive(Debug)]
struct Pass {
    shared: Arc<Shared>,
    slot: usize,
    since: Instant,
}

thread_local! {
    static HERE: RefCell<Option<Pass>> = const { RefCell::new(None) };
}

/// The threads of one model: a pass on each, or fewer passes and helpers.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<Threads>);

#[derive(Debug)]
struct Threads {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts helpers: one fewer than `threads`, since each pass has a thread already. Torch's operators on each of them run on it alone, since threads
    /// of theirs would wait for more work in a loop, and take the cores from the kernels.
    pub(crate) fn new(threads: usize) -> Result<Self, Error> {
        Self::with_patience(threads, LOOKING)
    }

    fn with_patience(threads: usize, patience: Duration) -> Result<Self, Error> {
        // libtorch keeps the last number of operator threads that any thread has set, for threads to come.
        let _kept = OperatorThreads::kept();
        let slot = |_| Slot {
            taken: AtomicBool::new(false),
            state: AtomicUsize::new(0),
            job: UnsafeCell::new(None),
            panic: Mutex::default(),
        };
        let shared = Arc::new(Shared {
            slots: (0..threads).map(slot).collect(),
            passes: AtomicUsize::new(0),
            awake: AtomicUsize::new(0),
            looking: AtomicUsize::new(0),
            patience,
            called: Mutex::default(),
            wake: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let mut pool = Threads { shared, helpers: Vec::new() };
        let (ready, all_ready) = mpsc::sync_channel::<()>(1);
        for number in 1..threads {
            let (shared, ready) = (Arc::clone(&pool.shared), ready.clone());
            let work = move || {
                set_operator_threads(1);
                drop(ready);
                shared.help();
            };
            let spawned = std::thread::Builder::new().name(format!("dyad-kernel-{number}")).spawn(work);
            pool.helpers.push(spawned.map_err(|source| Error::Thread { name: "dyad-kernel", source })?);
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

    /// Computes a pass on this thread, whose kernels share their work while no more passes than threads are under way; torch's operators run on
    /// this thread alone.
    pub(crate) fn run<R>(&self, pass: impl FnOnce() -> R) -> R {
        let _kept = one_operator_thread();
        let shared = &self.0.shared;
        let slot = shared.slots.iter().position(|slot| !slot.taken.swap(true, Ordering::Acquire));
        shared.passes.fetch_add(1, Ordering::Relaxed);
        let here = slot.map(|slot| Pass { shared: Arc::clone(shared), slot, since: Instant::now() });
        let _running = Running { shared, slot, before: HERE.replace(here) };
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
        let pool = Self::with_patience(threads, Duration::MAX).unwrap();
        (1..threads).for_each(|_| pool.0.shared.call());
        while pool.0.shared.looking.load(Ordering::Relaxed) + 1 < threads {
            std::thread::yield_now();
        }
        pool
    }
}

impl Drop for Threads {
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
struct Running<'a> {
    shared: &'a Shared,
    slot: Option<usize>,
    before: Option<Pass>,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        HERE.set(self.before.take());
        self.shared.passes.fetch_sub(1, Ordering::Relaxed);
        if let Some(slot) = self.slot.and_then(|slot| self.shared.slots.get(slot)) {
            slot.taken.store(false, Ordering::Release);
        }
    }
}

/// Threads that share the work of the next kernel on this thread, at most `most`: this one, and the helpers that are awake. Where there may
/// be more, and the pass is long, one more is woken.
pub(in crate::nn) fn threads_here(most: usize) -> usize {
    HERE.with_borrow(|here| {
        let Some(Pass { shared, since, .. }) = here else { return 1 };
        let wanted = most.saturating_sub(1).min(shared.most_helpers());
        if wanted > shared.awake.load(Ordering::Relaxed) && since.elapsed() >= LONG {
            shared.call();
        }
        1 + wanted.min(shared.looking.load(Ordering::Relaxed))
    })
}

/// Each piece by `one`, on this thread and on those that help it, in no order. A piece that shares in its turn does so on its own thread.
pub(in crate::nn) fn share<T: Send>(pieces: impl Iterator<Item = T>, one: impl Fn(T) + Sync) {
    let here = Away(HERE.take());
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
    let opened = slot.open(&job);
    job();
    drop(opened);
    if let Some(panic) = slot.panic().take() {
        resume_unwind(panic);
    }
}

/// What was [`HERE`], and will be again when it is dropped.
struct Away(Option<Pass>);

impl Drop for Away {
    fn drop(&mut self) {
        HERE.set(self.0.take());
    }
}

/// An open slot; when it is dropped, it is closed and nobody is inside.
struct Opened<'a>(&'a Slot);

impl Slot {
    /// Lets helpers run `job` until the guard is dropped, which must be in the frame that owns `job`.
    #[expect(unsafe_code, reason = "hands work with borrows to other threads")]
    fn open<'a>(&'a self, job: &'a (dyn Fn() + Sync + 'a)) -> Opened<'a> {
        *self.panic() = None;
        // SAFETY: only the lifetime differs. When the guard is dropped, nobody runs `job` and nobody will; `share`, whose frame owns it, drops the guard
        // before it, also while it unwinds, and never forgets it.
        let job = unsafe { std::mem::transmute::<&'a (dyn Fn() + Sync + 'a), &'static Job>(job) };
        // SAFETY: the slot is closed and nobody is inside: it belongs to this thread's pass, whose last guard was dropped, since `share` takes
        // the pass away from its thread as long as it has one.
        unsafe { *self.job.get() = Some(job) };
        self.state.store(OPEN, Ordering::Release);
        Opened(self)
    }

    /// Takes pieces if the slot is open. Whether it was.
    #[expect(unsafe_code, reason = "runs work of another thread")]
    fn help(&self) -> bool {
        let enter = |state| (state & OPEN != 0).then_some(state + INSIDE);
        if self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_err() {
            return false;
        }
        // SAFETY: this thread is inside: the job was written before the slot was opened, and is neither written again nor dropped before all have left.
        let done = catch_unwind(AssertUnwindSafe(|| unsafe { (*self.job.get()).map(|job| (*job)()) }));
        if let Err(panic) = done {
            *self.panic() = Some(panic);
        }
        self.state.fetch_sub(INSIDE, Ordering::Release);
        true
    }

    fn panic(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Opened<'_> {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut looks = 0;
        // Sees all that was done inside: each left by a release, and what came between are reads and writes in one.
        while state.load(Ordering::Acquire) != 0 {
            looks += 1;
            // A piece is at an end by then, unless its helper has no core.
            if looks > 32 * LOOKS { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

impl Shared {
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

    /// A helper's life.
    fn help(&self) {
        while self.sleep() {
            self.looking.fetch_add(1, Ordering::Relaxed);
            self.look();
            self.looking.fetch_sub(1, Ordering::Relaxed);
            self.awake.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sleeps until called; false at the end.
    fn sleep(&self) -> bool {
        let asleep = |called: &mut usize| *called == 0 && !self.ended.load(Ordering::Relaxed);
        let mut called = self.wake.wait_while(self.called(), asleep).unwrap_or_else(PoisonError::into_inner);
        *called = called.saturating_sub(1);
        !self.ended.load(Ordering::Relaxed)
    }

    /// Takes pieces until none came for a while, or the passes need the cores.
    fn look(&self) {
        let needed = || self.awake.load(Ordering::Relaxed) <= self.most_helpers();
        let mut since = Instant::now();
        while since.elapsed() < self.patience && !self.ended.load(Ordering::Relaxed) {
            for _ in 0..LOOKS {
                if !needed() {
                    return;
                }
                if self.slots.iter().any(Slot::help) {
                    since = Instant::now();
                    break;
                }
                std::hint::spin_loop();
            }
        }
    }
}

#[cfg(test)]
#[path = "pool/tests.rs"]
mod tests;
