//! Our engines in this process: the library, and the searcher's engine.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dyad_index::{Certificate, Never, Snapshot};
use dyad_proto::access::Caller;
use dyad_searcher::fusion::Fusion;
use dyad_searcher::plan::SearchPlan;
use dyad_searcher::run::{Engine, QueuePolicy};
use tokio::runtime::Handle;
use tonic::Status;

use super::arrivals::AskedQuestion;
use super::drive::{AnsweringProcess, LoadTarget, ReplyReceiver};
use super::questions::{LoadRequests, QuestionForm};
use super::tally::{DEGRADED, LoadReply};
use crate::dataset::Matrix;
use crate::error::{BenchError, BenchResult};

/// A snapshot in this process, searched on as many threads as a server uses.
pub(super) struct LibraryTarget {
    searched: Arc<LibrarySnapshot>,
    workers: SearchThreads,
}

/// A pool that begins jobs in their order, also those that its own threads hand in.
///
/// A thread of rayon's prefers what it has handed in itself to what came from elsewhere: clients that ask again from
/// there would keep all others waiting until the end of a pass. So what rayon orders are turns, and each turn does the
/// oldest job. At most as many jobs wait as requests are under way.
pub(super) struct SearchThreads {
    pool: rayon::ThreadPool,
    jobs: Arc<Mutex<VecDeque<PooledCall>>>,
}

type PooledCall = Box<dyn FnOnce() + Send>;

impl SearchThreads {
    /// This many threads; 0 stands for all that this process may use.
    pub(super) fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(Self {
            pool,
            jobs: Arc::default(),
        })
    }

    pub(super) fn start(&self, job: PooledCall) {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).push_back(job);
        let jobs = Arc::clone(&self.jobs);
        self.pool.spawn_fifo(move || {
            let oldest = jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            if let Some(job) = oldest {
                job();
            }
        });
    }
}

struct LibrarySnapshot {
    snapshot: Snapshot,
    /// The plan of each kind of request.
    plans: Vec<SearchPlan>,
    vectors: Matrix,
}

impl LibraryTarget {
    pub(super) fn new(snapshot: Snapshot, requests: &LoadRequests) -> BenchResult<Self> {
        let refused = |problem: String| BenchError::Refused(format!("library: {problem}"));
        let plans = plans(&snapshot, requests).map_err(refused)?;
        let workers = SearchThreads::new(0).map_err(|error| refused(error.to_string()))?;
        let vectors = requests.questions.vectors.clone().unwrap_or_default();
        Ok(Self {
            searched: Arc::new(LibrarySnapshot {
                snapshot,
                plans,
                vectors,
            }),
            workers,
        })
    }
}

/// The plans of all kinds, each of which has to be a ranking by vectors alone.
fn plans(snapshot: &Snapshot, requests: &LoadRequests) -> Result<Vec<SearchPlan>, String> {
    let certificates: Vec<&Certificate> = snapshot
        .shards()
        .iter()
        .map(dyad_index::snapshot::Shard::certificate)
        .collect();
    let mut plans = Vec::new();
    for kind in &requests.kinds {
        let plan = SearchPlan::new(&kind.request, Duration::MAX, &certificates, Fusion::default());
        if plan.dense.is_none() || plan.text_depth.is_some() || plan.group_by.is_some() {
            let problem = "expected MODE_DENSE without `group_by`. Leave the engine out, or the kind";
            return Err(format!("kind `{}`: {problem}", kind.name));
        }
        plans.push(plan);
    }
    Ok(plans)
}

impl LibrarySnapshot {
    fn search(&self, ask: AskedQuestion) -> dyad_index::Result<Vec<String>> {
        let Some((plan, params)) = self.plans.get(ask.kind).and_then(|plan| Some((plan, plan.dense?))) else {
            return Ok(Vec::new());
        };
        let allowed = plan
            .filter
            .as_ref()
            .map(|filter| self.snapshot.allowed(filter, &Never))
            .transpose()?
            .flatten();
        let vector = self.vectors.row(ask.question);
        let found = self
            .snapshot
            .search_dense(&[vector], &params, allowed.as_deref(), &Never)?;
        let hits = found.first().map_or(&[][..], |found| &found.hits);
        let keys = plan.page(hits).filter_map(|hit| self.snapshot.key(hit.shard, hit.node));
        Ok(keys.map(str::to_owned).collect())
    }
}

impl LoadTarget for LibraryTarget {
    fn start(&self, asks: &[AskedQuestion], done: ReplyReceiver) {
        let (searched, asks) = (Arc::clone(&self.searched), asks.to_vec());
        self.workers.start(Box::new(move || {
            let failed = |error: dyad_index::Error| {
                tracing::debug!(%error, "library");
                LoadReply::Failed("index".into())
            };
            done(
                asks.iter()
                    .map(|ask| searched.search(*ask).map_or_else(failed, LoadReply::Answered))
                    .collect(),
            );
        }));
    }

    fn process(&self) -> AnsweringProcess {
        AnsweringProcess::Own
    }
}

/// The searcher's engine in this process: what a server does without its protocol.
pub(super) struct InProcess {
    pub(super) engine: Arc<Engine>,
    pub(super) requests: Arc<LoadRequests>,
    pub(super) deadline: Duration,
    pub(super) runtime: Handle,
}

impl LoadTarget for InProcess {
    fn start(&self, asks: &[AskedQuestion], done: ReplyReceiver) {
        let Some(ask) = asks.first() else { return };
        let (engine, deadline) = (Arc::clone(&self.engine), self.deadline);
        let request = self.requests.request(*ask, QuestionForm::Vector);
        self.runtime.spawn(async move {
            let found =
                Box::pin(engine.search(request, &Caller::default(), Some(deadline), QueuePolicy::Refused)).await;
            done(vec![match found {
                Ok((answer, _)) if answer.response.degraded => LoadReply::Failed(DEGRADED.into()),
                Ok((answer, _)) => LoadReply::Answered(answer.hits.into_iter().map(|answer| answer.hit.key).collect()),
                Err(error) => {
                    tracing::debug!(%error, "engine");
                    LoadReply::Failed(format!("{:?}", Status::from(error).code()).into())
                }
            }]);
        });
    }

    fn process(&self) -> AnsweringProcess {
        AnsweringProcess::Own
    }
}
