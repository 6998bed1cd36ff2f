//! Where and when a made-up run took place, for tests of what is written about runs.

use super::machine::{Machine, Stamp};

/// No machine at all.
pub(crate) fn test_machine() -> Machine {
    Machine {
        cpu: "test".to_owned(),
        threads: 2,
        features: Vec::new(),
        memory_bytes: 0,
        kernels: "scalar",
        forced_kernels: None,
        system: String::new(),
    }
}

/// No commit at all.
pub(crate) fn test_stamp() -> Stamp {
    Stamp { revision: "abc".to_owned(), date: "2026-01-02".to_owned(), unix_time: 0 }
}
