//! Where the pieces of a pass are given: work with borrows, run by other threads while its owner waits.

use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Rounds in which a pass spins for the last pieces, then yields; from then on it sleeps between two of them.
const SPINS: usize = 2048;
const YIELDS: usize = SPINS + 64;
const NAP: Duration = Duration::from_micros(100);

/// Of a slot's state: helpers may enter. The rest of the number counts those inside, in steps of [`INSIDE`].
const OPEN: usize = 1;
const INSIDE: usize = 2;

/// Takes pieces until there are none.
type PieceJob = dyn Fn() + Sync;

/// Where one pass gives pieces.
#[derive(Debug)]
pub(super) struct Slot {
    /// Whether a pass has taken the slot.
    taken: AtomicBool,
    state: AtomicUsize,
    /// Written by the pass while the slot is closed and nobody is inside, read by those inside.
    job: UnsafeCell<Option<*const PieceJob>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is guarded by `state`, as it says, and what it points to is `Sync`.
#[expect(unsafe_code, reason = "a pointer to work of another thread")]
unsafe impl Sync for Slot {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a pointer to work of another thread")]
unsafe impl Send for Slot {}

/// An open slot; when it is dropped, it is closed and nobody is inside.
pub(super) struct OpenSlot<'a>(&'a Slot);

/// A helper inside of a slot, which it closes when it leaves: a job returns when no pieces are left.
struct Inside<'a>(&'a Slot);

impl Slot {
    pub(super) fn new() -> Self {
        let (taken, state) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self {
            taken,
            state,
            job: UnsafeCell::new(None),
            panic: Mutex::default(),
        }
    }

    /// Takes the slot for a pass, if it is free.
    pub(super) fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::Acquire)
    }

    /// Gives it back.
    pub(super) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Whether it is closed and nobody is inside.
    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.state.load(Ordering::Acquire) == 0
    }

    /// Lets helpers run `job` until the guard is dropped.
    ///
    /// # Safety
    ///
    /// No other guard of this slot may exist, and this one must be dropped before `job`, and not be forgotten.
    #[expect(unsafe_code, reason = "hands work with borrows to other threads")]
    pub(super) unsafe fn open<'a>(&'a self, job: &'a (dyn Fn() + Sync + 'a)) -> OpenSlot<'a> {
        *self.panic() = None;
        // SAFETY: only the lifetime differs. When the guard is dropped, nobody runs `job` and nobody will, and the
        // caller drops it before `job`.
        let job = unsafe { std::mem::transmute::<&'a (dyn Fn() + Sync + 'a), &'static PieceJob>(job) };
        // SAFETY: the slot is closed and nobody is inside, since the last guard was dropped.
        unsafe { *self.job.get() = Some(job) };
        self.state.store(OPEN, Ordering::Release);
        OpenSlot(self)
    }

    /// Takes pieces if the slot is open. Whether it was.
    #[expect(unsafe_code, reason = "runs work of another thread")]
    pub(super) fn help(&self) -> bool {
        let enter = |state| (state & OPEN != 0).then_some(state + INSIDE);
        if self
            .state
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, enter)
            .is_err()
        {
            return false;
        }
        let _inside = Inside(self);
        // SAFETY: this thread is inside: the job was written before the slot was opened, and is neither written again
        // nor dropped before all have left.
        let done = catch_unwind(AssertUnwindSafe(|| unsafe { (*self.job.get()).map(|job| (*job)()) }));
        if let Err(panic) = done {
            self.panic().get_or_insert(panic);
        }
        true
    }

    /// The first panic of a helper since the slot was opened.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        self.panic().take()
    }

    fn panic(&self) -> MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_and(!OPEN, Ordering::Relaxed);
        self.0.state.fetch_sub(INSIDE, Ordering::Release);
    }
}

impl Drop for OpenSlot<'_> {
    fn drop(&mut self) {
        let state = &self.0.state;
        state.fetch_and(!OPEN, Ordering::Relaxed);
        let mut rounds = 0;
        // Sees all that was done inside: each left by a release, and what came between are reads and writes in one.
        while state.load(Ordering::Acquire) != 0 {
            rounds += 1;
            // A kernel's piece is computed before the spinning ends, unless its helper has no core.
            if rounds <= SPINS {
                std::hint::spin_loop();
            } else if rounds <= YIELDS {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
    }
}
