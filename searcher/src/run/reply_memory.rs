//! Memory for replies: what a reply may hold of documents, and what all of them may, until they were sent.

use std::sync::{Arc, Mutex, PoisonError};

use dyad_index::lexical::StoredDocument;
use dyad_proto::limits::MAX_REPLY_DOCUMENT_BYTES;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Error, Result};

/// Bytes of documents in all replies that are being made or sent.
const ALL_REPLIES: usize = 96 << 20;
/// What is kept of it for the beginnings of replies, so that small ones pass while large ones are being sent.
const BEGINNINGS: usize = 32 << 20;
/// The beginning of a reply.
const BEGINNING: usize = 64 << 10;
const KIB: usize = 1024;

/// Shared by all requests of a searcher.
#[derive(Debug)]
pub(super) struct ReplyMemory {
    beginnings: Arc<Semaphore>,
    rest: Arc<Semaphore>,
}

impl ReplyMemory {
    pub(super) fn new() -> Self {
        let places = |bytes: usize| Arc::new(Semaphore::new(bytes / KIB));
        Self { beginnings: places(BEGINNINGS), rest: places(ALL_REPLIES - BEGINNINGS) }
    }

    /// For one reply.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        Share { memory: Arc::clone(self), taken: Mutex::default() }
    }
}

/// What one reply holds; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    memory: Arc<ReplyMemory>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    /// Of the memory for beginnings, and of the rest.
    held: [Option<OwnedSemaphorePermit>; 2],
}

impl Share {
    /// Counts a document, or says that the reply has become too large.
    pub(super) fn take(&self, document: &StoredDocument) -> Result<()> {
        let StoredDocument { key, title, text, metadata_json } = document;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.bytes += key.len() + title.len() + text.len() + metadata_json.len();
        if taken.bytes > MAX_REPLY_DOCUMENT_BYTES {
            return Err(Error::LargeReply { limit: MAX_REPLY_DOCUMENT_BYTES });
        }
        let beginning = taken.bytes.min(BEGINNING).div_ceil(KIB);
        let rest = taken.bytes.saturating_sub(BEGINNING).div_ceil(KIB);
        let wanted = [(beginning, &self.memory.beginnings), (rest, &self.memory.rest)];
        for ((wanted, memory), held) in wanted.into_iter().zip(&mut taken.held) {
            let more = wanted - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            if more == 0 {
                continue;
            }
            let permit = Arc::clone(memory).try_acquire_many_owned(more as u32);
            let permit = permit.map_err(|_| Error::FullReplies { limit: ALL_REPLIES })?;
            match held {
                Some(held) => held.merge(permit),
                None => *held = Some(permit),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(bytes: usize) -> StoredDocument {
        StoredDocument { text: "x".repeat(bytes), ..StoredDocument::default() }
    }

    #[test]
    fn one_reply_and_all_together_are_bounded_and_small_ones_pass() {
        let memory = Arc::new(ReplyMemory::new());
        let (mib, small) = (document(1 << 20), document(1000));
        let one = memory.share();
        for _ in 0..48 {
            one.take(&mib).unwrap();
        }
        assert!(matches!(one.take(&small), Err(Error::LargeReply { .. })));
        let two = memory.share();
        let taken = (0..48).take_while(|_| two.take(&mib).is_ok()).count();
        assert!((14..=16).contains(&taken), "{taken}");
        assert!(matches!(two.take(&mib), Err(Error::FullReplies { .. })));
        let three = memory.share();
        assert!((0..60).all(|_| three.take(&small).is_ok()));
        drop((one, two));
        let four = memory.share();
        assert!((0..48).all(|_| four.take(&mib).is_ok()));
    }
}
