//! Threads of a network's own, among which its kernels share the work of one batch.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

#[cfg(any(test, target_arch = "x86_64"))]
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::device::{OperatorThreads, set_operator_threads};
use crate::error::Error;

thread_local! {
    static THREADS: Cell<usize> = const { Cell::new(1) };
}

/// Threads that run nothing but one network: what others compute meanwhile neither waits for it nor is waited for.
#[derive(Debug, Clone)]
pub(crate) struct Cores(Arc<ThreadPool>);

impl Cores {
    /// So many threads; torch's operators on each of them run on it alone, since threads of theirs would wait for more work in a loop,
    /// and take the cores from the kernels.
    pub(crate) fn new(threads: usize) -> Result<Self, Error> {
        // libtorch keeps the last number of operator threads that any thread has set, for threads to come.
        let _kept = OperatorThreads::kept();
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|number| format!("dyad-kernel-{number}"));
        let failed = |error| Error::Thread { name: "dyad-kernel", source: io::Error::other(error) };
        let pool = pool.build().map_err(failed)?;
        pool.broadcast(|_| {
            set_operator_threads(1);
            THREADS.set(threads);
        });
        Ok(Self(Arc::new(pool)))
    }

    /// Runs `work` on one of the threads, with all of them for its kernels.
    pub(crate) fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.0.install(work)
    }
}

/// Among how many threads kernels share their work here: one, unless inside [`Cores::run`].
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) fn kernel_threads() -> usize {
    THREADS.get()
}

/// Each piece by `one`: side by side on the threads of [`Cores`], one after another elsewhere.
#[cfg(any(test, target_arch = "x86_64"))]
pub(super) fn share<T: Send>(pieces: impl Iterator<Item = T>, one: impl Fn(T) + Sync + Send) {
    if kernel_threads() == 1 {
        return pieces.for_each(one);
    }
    let pieces: Vec<T> = pieces.collect();
    pieces.into_par_iter().with_max_len(1).for_each(one);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shared_inside_and_threads_are_as_before_outside() {
        tch::set_num_threads(2);
        let cores = Cores::new(3).unwrap();
        assert_eq!((tch::get_num_threads(), kernel_threads()), (2, 1));
        let inside = cores.run(|| (tch::get_num_threads(), kernel_threads()));
        assert_eq!(inside, (1, 3));
        let mut doubled = [1, 2, 3, 4, 5];
        cores.run(|| share(doubled.iter_mut(), |number| *number *= 2));
        share(doubled.iter_mut(), |number| *number += 1);
        assert_eq!(doubled, [3, 5, 7, 9, 11]);
        assert_eq!((tch::get_num_threads(), kernel_threads()), (2, 1));
        let of_others = std::thread::spawn(tch::get_num_threads).join().unwrap();
        assert_eq!(of_others, 2);
    }
}
