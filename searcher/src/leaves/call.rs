//! A call of all leaves that are needed for some shards of a generation.
//!
//! A leaf that fails is replaced by others that hold its shards. One that is late is asked on: after the time within
//! which it has answered 95 of 100 calls, others are asked for the same shards, and who answers first counts; of all
//! calls at most one in twenty is made twice so (Dean and Barroso, The Tail at Scale, 2013).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use dyad_proto::client::{ClientError, LeafClient};
use dyad_proto::v1;
use futures_util::future::{Either, FutureExt as _, select, try_join_all};
use tokio::time::Instant;
use tonic::Code;

use super::connection::LeafConnection;
use super::filters::{self, FilterAffinity};
use super::follow::Leaves;
use super::lost::{AnswersOfShards, BusyLeaf, LeafFailure, LostReason, LostShards};
use super::replies;
use super::route::{LeafChooser, LeafShards, Routed, route};

/// After which a leaf without times of its own is late.
const LATE: Duration = Duration::from_millis(50);
/// Least time after which a leaf is late: below it, the scheduler is.
const LEAST_LATE: Duration = Duration::from_millis(2);
/// Tries of a set of shards: each at leaves that have not failed it before.
const TRIES: usize = 3;

/// What is asked of leaves, of each for some of the shards.
pub(crate) trait LeafRequest: Sync {
    /// What one leaf answers.
    type Reply: Send;

    /// Asks a leaf for these shards.
    fn send(
        &self,
        client: &LeafClient,
        shards: Vec<u32>,
        time: Duration,
    ) -> impl Future<Output = Result<Self::Reply, ClientError>> + Send;

    /// The generation that an answer is of.
    fn generation(reply: &Self::Reply) -> Option<&v1::GenerationName>;

    /// The filter that leaves may know from requests before: those with the same filter are asked of the same leaves,
    /// so that not every one of them has to find what it allows, for every set of its shards.
    fn filter(&self) -> Option<&v1::Filter> {
        None
    }
}

/// Messages that name shards, the call that each is for, and what its reply is checked for.
macro_rules! leaf_requests {
    ($($request:ident, $call:ident -> $reply:ident, $check:path, $filter:path;)*) => {$(
        impl LeafRequest for v1::$request {
            type Reply = v1::$reply;

            async fn send(
                &self,
                client: &LeafClient,
                shards: Vec<u32>,
                time: Duration,
            ) -> Result<Self::Reply, ClientError> {
                let request = Self { shards, ..self.clone() };
                let reply = client.$call(request.clone(), time).await?;
                $check(&request, &reply).map_err(|reason| client.contract(reason))?;
                Ok(reply)
            }

            fn generation(reply: &Self::Reply) -> Option<&v1::GenerationName> {
                reply.generation.as_ref()
            }

            fn filter(&self) -> Option<&v1::Filter> {
                let of_caller = || self.scope.as_ref()?.filter.as_ref();
                $filter(self).or_else(of_caller)
            }
        }
    )*};
}

leaf_requests! {
    TermsRequest, terms -> TermsResponse, replies::check_terms, filters::none;
    LeafSearchRequest, search -> LeafSearchResponse, replies::check_search, filters::of_search;
    LeafReadRequest, read -> LeafReadResponse, replies::unchecked, filters::of_read;
    LeafExplainRequest, explain -> LeafExplainResponse, replies::unchecked, filters::of_explanation;
    OtherGroupsRequest, other_groups -> OtherGroupsResponse, replies::unchecked, filters::of_other_groups;
}

impl Leaves {
    /// Asks for all of these shards, and returns the answers of the leaves in no order.
    pub(crate) async fn ask<Q: LeafRequest>(
        &self,
        generation: &v1::GenerationName,
        shards: &[u32],
        until: Instant,
        request: &Q,
    ) -> Result<Vec<Q::Reply>, LeafFailure> {
        let asked = AskedLeaves::new(self, generation, until, request);
        let Routed {
            asked: first, missing, ..
        } = asked.route(shards, &[]);
        if !missing.is_empty() {
            return Err(LeafFailure::Missing {
                shards: missing,
                error: None,
            });
        }
        let all = |first| async {
            let AnswersOfShards { answers, lost } = asked.hedged(first).await?;
            if lost.is_empty() {
                Ok(answers)
            } else {
                Err(LeafFailure::of_lost(lost))
            }
        };
        let answers = try_join_all(first.into_iter().map(all)).await?;
        Ok(answers.into_iter().flatten().collect())
    }
}

/// What is asked, and until when.
pub(super) struct AskedLeaves<'a, Q> {
    leaves: &'a Leaves,
    generation: &'a v1::GenerationName,
    until: Instant,
    request: &'a Q,
    affinity: Option<FilterAffinity>,
}

impl<'a, Q: LeafRequest> AskedLeaves<'a, Q> {
    pub(super) fn new(leaves: &'a Leaves, generation: &'a v1::GenerationName, until: Instant, request: &'a Q) -> Self {
        Self {
            leaves,
            generation,
            until,
            request,
            affinity: request.filter().map(FilterAffinity::new),
        }
    }

    /// Who is asked for these shards, but for some leaves.
    pub(super) fn route(&self, shards: &[u32], but: &[Arc<LeafConnection>]) -> Routed {
        let all = self.leaves.connections();
        let others: Vec<Arc<LeafConnection>> = all
            .iter()
            .filter(|leaf| !but.iter().any(|left_out| is_same(left_out, leaf)))
            .cloned()
            .collect();
        let chooser = LeafChooser {
            draws: self.leaves.draws(),
            affinity: self.affinity,
        };
        route(&others, self.generation, shards, &chooser)
    }

    /// Asks a leaf; once it is late, others too.
    pub(super) async fn hedged(&self, first: LeafShards) -> Result<AnswersOfShards<Q::Reply>, LeafFailure> {
        self.leaves.hedges().count_call();
        self.leaves.busy_retries().count_call();
        let late = first.leaf.load().p95().unwrap_or(LATE).max(LEAST_LATE);
        let (leaf, shards) = (Arc::clone(&first.leaf), first.shards.clone());
        let answer = self.one(first).boxed();
        let answer = match select(answer, tokio::time::sleep(late).boxed()).await {
            Either::Left((Ok(answer), _)) => return Ok(all_of(vec![answer])),
            Either::Left((Err(error), _)) => return self.elsewhere(vec![leaf], shards, error).await,
            Either::Right(((), answer)) => answer,
        };
        let others = self.route(&shards, std::slice::from_ref(&leaf));
        // A damaged shard that answers first would be worse than an intact one that is late.
        let may_ask = others.missing.is_empty() && !others.has_damaged;
        if !may_ask || !self.leaves.hedges().take() {
            return match answer.await {
                Ok(answer) => Ok(all_of(vec![answer])),
                Err(error) => self.elsewhere(vec![leaf], shards, error).await,
            };
        }
        let mut tried = vec![leaf];
        tried.extend(others.asked.iter().map(|one| Arc::clone(&one.leaf)));
        let second = try_join_all(others.asked.into_iter().map(|one| self.one(one))).boxed();
        match select(answer, second).await {
            Either::Left((Ok(answer), _)) => Ok(all_of(vec![answer])),
            Either::Right((Ok(answers), _)) => Ok(all_of(answers)),
            Either::Left((Err(_), second)) => match second.await {
                Ok(answers) => Ok(all_of(answers)),
                Err(error) => self.elsewhere(tried, shards, error).await,
            },
            Either::Right((Err(_), answer)) => match answer.await {
                Ok(answer) => Ok(all_of(vec![answer])),
                Err(error) => self.elsewhere(tried, shards, error).await,
            },
        }
    }

    /// Asks a leaf.
    async fn one(&self, LeafShards { leaf, shards }: LeafShards) -> Result<Q::Reply, ClientError> {
        let unreachable = || ClientError::Unreachable {
            url: leaf.address().url(),
            attempts: 0,
            reason: "it is not connected".to_owned(),
        };
        let client = leaf.client().ok_or_else(unreachable)?;
        let in_flight = leaf.load().begin();
        let time = self.until.saturating_duration_since(Instant::now());
        let answered = tokio::select! {
            answered = self.request.send(&client, shards, time) => answered,
            // It would be waited for until the deadline.
            () = leaf.until_gone(self.leaves.changed()) => Err(ClientError::Unreachable {
                url: leaf.address().url(),
                attempts: 1,
                reason: "it does not report any more".to_owned(),
            }),
        };
        let answered = answered.and_then(|reply| self.checked(&leaf, reply));
        match &answered {
            // How long it took to be late is a time, too.
            Ok(_) | Err(ClientError::Deadline { .. }) => in_flight.answered(),
            Err(error) => {
                in_flight.failed();
                // It says that it holds what it does not: until it reports anew, it is not asked.
                if matches!(
                    error,
                    ClientError::Refused {
                        code: Code::NotFound,
                        ..
                    }
                ) {
                    leaf.distrust(self.generation, self.leaves.changed());
                }
            }
        }
        answered
    }

    /// Refuses what is of another generation: no answer mixes two.
    fn checked(&self, leaf: &LeafConnection, reply: Q::Reply) -> Result<Q::Reply, ClientError> {
        let answered = Q::generation(&reply);
        if answered == Some(self.generation) {
            return Ok(reply);
        }
        let expected = self.generation.generation;
        let got = answered.map_or_else(|| "none".to_owned(), |answered| answered.generation.to_string());
        Err(ClientError::Contract {
            url: leaf.address().url(),
            reason: format!("`generation`: expected {expected}, with the checksum of its manifest, got {got}"),
        })
    }

    /// Asks others than the leaves that have failed for their shards, and others than these where they fail. Shards
    /// that no other leaf holds are lost, and the rest is asked for all the same.
    async fn elsewhere(
        &self,
        mut tried: Vec<Arc<LeafConnection>>,
        shards: Vec<u32>,
        error: ClientError,
    ) -> Result<AnswersOfShards<Q::Reply>, LeafFailure> {
        let mut error = error;
        let mut found = all_of(Vec::new());
        let mut left = shards;
        for _ in 0..TRIES {
            let name = || tried.last().map_or_else(String::new, |leaf| leaf.name());
            if self.until <= Instant::now() {
                found.lose(left, LostReason::Late);
                return Ok(found);
            }
            if !may_pass_elsewhere(&error) {
                return Err(LeafFailure::Refused { leaf: name(), error });
            }
            let Routed { asked, missing, .. } = self.route(&left, &tried);
            if !missing.is_empty() {
                found.lose(missing, lost_by(name(), &error));
            }
            // All leaves may have too much to do: what they refuse is not to be asked for again and again.
            if let Some(busy) = BusyLeaf::new(name(), &error)
                && !asked.is_empty()
                && !self.leaves.busy_retries().take()
            {
                let left = asked.into_iter().flat_map(|one| one.shards).collect();
                found.lose(left, LostReason::Busy(busy));
                return Ok(found);
            }
            let mut again = Vec::new();
            let calls = asked.into_iter().map(|one| async {
                let asked = one.clone();
                (asked, self.one(one).await)
            });
            for (asked, answered) in futures_util::future::join_all(calls).await {
                match answered {
                    Ok(answer) => found.answers.push(answer),
                    Err(failed) => {
                        error = failed;
                        again.extend(asked.shards);
                        tried.push(asked.leaf);
                    }
                }
            }
            if again.is_empty() {
                return Ok(found);
            }
            left = again;
        }
        let name = tried.last().map_or_else(String::new, |leaf| leaf.name());
        found.lose(left, lost_by(name, &error));
        Ok(found)
    }
}

/// Why shards are lost that nobody can be asked for any more, after a leaf of this name has failed so.
fn lost_by(leaf: String, error: &ClientError) -> LostReason {
    match BusyLeaf::new(leaf, error) {
        Some(busy) => LostReason::Busy(busy),
        None => LostReason::NoLeaf(Some(error.to_string())),
    }
}

/// Answers for all shards that were asked for.
fn all_of<R>(answers: Vec<R>) -> AnswersOfShards<R> {
    AnswersOfShards {
        answers,
        lost: Vec::new(),
    }
}

impl<R> AnswersOfShards<R> {
    fn lose(&mut self, shards: Vec<u32>, reason: LostReason) {
        self.lost.push(LostShards { shards, reason });
    }
}

/// Whether two connections are to one leaf, which may have several addresses.
fn is_same(one: &Arc<LeafConnection>, other: &Arc<LeafConnection>) -> bool {
    Arc::ptr_eq(one, other) || one.name() == other.name()
}

/// Whether another leaf may answer what one has refused.
fn may_pass_elsewhere(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { code, .. } => !matches!(
            code,
            Code::InvalidArgument | Code::OutOfRange | Code::Unauthenticated | Code::PermissionDenied
        ),
        ClientError::TooLarge { .. } => false,
        _ => true,
    }
}
