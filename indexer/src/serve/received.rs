//! What open calls have sent: bounded in bytes over all calls together, and in time for each.

use std::time::Duration;

use dyad_proto::limits::MAX_CHANGE_BYTES;
use dyad_proto::pushback::RETRY_PUSHBACK;
use dyad_proto::service::deadline::LONGEST;
use dyad_proto::service::{ByteBudget, HeldBytes};
use tokio::time::{Instant, timeout_at};
use tonic::Status;

/// Memory of a document or a key next to its bytes.
const ELEMENT_BYTES: usize = 256;
/// A client whose call finds no room tries again after this many milliseconds.
const TRY_AGAIN_MS: i64 = 1_000;
/// Share of the memory that is kept for the first 64 KiB of each call, so that small calls pass while large ones fill
/// the rest.
const BEGINNINGS: usize = 8;

/// What calls may take of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Bytes of memory for the documents and keys of all calls that are received, wait or are made.
    pub memory: usize,
    /// Longest time between two messages of a call.
    pub silence: Duration,
    /// Longest time from the beginning of a call to the end of its stream.
    pub whole: Duration,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            silence: Duration::from_secs(30),
            whole: LONGEST,
        }
    }
}

/// The memory that all calls share.
#[derive(Debug, Clone)]
pub(super) struct CallMemory {
    limits: CallLimits,
    budget: ByteBudget,
}

impl CallMemory {
    pub(super) fn new(limits: CallLimits) -> Self {
        let beginnings = limits.memory / BEGINNINGS;
        Self {
            limits,
            budget: ByteBudget::new(beginnings, limits.memory - beginnings),
        }
    }

    /// Begins to receive a call.
    pub(super) fn begin(&self) -> ReceivedCall {
        let ends = Instant::now() + self.limits.whole;
        ReceivedCall {
            memory: self.clone(),
            ends,
            sent: 0,
            held: 0,
            bytes: HeldBytes::default(),
        }
    }
}

/// What has been received of a call.
pub(super) struct ReceivedCall {
    memory: CallMemory,
    /// When its stream must have ended.
    ends: Instant,
    /// Bytes of its documents or keys.
    sent: usize,
    /// Memory that they take.
    held: usize,
    bytes: HeldBytes,
}

impl ReceivedCall {
    /// The next message of the call's stream; none at its end. An error where the client is silent for too long, or
    /// does not end its stream: what it has sent would take the memory of others for ever.
    pub(super) async fn next<T>(
        &self,
        message: impl Future<Output = Result<Option<T>, Status>>,
    ) -> Result<Option<T>, Status> {
        let CallLimits { silence, whole, .. } = self.memory.limits;
        let ends = self.ends.min(Instant::now() + silence);
        timeout_at(ends, message).await.unwrap_or_else(|_| {
            let late = if ends == self.ends {
                format!("the stream had not ended after {} s", whole.as_secs_f64())
            } else {
                format!("the stream brought no whole message for {} s", silence.as_secs_f64())
            };
            let advice = "nothing was changed. Send the whole change again, in messages of a few MiB, without pauses";
            Err(Status::deadline_exceeded(format!("{late}; {advice}")))
        })
    }

    /// Holds memory for one more document or key, of `bytes` bytes.
    pub(super) fn hold(&mut self, bytes: usize) -> Result<(), Status> {
        self.sent += bytes;
        if self.sent > MAX_CHANGE_BYTES {
            let limit = MAX_CHANGE_BYTES >> 20;
            return Err(refuse_for_good(format!(
                "expected at most {limit} MiB in one call. Send fewer, or use `dyad-indexer upsert` or `delete`"
            )));
        }
        self.held += bytes + ELEMENT_BYTES;
        if self.bytes.raise_to(self.held, &self.memory.budget) {
            return Ok(());
        }
        let all = self.memory.limits.memory;
        if self.held > all - all / BEGINNINGS {
            return Err(refuse_for_good(format!(
                "expected a call that takes at most {all} bytes of memory (`dyad-indexer serve --call-memory`), {ELEMENT_BYTES} for \
                 each document or key in addition to its bytes. Send fewer, or use `dyad-indexer upsert` or `delete`"
            )));
        }
        Err(refuse_for_now(format!(
            "the calls that are received or wait fill the memory for them ({all} bytes, `dyad-indexer serve --call-memory`). Try \
             again later"
        )))
    }

    /// The memory that is held, once all has been received.
    pub(super) fn into_held(self) -> HeldBytes {
        self.bytes
    }
}

/// A call that cannot be made now.
pub(super) fn refuse_for_now(message: String) -> Status {
    hinted(Status::resource_exhausted(message), TRY_AGAIN_MS)
}

/// A call that cannot be made as it is, or not before somebody has made room: sending it again at once is no use.
pub(super) fn refuse_for_good(message: String) -> Status {
    hinted(Status::resource_exhausted(message), -1)
}

/// A call about which nothing was done, and which can be sent again: to the next server at once, or to this one.
pub(super) fn refuse_unmade(message: String, is_ending: bool) -> Status {
    hinted(Status::unavailable(message), if is_ending { 0 } else { TRY_AGAIN_MS })
}

/// Clients send a change again only where the server says so.
fn hinted(mut status: Status, milliseconds: i64) -> Status {
    status.metadata_mut().insert(RETRY_PUSHBACK, milliseconds.into());
    status
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tonic::Code;

    use super::*;

    fn limits(memory: usize, silence_ms: u64, whole_ms: u64) -> CallMemory {
        let milliseconds = Duration::from_millis;
        CallMemory::new(CallLimits {
            memory,
            silence: milliseconds(silence_ms),
            whole: milliseconds(whole_ms),
        })
    }

    fn hint(status: &Status) -> &str {
        assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
        status.metadata().get(RETRY_PUSHBACK).unwrap().to_str().unwrap()
    }

    #[tokio::test]
    async fn calls_share_their_memory_and_give_it_back() {
        let memory = limits(8 << 20, 1_000, 1_000);
        let (mut large, mut other, mut small) = (memory.begin(), memory.begin(), memory.begin());
        large.hold(6 << 20).unwrap();
        let refused = other.hold(2 << 20).unwrap_err();
        assert_eq!(hint(&refused), "1000");
        assert!(
            refused.message().contains("--call-memory") && refused.message().contains("8388608"),
            "{refused}"
        );
        small.hold(10_000).unwrap();
        let held = large.into_held();
        assert!(
            memory.begin().hold(2 << 20).is_err(),
            "a change that waits holds its memory"
        );
        drop((held, other));
        memory.begin().hold(7 << 20).unwrap();
        // Never, however often it is sent.
        assert_eq!(hint(&memory.begin().hold(9 << 20).unwrap_err()), "-1");
        assert_eq!(
            hint(&limits(1 << 30, 1, 1).begin().hold(MAX_CHANGE_BYTES + 1).unwrap_err()),
            "-1"
        );
    }

    #[tokio::test]
    async fn many_short_keys_are_counted_with_what_each_takes() {
        let memory = limits(8 << 20, 1_000, 1_000);
        let mut received = memory.begin();
        let taken = (0..1 << 20).take_while(|_| received.hold(1).is_ok()).count();
        assert!((20_000..=(8 << 20) / ELEMENT_BYTES).contains(&taken), "{taken}");
    }

    #[tokio::test]
    async fn a_call_that_is_silent_or_never_ends_is_ended() {
        let silent = limits(1 << 20, 20, 60_000).begin();
        assert_eq!(silent.next(ready(Ok(Some(1)))).await.unwrap(), Some(1));
        let ended = silent.next::<u8>(pending()).await.unwrap_err();
        assert!(
            ended.code() == Code::DeadlineExceeded && ended.message().contains("no whole message for 0.02 s"),
            "{ended}"
        );
        let endless = limits(1 << 20, 60_000, 50).begin();
        let ended = loop {
            let message = async {
                tokio::time::sleep(Duration::from_millis(5)).await;
                Ok(Some(1))
            };
            if let Err(ended) = endless.next(message).await {
                break ended;
            }
        };
        assert!(
            ended.code() == Code::DeadlineExceeded && ended.message().contains("not ended after 0.05 s"),
            "{ended}"
        );
    }
}
