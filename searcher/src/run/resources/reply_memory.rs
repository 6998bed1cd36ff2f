//! The memory budget for documents in replies: of one reply, and of all replies until they are sent.

use std::sync::{Mutex, PoisonError};

use dyad_index::lexical::StoredDocument;
use dyad_proto::limits::MAX_REPLY_DOCUMENT_BYTES;
use dyad_proto::service::{ByteBudget, HeldBytes};

use super::cancellation::SearchCancellation;
use crate::error::{Error, Result};

/// Most bytes of documents in all replies that are being made or sent.
pub(crate) const ALL_REPLIES: usize = 96 << 20;
/// Bytes of it that are reserved for small replies and the first bytes of others, so that small ones pass while large
/// ones are being sent.
const RESERVED: usize = 32 << 20;

/// Shared by all requests of a searcher.
#[derive(Debug)]
pub(in crate::run) struct ReplyMemory(ByteBudget);

impl ReplyMemory {
    pub(in crate::run) fn new() -> Self {
        Self(ByteBudget::new(RESERVED, ALL_REPLIES - RESERVED))
    }

    /// The budget of one reply.
    pub(in crate::run) fn budget(&self) -> ReplyBudget {
        ReplyBudget {
            budget: self.0.clone(),
            taken: Mutex::default(),
        }
    }

    /// The budget of one reply of any size: waits until enough for the largest is free.
    pub(in crate::run) async fn reserve(&self, cancel: &SearchCancellation) -> Result<ReplyBudget> {
        let held = self.0.reserve(MAX_REPLY_DOCUMENT_BYTES, cancel.deadline()).await;
        let held = held.map_err(|error| cancel.not_admitted(error))?;
        Ok(ReplyBudget {
            budget: self.0.clone(),
            taken: Mutex::new(TakenMemory {
                held,
                ..TakenMemory::default()
            }),
        })
    }
}

/// The memory that one reply holds; released when it is dropped.
#[derive(Debug)]
pub struct ReplyBudget {
    budget: ByteBudget,
    taken: Mutex<TakenMemory>,
}

/// Bytes, and the memory held for them.
#[derive(Debug, Default)]
struct TakenMemory {
    documents: usize,
    hits: usize,
    held: HeldBytes,
}

impl TakenMemory {
    /// Holds what documents and hits take; of a reply at most what the largest one's documents may.
    fn hold(&mut self, budget: &ByteBudget) -> Result<()> {
        let bytes = (self.documents + self.hits).min(MAX_REPLY_DOCUMENT_BYTES);
        if self.held.raise_to(bytes, budget) {
            Ok(())
        } else {
            Err(Error::FullReplies { limit: ALL_REPLIES })
        }
    }
}

impl ReplyBudget {
    /// Counts a document; an error where the reply has become too large.
    pub(in crate::run) fn take(&self, document: &StoredDocument) -> Result<()> {
        let StoredDocument {
            key,
            title,
            text,
            metadata_json,
        } = document;
        self.take_bytes(key.len() + title.len() + text.len() + metadata_json.len())
    }

    /// Counts bytes of a document; an error where the reply has become too large.
    pub(in crate::run) fn take_bytes(&self, more: usize) -> Result<()> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.documents += more;
        if taken.documents > MAX_REPLY_DOCUMENT_BYTES {
            return Err(Error::LargeReply {
                limit: MAX_REPLY_DOCUMENT_BYTES,
            });
        }
        taken.hold(&self.budget)
    }

    /// Counts bytes of hits without their documents: no reply is too large for them, their number has a limit of its
    /// own.
    pub(in crate::run) fn take_hits(&self, more: usize) -> Result<()> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.hits += more;
        taken.hold(&self.budget)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn document(bytes: usize) -> StoredDocument {
        StoredDocument {
            text: "x".repeat(bytes),
            ..StoredDocument::default()
        }
    }

    #[tokio::test]
    async fn who_waits_for_memory_gets_it_when_another_reply_was_sent() {
        let (memory, mib) = (ReplyMemory::new(), document(1 << 20));
        let first = memory.budget();
        assert!((0..40).all(|_| first.take(&mib).is_ok()));
        let (soon, _guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_millis(20));
        assert!(matches!(memory.reserve(&soon).await, Err(Error::Deadline(_))));
        let (cancel, _other_guard) = SearchCancellation::with_deadline(Instant::now(), Duration::from_mins(1));
        let sent = async {
            tokio::task::yield_now().await;
            drop(first);
        };
        let (second, ()) = tokio::join!(memory.reserve(&cancel), sent);
        let second = second.unwrap();
        assert!((0..48).all(|_| second.take(&mib).is_ok()));
    }

    #[test]
    fn one_reply_and_all_together_are_bounded_and_small_ones_pass() {
        let memory = ReplyMemory::new();
        let (mib, small) = (document(1 << 20), document(1000));
        let one = memory.budget();
        for _ in 0..48 {
            one.take(&mib).unwrap();
        }
        // Hits make no reply too large.
        one.take_hits(1 << 30).unwrap();
        assert!(matches!(one.take(&small), Err(Error::LargeReply { .. })));
        let two = memory.budget();
        let taken = (0..48).take_while(|_| two.take(&mib).is_ok()).count();
        assert!((14..=16).contains(&taken), "{taken}");
        assert!(matches!(two.take(&mib), Err(Error::FullReplies { .. })));
        let three = memory.budget();
        assert!((0..60).all(|_| three.take(&small).is_ok()));
        drop((one, two));
        let four = memory.budget();
        assert!((0..48).all(|_| four.take(&mib).is_ok()));
    }
}
