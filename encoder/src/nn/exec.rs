//! How a forward pass is computed: by torch's operators or by kernels of our own, and on how many threads.

use super::pool;

/// The implementation, where there are several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KernelBackend {
    /// Torch's operators, each on all threads.
    Torch,
    /// Kernels of our own; torch's operators have one thread.
    Kernels,
    /// Kernels of our own, which share their work with the helpers of a [`pool::KernelPool`]; torch's operators have
    /// one thread.
    SharedKernels,
}

/// Passed down to whatever chooses between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exec {
    backend: KernelBackend,
}

impl Exec {
    /// On the calling thread alone.
    pub(crate) const ONE_THREAD: Self = Self {
        backend: KernelBackend::Kernels,
    };

    /// On the calling thread, with the helpers of the pool that runs it.
    pub(crate) const SHARED: Self = Self {
        backend: KernelBackend::SharedKernels,
    };

    /// On the calling thread, which [`crate::device::Compute::prepare`] has given this number of operator threads.
    pub(crate) fn on(threads: usize) -> Self {
        if threads > 1 {
            Self {
                backend: KernelBackend::Torch,
            }
        } else {
            Self::ONE_THREAD
        }
    }

    /// Whether our own kernels may be used.
    pub(super) fn by_kernels(self) -> bool {
        self.backend != KernelBackend::Torch
    }

    /// How many pieces a kernel makes of its work, which is worth sharing from some size on: as many as threads may
    /// share it, none smaller than half of that.
    pub(crate) fn pieces(self, work: usize, worth_sharing: usize) -> usize {
        if self.backend != KernelBackend::SharedKernels || work < worth_sharing {
            return 1;
        }
        pool::threads_here(work.saturating_mul(2) / worth_sharing.max(1))
    }

    /// Each piece by `one`: with the helpers of a [`pool::KernelPool`] in no order, one after another elsewhere.
    pub(crate) fn share<T: Send>(self, pieces: impl Iterator<Item = T>, one: impl Fn(T) + Sync) {
        if self.backend == KernelBackend::SharedKernels {
            pool::share(pieces, one);
        } else {
            pieces.for_each(one);
        }
    }
}
