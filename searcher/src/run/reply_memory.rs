//! Memory for replies: what a reply may hold of documents, and what all of them may, until they were sent.

use std::sync::{Mutex, PoisonError};

use dyad_index::lexical::StoredDocument;
use dyad_proto::limits::MAX_REPLY_DOCUMENT_BYTES;
use dyad_proto::service::{ByteBudget, HeldBytes};

use super::stop::Stop;
use crate::error::{Error, Result};

/// Bytes of documents in all replies that are being made or sent.
const ALL_REPLIES: usize = 96 << 20;
/// What is kept of it for the beginnings of replies, so that small ones pass while large ones are being sent.
const BEGINNINGS: usize = 32 << 20;

/// Shared by all requests of a searcher.
#[derive(Debug)]
pub(super) struct ReplyMemory(ByteBudget);

impl ReplyMemory {
    pub(super) fn new() -> Self {
        Self(ByteBudget::new(BEGINNINGS, ALL_REPLIES - BEGINNINGS))
    }

    /// For one reply.
    pub(super) fn share(&self) -> Share {
        Share { budget: self.0.clone(), taken: Mutex::default() }
    }

    /// For one reply of any size: waits until what the largest takes is free.
    pub(super) async fn reserve(&self, stop: &Stop) -> Result<Share> {
        let reserved = tokio::time::timeout_at(stop.deadline().into(), self.0.reserve(MAX_REPLY_DOCUMENT_BYTES));
        let held = reserved.await.map_err(|_| stop.over())?.ok_or(Error::Internal)?;
        Ok(Share { budget: self.0.clone(), taken: Mutex::new((0, held)) })
    }
}

/// What one reply holds; given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: ByteBudget,
    /// Bytes, and what is held for them.
    taken: Mutex<(usize, HeldBytes)>,
}

impl Share {
    /// Counts a document, or says that the reply has become too large.
    pub(super) fn take(&self, document: &StoredDocument) -> Result<()> {
        let StoredDocument { key, title, text, metadata_json } = document;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, held) = &mut *taken;
        *bytes += key.len() + title.len() + text.len() + metadata_json.len();
        if *bytes > MAX_REPLY_DOCUMENT_BYTES {
            return Err(Error::LargeReply { limit: MAX_REPLY_DOCUMENT_BYTES });
        }
        if held.raise_to(*bytes, &self.budget) { Ok(()) } else { Err(Error::FullReplies { limit: ALL_REPLIES }) }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn document(bytes: usize) -> StoredDocument {
        StoredDocument { text: "x".repeat(bytes), ..StoredDocument::default() }
    }

    #[tokio::test]
    async fn who_waits_for_memory_gets_it_when_another_reply_was_sent() {
        let (memory, mib) = (ReplyMemory::new(), document(1 << 20));
        let first = memory.share();
        assert!((0..40).all(|_| first.take(&mib).is_ok()));
        let (soon, _waiting) = Stop::after(Instant::now(), Duration::from_millis(20));
        assert!(matches!(memory.reserve(&soon).await, Err(Error::Deadline(_))));
        let (stop, _waiting_too) = Stop::after(Instant::now(), Duration::from_mins(1));
        let sent = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        let (second, ()) = tokio::join!(memory.reserve(&stop), sent);
        let second = second.unwrap();
        assert!((0..48).all(|_| second.take(&mib).is_ok()));
    }

    #[test]
    fn one_reply_and_all_together_are_bounded_and_small_ones_pass() {
        let memory = ReplyMemory::new();
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
