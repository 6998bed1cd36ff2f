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

use super::arrivals::Ask;
use super::drive::{Done, Process, Target};
use super::questions::{Form, Requests};
use super::tally::{DEGRADED, Reply};
use crate::dataset::Matrix;
use crate::error::{Error, Result};

/// A snapshot in this process, searched on as many threads as a server uses.
pub(super) struct Library {
    searched: Arc<Searched>,
    workers: Workers,
}

/// A pool that begins jobs in their order, also those that its own threads hand in.
///
/// A thread of rayon's prefers what it has handed in itself to what came from elsewhere: clients that ask again from there would keep all
/// others waiting until the end of a pass. So what rayon orders are turns, and each turn does the oldest job. At most as many jobs wait as
/// requests are under way.
pub(super) struct Workers {
    pool: rayon::ThreadPool,
    jobs: Arc<Mutex<VecDeque<Job>>>,
}

type Job = Box<dyn FnOnce() + Send>;

impl Workers {
    /// This many threads; 0 stands for all that this process may use.
    pub(super) fn new(threads: usize) -> Result<Self, rayon::ThreadPoolBuildError> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        Ok(Self { pool, jobs: Arc::default() })
    }

    pub(super) fn start(&self, job: Job) {
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

struct Searched {
    snapshot: Snapshot,
    /// By kind.
    plans: Vec<SearchPlan>,
    vectors: Matrix,
}

impl Library {
    pub(super) fn new(snapshot: Snapshot, requests: &Requests) -> Result<Self> {
        let refused = |problem: String| Error::Refused(format!("library: {problem}"));
        let plans = plans(&snapshot, requests).map_err(refused)?;
        let workers = Workers::new(0).map_err(|error| refused(error.to_string()))?;
        let vectors = requests.questions.vectors.clone().unwrap_or_default();
        Ok(Self { searched: Arc::new(Searched { snapshot, plans, vectors }), workers })
    }
}

/// The plans of all kinds, each of which has to be a ranking by vectors alone.
fn plans(snapshot: &Snapshot, requests: &Requests) -> Result<Vec<SearchPlan>, String> {
    let certificates: Vec<&Certificate> =
        snapshot.shards().iter().map(dyad_index::snapshot::Shard::certificate).collect();
    let plan = |kind: &super::workload::Kind| {
        let plan = SearchPlan::new(&kind.request, Duration::MAX, &certificates, Fusion::default());
        if plan.dense.is_none() || plan.text_depth.is_some() || plan.group_by.is_some() {
            let problem = "expected MODE_DENSE without `group_by`. Leave the engine out, or the kind";
            return Err(format!("kind `{}`: {problem}", kind.name));
        }
        Ok(plan)
    };
    requests.kinds.iter().map(plan).collect()
}

impl Searched {
    fn search(&self, ask: Ask) -> dyad_index::Result<Vec<String>> {
        let Some((plan, params)) = self.plans.get(ask.kind).and_then(|plan| Some((plan, plan.dense?))) else {
            return Ok(Vec::new());
        };
        let allowed = plan.filter.as_ref().map(|filter| self.snapshot.allowed(filter, &Never)).transpose()?.flatten();
        let vector = self.vectors.row(ask.question);
        let found = self.snapshot.search_dense(&[vector], &params, allowed.as_deref(), &Never)?;
        let hits = found.first().map_or(&[][..], |found| &found.hits);
        let keys = plan.page(hits).filter_map(|hit| self.snapshot.key(hit.shard, hit.node));
        Ok(keys.map(str::to_owned).collect())
    }
}

impl Target for Library {
    fn start(&self, asks: &[Ask], done: Done) {
        let (searched, asks) = (Arc::clone(&self.searched), asks.to_vec());
        self.workers.start(Box::new(move || {
            let failed = |error: dyad_index::Error| {
                tracing::debug!(%error, "library");
                Reply::Failed("index".into())
            };
            done(asks.iter().map(|ask| searched.search(*ask).map_or_else(failed, Reply::Answered)).collect());
        }));
    }

    fn process(&self) -> Process {
        Process::Own
    }
}

/// The searcher's engine in this process: what a server does without its protocol.
pub(super) struct InProcess {
    pub(super) engine: Arc<Engine>,
    pub(super) requests: Arc<Requests>,
    pub(super) deadline: Duration,
    pub(super) runtime: Handle,
}

impl Target for InProcess {
    fn start(&self, asks: &[Ask], done: Done) {
        let Some(ask) = asks.first() else { return };
        let (engine, deadline) = (Arc::clone(&self.engine), self.deadline);
        let request = self.requests.request(*ask, Form::Vector);
        self.runtime.spawn(async move {
            let found =
                Box::pin(engine.search(request, &Caller::default(), Some(deadline), QueuePolicy::Refused)).await;
            done(vec![match found {
                Ok((answer, _)) if answer.response.degraded => Reply::Failed(DEGRADED.into()),
                Ok((answer, _)) => Reply::Answered(answer.hits.into_iter().map(|answer| answer.hit.key).collect()),
                Err(error) => {
                    tracing::debug!(%error, "engine");
                    Reply::Failed(format!("{:?}", Status::from(error).code()).into())
                }
            }]);
        });
    }

    fn process(&self) -> Process {
        Process::Own
    }
}
