//! Replies of leaves that carry documents: each takes of the memory of replies as it comes, not once all have come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dyad_proto::client::{ClientError, LeafClient};
use dyad_proto::v1;
use prost::Message as _;

use super::super::resources::reply_memory::{ALL_REPLIES, ReplyBudget};
use super::asked::LeavesOfBatch;
use crate::error::{Error, Result};
use crate::leaves::LeafRequest;

/// A reply that carries documents.
pub(super) trait CarriesDocuments {
    /// About the bytes that it takes.
    fn bytes(&self) -> usize;
}

impl CarriesDocuments for v1::LeafReadResponse {
    fn bytes(&self) -> usize {
        self.encoded_len()
    }
}

/// A request for documents, and the memory that the replies take.
struct WithinMemory<'a, Q> {
    request: &'a Q,
    budget: &'a ReplyBudget,
    /// There was not enough for one of the replies.
    is_full: AtomicBool,
}

/// A reply for which there was enough memory, or which was dropped.
struct ReceivedReply<R> {
    generation: Option<v1::GenerationName>,
    reply: Option<R>,
}

impl<Q> LeafRequest for WithinMemory<'_, Q>
where
    Q: LeafRequest,
    Q::Reply: CarriesDocuments,
{
    type Reply = ReceivedReply<Q::Reply>;

    async fn send(
        &self,
        client: &LeafClient,
        shards: Vec<u32>,
        time: Duration,
    ) -> std::result::Result<Self::Reply, ClientError> {
        let reply = self.request.send(client, shards, time).await?;
        let generation = Q::generation(&reply).cloned();
        // Of which the reply of all is made: how large that may be is seen then.
        let is_held = self.budget.take_hits(reply.bytes()).is_ok();
        if !is_held {
            self.is_full.store(true, Ordering::Relaxed);
        }
        Ok(ReceivedReply {
            generation,
            reply: is_held.then_some(reply),
        })
    }

    fn generation(reply: &Self::Reply) -> Option<&v1::GenerationName> {
        reply.generation.as_ref()
    }

    fn filter(&self) -> Option<&v1::Filter> {
        self.request.filter()
    }
}

impl LeavesOfBatch<'_> {
    /// Asks for documents of all of these shards; an error where there is not enough of the memory of replies.
    pub(super) async fn ask_within<Q>(&self, shards: &[u32], request: &Q, budget: &ReplyBudget) -> Result<Vec<Q::Reply>>
    where
        Q: LeafRequest,
        Q::Reply: CarriesDocuments,
    {
        let within = WithinMemory {
            request,
            budget,
            is_full: AtomicBool::new(false),
        };
        let received = self.ask(shards, &within).await?;
        if within.is_full.load(Ordering::Relaxed) {
            return Err(Error::FullReplies { limit: ALL_REPLIES });
        }
        Ok(received.into_iter().filter_map(|received| received.reply).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::resources::reply_memory::ReplyMemory;
    use super::*;

    struct LargeRequest;
    struct LargeReply(v1::GenerationName);

    impl CarriesDocuments for LargeReply {
        fn bytes(&self) -> usize {
            40 << 20
        }
    }

    impl LeafRequest for LargeRequest {
        type Reply = LargeReply;

        async fn send(
            &self,
            _: &LeafClient,
            _: Vec<u32>,
            _: Duration,
        ) -> std::result::Result<Self::Reply, ClientError> {
            Ok(LargeReply(v1::GenerationName::default()))
        }

        fn generation(reply: &Self::Reply) -> Option<&v1::GenerationName> {
            Some(&reply.0)
        }
    }

    async fn received(budget: &ReplyBudget) -> (bool, bool) {
        let within = WithinMemory {
            request: &LargeRequest,
            budget,
            is_full: AtomicBool::new(false),
        };
        let client = LeafClient::unconnected("http://127.0.0.1:1").unwrap();
        let sent = within.send(&client, Vec::new(), Duration::from_secs(1)).await.unwrap();
        assert!(WithinMemory::<LargeRequest>::generation(&sent).is_some());
        (sent.reply.is_some(), within.is_full.into_inner())
    }

    #[tokio::test]
    async fn a_reply_for_which_there_is_no_memory_is_dropped_as_it_comes() {
        let memory = ReplyMemory::new();
        let first = memory.budget();
        first.take_hits(48 << 20).unwrap();
        assert_eq!(received(&memory.budget()).await, (false, true));
        drop(first);
        assert_eq!(received(&memory.budget()).await, (true, false));
    }
}
