//! How slowly a client may send and read: a pause, and a least rate. Every deadline of bytes on their way is one of
//! these.

use std::time::Duration;

/// The time that a client has for a number of bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransferPace {
    /// Time for whatever is on its way, however small: the client's pauses in all.
    pub(super) pause: Duration,
    /// Bytes that add a second each.
    pub(super) bytes_per_second: usize,
    /// The longest time for any number of bytes.
    pub(super) longest: Duration,
}

impl TransferPace {
    /// A gRPC message that is received; its header says how many bytes come.
    pub(super) const MESSAGE: Self = Self {
        pause: Duration::from_secs(20),
        bytes_per_second: 256 << 10,
        longest: Duration::MAX,
    };
    /// The body of an HTTP request, by the bytes that have come: one that dribbles is not waited for as long as a large
    /// one.
    pub(super) const BODY: Self = Self {
        pause: Duration::from_secs(5),
        bytes_per_second: 64 << 10,
        longest: Duration::from_mins(1),
    };

    /// A part of a reply that is read, with pauses of `stall` in all.
    pub(super) const fn reply(stall: Duration) -> Self {
        Self {
            pause: stall,
            bytes_per_second: 512 << 10,
            longest: Duration::MAX,
        }
    }

    /// The time for this number of bytes.
    pub(super) fn time_for(self, bytes: usize) -> Duration {
        let sent = Duration::from_millis(bytes as u64 * 1000 / self.bytes_per_second.max(1) as u64);
        (self.pause + sent).min(self.longest)
    }
}
