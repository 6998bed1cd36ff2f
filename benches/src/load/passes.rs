//! The passes of a run: one engine under one load, and its figures.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::arrivals::{ArrivalTimes, RequestMix};
use super::drive::{AnsweringProcess, LoadPass, LoadTarget};
use super::engines::{LoadEngines, ServerPlace};
use super::server::cpu_seconds;
use super::tally::{ANSWERED, NOT_SENT, RequestTally, milliseconds};
use super::truth::ndcg;
use super::workload::LoadWorkload;
use crate::error::BenchResult;
use crate::harness::{EngineSettings, FigureRow, join_figures};

/// What is put on the engines.
#[derive(Debug, Clone, PartialEq)]
pub enum LoadPlan {
    /// Requests per second.
    Rate(f64),
    /// Rising rates, up to the highest with this p99, in milliseconds.
    Ramp(f64),
    /// Clients that wait for their replies.
    Closed(Vec<usize>),
    /// This many times the capacity, in answers per second, which is measured where none is given.
    Overload(f64, Option<f64>),
    /// As many clients as take all, then half of the rate that they got.
    Layers,
}

/// A run to be done.
#[derive(Debug)]
pub struct LoadJob<'a> {
    /// What to ask.
    pub workload: &'a LoadWorkload,
    /// Engines, each of which meets the load in turn; how peers are run.
    pub settings: EngineSettings,
    /// What is put on them.
    pub load: LoadPlan,
    /// Measured time of a pass.
    pub seconds: f64,
    /// The place of the server.
    pub place: ServerPlace,
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum LoadStep {
    /// Requests per second.
    Rate(f64),
    /// Clients.
    Clients(usize),
}

/// `16 clients`, `5000 per second`.
impl Display for LoadStep {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "{rate:.0} per second"),
            Self::Clients(1) => f.write_str("1 client"),
            Self::Clients(clients) => write!(f, "{clients} clients"),
        }
    }
}

/// What all passes of a run share.
#[derive(Clone, Copy)]
pub(super) struct LoadPasses<'a> {
    pub(super) job: &'a LoadJob<'a>,
    pub(super) engines: &'a LoadEngines,
    pub(super) note: &'a dyn Fn(&str),
}

impl LoadPasses<'_> {
    pub(super) fn pass(&self, warm_up: Duration, seconds: f64) -> LoadPass {
        let (workload, requests) = (self.job.workload, &self.engines.requests);
        LoadPass {
            warm_up,
            measured: Duration::from_secs_f64(seconds),
            deadline: workload.deadline(),
            max_in_flight: workload.max_in_flight,
            kinds: requests.kinds.len(),
            questions: requests.questions.queries.len(),
            has_windows: false,
            cancel: self.job.settings.cancel.clone(),
        }
    }

    pub(super) fn warm_up(&self) -> Duration {
        Duration::from_millis(self.job.workload.warm_up_ms)
    }

    /// Times of the calls that bring `target` this many requests per second.
    pub(super) fn times(&self, target: &dyn LoadTarget, rate: f64, turn: usize) -> ArrivalTimes {
        let calls = rate / target.batch() as f64;
        ArrivalTimes::new(
            self.job.workload.arrivals,
            calls,
            self.job.workload.seed ^ (turn as u64) << 32,
        )
    }

    pub(super) fn mix(&self) -> RequestMix {
        let weights: Vec<f64> = self.engines.requests.kinds.iter().map(|kind| kind.weight).collect();
        RequestMix::new(
            &weights,
            self.engines.requests.questions.queries.len(),
            self.job.workload.seed,
        )
    }

    /// One pass of one engine.
    pub(super) fn measure(
        &self,
        target: &Arc<dyn LoadTarget>,
        step: LoadStep,
        turn: usize,
    ) -> BenchResult<RequestTally> {
        let pass = self.pass(self.warm_up(), self.job.seconds);
        let server = match target.process() {
            AnsweringProcess::Server(server) => Some(server),
            AnsweringProcess::Own | AnsweringProcess::Unknown => None,
        };
        let processes = [Some(std::process::id()), server];
        let used = || processes.map(|process| process.and_then(cpu_seconds));
        thread::scope(|scope| {
            let warm = scope.spawn(|| {
                thread::sleep(pass.warm_up);
                used()
            });
            let mut tally = match step {
                LoadStep::Rate(rate) => pass.open(target.as_ref(), self.times(target.as_ref(), rate, turn), self.mix()),
                LoadStep::Clients(clients) => pass.closed(target, clients, self.mix()),
            }?;
            let warm = warm.join().unwrap_or_default();
            tally.cpu_seconds = used()
                .into_iter()
                .zip(warm)
                .map(|(now, warm)| Some(now? - warm?))
                .collect();
            Ok(tally)
        })
    }

    /// The figures of a pass.
    pub(super) fn row(&self, name: &str, step: LoadStep, tally: &RequestTally) -> FigureRow {
        let (rate, clients) = match step {
            LoadStep::Rate(rate) => (Some(rate), None),
            LoadStep::Clients(clients) => (None, Some(clients)),
        };
        let (requests, seconds) = (&self.engines.requests, self.job.seconds);
        let cpu_us = |of: usize| Some(tally.cpu_seconds.get(of).copied()?? * 1e6 / tally.count(ANSWERED) as f64);
        let service = |quantile| {
            tally
                .classes
                .get(ANSWERED)
                .map(|class| milliseconds(&class.service, quantile))
        };
        let figures = json!({
            "engine": name,
            "clients": clients,
            "rate": rate,
            "qps": tally.count(ANSWERED) as f64 / seconds,
            "goodput": tally.in_time as f64 / seconds,
            "p50_ms": tally.milliseconds(0.5),
            "p90_ms": tally.milliseconds(0.9),
            "p99_ms": tally.milliseconds(0.99),
            "p999_ms": tally.milliseconds(0.999),
            "max_ms": tally.milliseconds(1.0),
            "service_p50_ms": service(0.5),
            "service_p99_ms": service(0.99),
            "cpu_us": cpu_us(0),
            "server_cpu_us": cpu_us(1),
            "failed_share": tally.failed_share(),
            "not_sent": tally.count(NOT_SENT),
            "recall": self.engines.truth.recall(requests, tally),
        });
        join_figures([figures, ndcg(requests, tally)])
    }
}
