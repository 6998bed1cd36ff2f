//! How many threads the kernels of this thread share their work among: rayon's, beside this one.

use std::cell::Cell;

#[cfg(target_arch = "x86_64")]
use rayon::prelude::*;

thread_local! {
    static THREADS: Cell<usize> = const { Cell::new(1) };
}

/// One, unless inside [`with_kernel_threads`].
#[cfg(target_arch = "x86_64")]
pub(super) fn kernel_threads() -> usize {
    THREADS.get()
}

/// Runs `work` on one of rayon's threads; kernels in it share their work among so many.
pub(in super::super) fn with_kernel_threads<R: Send>(threads: usize, work: impl FnOnce() -> R + Send) -> R {
    /// What holds for this thread again, also after a panic.
    struct Restored(usize);
    impl Drop for Restored {
        fn drop(&mut self) {
            THREADS.set(self.0);
        }
    }
    // Within the pool, pieces cost a few hundred nanoseconds each; from outside, a way through its door.
    rayon::scope(|_| {
        let _restored = Restored(THREADS.replace(threads.max(1)));
        work()
    })
}

/// Each piece by `one`, on as many threads as there are pieces and cores; on this one if kernels do not share their work.
#[cfg(target_arch = "x86_64")]
pub(super) fn share<T: Send>(pieces: impl Iterator<Item = T>, one: impl Fn(T) + Sync + Send) {
    if kernel_threads() == 1 {
        return pieces.for_each(one);
    }
    let pieces: Vec<T> = pieces.collect();
    pieces.into_par_iter().with_max_len(1).for_each(one);
}
