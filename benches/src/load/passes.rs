//! The passes of a run: one engine under one load, and its figures.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dyad_command::JobCancellation;
use serde_json::json;

use super::arrivals::{Mix, Times};
use super::drive::{Pass, Process, Target};
use super::engines::{Engines, Place};
use super::server::cpu_seconds;
use super::tally::{ANSWERED, NOT_SENT, Tally, milliseconds};
use super::truth::ndcg;
use super::workload::Workload;
use crate::error::Result;
use crate::harness::{Programs, Row};

/// What is put on the engines.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
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
pub struct Job<'a> {
    /// What to ask.
    pub workload: &'a Workload,
    /// Engines, each of which meets the load in turn.
    pub engines: Vec<String>,
    /// What is put on them.
    pub load: Load,
    /// Measured time of a pass.
    pub seconds: f64,
    /// Where the server is.
    pub place: Place,
    /// Where the programs of peers are.
    pub programs: Programs,
    /// For any answer of a peer.
    pub deadline: Duration,
    /// What is made of corpora, and scratch files.
    pub cache: PathBuf,
    /// Ends the run.
    pub cancel: JobCancellation,
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Step {
    /// Requests per second.
    Rate(f64),
    /// Clients.
    Clients(usize),
}

/// What all passes of a run share.
#[derive(Clone, Copy)]
pub(super) struct Passes<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) engines: &'a Engines,
    pub(super) note: &'a dyn Fn(&str),
}

impl Passes<'_> {
    pub(super) fn pass(&self, warm_up: Duration, seconds: f64) -> Pass {
        let (workload, requests) = (self.job.workload, &self.engines.requests);
        Pass {
            warm_up,
            measured: Duration::from_secs_f64(seconds),
            deadline: workload.deadline(),
            max_in_flight: workload.max_in_flight,
            kinds: requests.kinds.len(),
            questions: requests.questions.queries.len(),
            has_windows: false,
            cancel: self.job.cancel.clone(),
        }
    }

    pub(super) fn warm_up(&self) -> Duration {
        Duration::from_millis(self.job.workload.warm_up_ms)
    }

    /// Of the calls that bring `target` this many requests per second.
    pub(super) fn times(&self, target: &dyn Target, rate: f64, turn: usize) -> Times {
        let calls = rate / target.batch() as f64;
        Times::new(self.job.workload.arrivals, calls, self.job.workload.seed ^ (turn as u64) << 32)
    }

    pub(super) fn mix(&self) -> Mix {
        let weights: Vec<f64> = self.engines.requests.kinds.iter().map(|kind| kind.weight).collect();
        Mix::new(&weights, self.engines.requests.questions.queries.len(), self.job.workload.seed)
    }

    /// One pass of one engine.
    pub(super) fn measure(&self, target: &Arc<dyn Target>, step: Step, turn: usize) -> Result<Tally> {
        let pass = self.pass(self.warm_up(), self.job.seconds);
        let server = match target.process() {
            Process::Server(server) => Some(server),
            Process::Own | Process::Unknown => None,
        };
        let processes = [Some(std::process::id()), server];
        let used = || processes.map(|process| process.and_then(cpu_seconds));
        thread::scope(|scope| {
            let warm = scope.spawn(|| {
                thread::sleep(pass.warm_up);
                used()
            });
            let mut tally = match step {
                Step::Rate(rate) => pass.open(target.as_ref(), self.times(target.as_ref(), rate, turn), self.mix()),
                Step::Clients(clients) => pass.closed(target, clients, self.mix()),
            }?;
            let warm = warm.join().unwrap_or_default();
            tally.cpu_seconds = used().into_iter().zip(warm).map(|(now, warm)| Some(now? - warm?)).collect();
            Ok(tally)
        })
    }

    /// The figures of a pass.
    pub(super) fn row(&self, name: &str, step: Step, tally: &Tally, seconds: f64) -> Row {
        let (rate, clients) = match step {
            Step::Rate(rate) => (Some(rate), None),
            Step::Clients(clients) => (None, Some(clients)),
        };
        let requests = &self.engines.requests;
        let cpu_us = |of: usize| Some(tally.cpu_seconds.get(of).copied()?? * 1e6 / tally.count(ANSWERED) as f64);
        let service = |quantile| tally.classes.get(ANSWERED).map(|class| milliseconds(&class.service, quantile));
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
        figures.as_object().cloned().into_iter().flatten().chain(ndcg(requests, tally)).collect()
    }
}
