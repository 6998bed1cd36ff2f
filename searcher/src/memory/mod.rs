//! The memory that indexes need of what the process may use, told apart into anonymous memory, which the kernel cannot
//! take back, and pages of files, which it reads again where it has dropped them. The limit, and what the process has,
//! are of [`dyad_files::memory`].

mod need;

pub use dyad_files::memory::{ProcessMemoryLimit, Resident, mib};
pub use dyad_index::snapshot::IndexMemory;
pub use need::{DoesNotFit, MemoryNeed, ProcessMemory};
