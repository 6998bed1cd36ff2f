//! Answers of which some shards may be missing, where a request allows that.
//!
//! Once enough of the documents were searched, the rest is waited for a share of the time that is left: Vespa's
//! adaptive timeout.

use std::time::Duration;

use dyad_proto::v1;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::call::{AskedLeaves, LeafFailure, LeafRequest};
use super::follow::Leaves;

/// Of the time that is left once there is enough.
const SHARE: u32 = 4;

/// Shards that were not searched, all for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MissingShards {
    pub(crate) shards: Vec<u32>,
    pub(crate) reason: String,
}

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
            some.missing.push(MissingShards {
                shards: routed.missing,
                reason: "no leaf that answers holds it".to_owned(),
            });
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
                Ok(answers) => {
                    some.answers.extend(answers);
                    answered.extend(shards);
                }
                Err(failure @ LeafFailure::Refused { .. }) => return Err(failure),
                Err(LeafFailure::Late) => some.missing.push(late(shards)),
                // Of a leaf's shards none was searched where other leaves do not hold all of them.
                Err(LeafFailure::Missing { error, .. }) => some.missing.push(MissingShards {
                    shards,
                    reason: error.unwrap_or_else(|| "no leaf that answers holds it".to_owned()),
                }),
            }
            if ends == until && enough(&answered) {
                let now = Instant::now();
                ends = now + until.saturating_duration_since(now) / SHARE;
            }
        }
        some.missing.extend(waiting.into_iter().map(late));
        Ok(some)
    }
}

fn late(shards: Vec<u32>) -> MissingShards {
    MissingShards {
        shards,
        reason: "its leaf has not answered in time".to_owned(),
    }
}

/// The time that partial answers may take, so that some is left to make a reply of them.
pub(crate) fn until_partial(deadline: Instant) -> Instant {
    let now = Instant::now();
    let left: Duration = deadline.saturating_duration_since(now);
    now + left.mul_f64(0.8)
}
