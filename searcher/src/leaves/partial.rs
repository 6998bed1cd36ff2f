//! Answers of which some shards may be missing, where a request allows that.
//!
//! Once enough of the documents were searched, the rest is waited for a share of the time that is left: Vespa's
//! adaptive timeout.

use std::time::Duration;

use dyad_proto::v1;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::call::{AskedLeaves, LeafRequest};
use super::follow::Leaves;
use super::lost::{AnswersOfShards, LeafFailure, LostReason, LostShards, MissingShards};

/// Of the time that is left once there is enough.
const SHARE: u32 = 4;

/// The answers of some leaves.
#[derive(Debug)]
pub(crate) struct PartialAnswers<R> {
    pub(crate) answers: Vec<R>,
    pub(crate) missing: Vec<MissingShards>,
}

impl Leaves {
    /// Asks for these shards, and returns what has been answered in time; `enough` says whether these shards suffice.
    /// What a leaf refuses that another one would refuse too is an error in any case.
    pub(crate) async fn ask_some<Q: LeafRequest>(
        &self,
        generation: &v1::GenerationName,
        shards: &[u32],
        until: Instant,
        request: &Q,
        enough: impl Fn(&[u32]) -> bool,
    ) -> Result<PartialAnswers<Q::Reply>, LeafFailure> {
        let asked = AskedLeaves::new(self, generation, until, request);
        let routed = asked.route(shards, &[]);
        let mut some = PartialAnswers {
            answers: Vec::new(),
            missing: Vec::new(),
        };
        if !routed.missing.is_empty() {
            some.missing.push(MissingShards::from(LostShards {
                shards: routed.missing,
                reason: LostReason::NoLeaf(None),
            }));
        }
        let one = |first: super::route::LeafShards| async {
            let shards = first.shards.clone();
            (shards, asked.hedged(first).await)
        };
        let mut waiting: Vec<Vec<u32>> = routed.asked.iter().map(|one| one.shards.clone()).collect();
        let mut calls: FuturesUnordered<_> = routed.asked.into_iter().map(one).collect();
        let (mut answered, mut ends) = (Vec::new(), until);
        loop {
            let next = match tokio::time::timeout_at(ends, calls.next()).await {
                Ok(Some(next)) => next,
                Ok(None) => return Ok(some),
                Err(_) => break,
            };
            let (shards, result) = next;
            waiting.retain(|other| *other != shards);
            match result {
                Ok(AnswersOfShards { answers, lost }) => {
                    some.answers.extend(answers);
                    let is_lost = |shard: &u32| lost.iter().any(|lost| lost.shards.contains(shard));
                    answered.extend(shards.into_iter().filter(|shard| !is_lost(shard)));
                    some.missing.extend(lost.into_iter().map(MissingShards::from));
                }
                Err(failure) => return Err(failure),
            }
            if ends == until && enough(&answered) {
                let now = Instant::now();
                ends = now + until.saturating_duration_since(now) / SHARE;
            }
        }
        let late = |shards: Vec<u32>| LostShards {
            shards,
            reason: LostReason::Late,
        };
        some.missing
            .extend(waiting.into_iter().map(late).map(MissingShards::from));
        Ok(some)
    }
}

/// The time that partial answers may take, so that some is left to make a reply of them.
pub(crate) fn until_partial(deadline: Instant) -> Instant {
    let now = Instant::now();
    let left: Duration = deadline.saturating_duration_since(now);
    now + left.mul_f64(0.8)
}
