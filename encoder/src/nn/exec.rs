//! How a forward pass is computed: by torch's operators or by kernels of our own, and on how many threads.

use std::io;
use std::sync::Arc;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::device::{OperatorThreads, set_operator_threads};
use crate::error::Error;

/// The implementation, where there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    /// Torch's operators, each on all threads.
    Torch,
    /// Kernels of our own, which share their work among the threads; torch's operators have one.
    Kernels,
}

/// Passed down to whatever chooses between the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exec {
    threads: usize,
    backend: Backend,
}

impl Exec {
    /// On the calling thread alone.
    pub(crate) const ONE_THREAD: Self = Self { threads: 1, backend: Backend::Kernels };

    /// On the calling thread, which [`crate::device::Compute::prepare`] has given this number of operator threads.
    pub(crate) fn on(threads: usize) -> Self {
        if threads > 1 { Self { threads, backend: Backend::Torch } } else { Self::ONE_THREAD }
    }

    /// Whether our own kernels may be used.
    pub(super) fn by_kernels(self) -> bool {
        self.backend == Backend::Kernels
    }

    /// Among how many threads a kernel shares its work.
    pub(super) fn kernel_threads(self) -> usize {
        if self.by_kernels() { self.threads } else { 1 }
    }

    /// Each piece by `one`: in parallel on the threads of a [`Pool`], one after another elsewhere.
    pub(super) fn share<T: Send>(self, pieces: impl Iterator<Item = T>, one: impl Fn(T) + Sync + Send) {
        if self.kernel_threads() == 1 {
            return pieces.for_each(one);
        }
        let pieces: Vec<T> = pieces.collect();
        pieces.into_par_iter().with_max_len(1).for_each(one);
    }
}

/// Threads that run nothing but one network: what others compute meanwhile neither waits for it nor is waited for.
#[derive(Debug, Clone)]
pub(crate) struct Pool(Arc<ThreadPool>);

impl Pool {
    /// Starts threads. Torch's operators on each of them run on it alone, since threads of theirs would wait for more work in a loop, and
    /// take the cores from the kernels.
    pub(crate) fn new(threads: usize) -> Result<Self, Error> {
        // libtorch keeps the last number of operator threads that any thread has set, for threads to come.
        let _kept = OperatorThreads::kept();
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(|number| format!("dyad-kernel-{number}"));
        let failed = |error| Error::Thread { name: "dyad-kernel", source: io::Error::other(error) };
        let pool = pool.build().map_err(failed)?;
        pool.broadcast(|_| set_operator_threads(1));
        Ok(Self(Arc::new(pool)))
    }

    /// How many there are.
    pub(crate) fn threads(&self) -> usize {
        self.0.current_num_threads()
    }

    /// Runs `work` on one of the threads, with all of them for its kernels.
    pub(crate) fn run<R: Send>(&self, work: impl FnOnce(Exec) -> R + Send) -> R {
        let exec = Exec { threads: self.threads(), backend: Backend::Kernels };
        self.0.install(|| work(exec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_shared_inside_and_threads_are_as_before_outside() {
        tch::set_num_threads(2);
        let pool = Pool::new(3).unwrap();
        assert_eq!(tch::get_num_threads(), 2);
        assert_eq!(pool.run(|exec| (tch::get_num_threads(), exec.kernel_threads())), (1, 3));
        let mut doubled = [1, 2, 3, 4, 5];
        pool.run(|exec| exec.share(doubled.iter_mut(), |number| *number *= 2));
        for exec in [Exec::ONE_THREAD, Exec::on(2)] {
            assert_eq!(exec.kernel_threads(), 1);
            exec.share(doubled.iter_mut(), |number| *number += 1);
        }
        assert_eq!(doubled, [4, 6, 8, 10, 12]);
        assert_eq!(tch::get_num_threads(), 2);
        let of_others = std::thread::spawn(tch::get_num_threads).join().unwrap();
        assert_eq!(of_others, 2);
    }
}
