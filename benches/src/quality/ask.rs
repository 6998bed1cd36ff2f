//! Every question to the server, over gRPC; replies checked.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use dyad_corpus::queries::Query;
use dyad_corpus::run::Run;
use dyad_proto::client::SearcherClient;
use dyad_proto::limits::MAX_K;
use dyad_proto::{v1, validate};
use futures_util::{StreamExt as _, stream};

use super::error::Error;
use super::system::System;

/// Questions in one call: enough for the server to embed them together, few enough for the progress bar to move.
const BATCH: usize = 64;

/// What to ask, and where the runs go.
#[derive(Debug, Clone)]
pub struct Job {
    /// What is measured, in this order.
    pub systems: Vec<System>,
    /// An existing folder.
    pub run_dir: PathBuf,
    /// Hits per question.
    pub k: u32,
    /// Calls under way at once.
    pub concurrency: usize,
    /// Drop hits whose key is the question's own.
    pub drop_identical_ids: bool,
}

/// The index that answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Its generation.
    pub generation: u64,
    /// Fingerprint of its model.
    pub fingerprint: String,
}

/// `generation 3, model 0123456789ab`: the first 12 digits of the fingerprint.
impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "generation {}, model {}", self.generation, self.fingerprint.get(..12).unwrap_or(&self.fingerprint))
    }
}

/// A system's answers to all questions.
#[derive(Debug, Clone)]
pub struct Answers {
    pub(crate) run: Run,
    pub(crate) served: Served,
    pub(crate) time: Duration,
}

/// Asks `system` every question, `job.concurrency` calls at a time; `watch` hears how many answers have come with each call.
///
/// One index has to give all answers, whole and well-formed; anything else is an error.
pub async fn ask(
    client: &SearcherClient,
    questions: &[Query],
    system: System,
    job: &Job,
    watch: &(dyn Fn(System, usize) + Sync),
) -> Result<Answers, Error> {
    let requests = questions.iter().map(|question| request(question, system, job)).collect::<Result<Vec<_>, _>>()?;
    let started = Instant::now();
    let mut calls = stream::iter(questions.chunks(BATCH).zip(requests.chunks(BATCH)))
        .map(|(questions, requests)| async move {
            let request = v1::SearchBatchRequest { requests: requests.to_vec() };
            (questions, client.search_batch(request).await)
        })
        .buffered(job.concurrency.max(1));
    let mut gathered = Gathered { url: client.url(), run: Run::new(), served: None, degraded: None };
    while let Some((questions, reply)) = calls.next().await {
        gathered.add(questions, reply?, system, job)?;
        watch(system, questions.len());
    }
    let time = started.elapsed();
    gathered.finish(system, questions.len(), time)
}

fn request(question: &Query, system: System, job: &Job) -> Result<v1::SearchRequest, Error> {
    // The hit that may be dropped does not count.
    let k = if job.drop_identical_ids { job.k.saturating_add(1).min(MAX_K) } else { job.k };
    let request = v1::SearchRequest {
        query: question.text.clone(),
        mode: v1::Mode::from(system.mode).into(),
        k,
        exact: system.exact,
        keys_only: true,
        ..v1::SearchRequest::default()
    };
    // Refused here, where the question's key is known.
    validate::search_request(&request)
        .map_err(|violations| Error::Question { query: question.key.clone(), violations })?;
    Ok(request)
}

/// What has come so far.
struct Gathered<'a> {
    url: &'a str,
    run: Run,
    served: Option<Served>,
    /// How many, the first one's query and its reason.
    degraded: Option<(usize, String, String)>,
}

impl Gathered<'_> {
    fn add(
        &mut self,
        questions: &[Query],
        reply: v1::SearchBatchResponse,
        system: System,
        job: &Job,
    ) -> Result<(), Error> {
        if let (Some(first), true) = (questions.first(), reply.responses.len() != questions.len()) {
            let reason = format!("expected {} responses to a batch, got {}", questions.len(), reply.responses.len());
            return Err(self.contract(&first.key, reason));
        }
        for (question, response) in questions.iter().zip(reply.responses) {
            if response.degraded {
                let (count, ..) = self.degraded.get_or_insert((0, question.key.clone(), response.degraded_reason));
                *count += 1;
                continue;
            }
            if response.mode() != v1::Mode::from(system.mode) {
                let reason = format!("expected mode {}, got {}", system.mode.name(), response.mode().as_str_name());
                return Err(self.contract(&question.key, reason));
            }
            let served = Served { generation: response.generation, fingerprint: response.fingerprint.clone() };
            same(self.url, self.served.get_or_insert_with(|| served.clone()), &served)?;
            let mut hits = self.hits(question, response.hits)?;
            if job.drop_identical_ids {
                hits.retain(|(key, _)| *key != question.key);
            }
            hits.truncate(job.k as usize);
            if !hits.is_empty() {
                self.run.insert(question.key.clone(), hits);
            }
        }
        Ok(())
    }

    /// Keys and scores, where a run could hold them.
    fn hits(&self, question: &Query, hits: Vec<v1::Hit>) -> Result<Vec<(String, f32)>, Error> {
        let mut seen = HashSet::with_capacity(hits.len());
        for hit in &hits {
            let v1::Hit { key, rank, score, .. } = hit;
            let reason = if key.is_empty() || !seen.insert(key.as_str()) {
                format!("hit {rank} is empty or a duplicate: `{key}`")
            } else if !score.is_finite() {
                format!("the score of `{key}` is not finite: {score}")
            } else {
                continue;
            };
            return Err(self.contract(&question.key, reason));
        }
        Ok(hits.into_iter().map(|hit| (hit.key, hit.score)).collect())
    }

    fn contract(&self, query: &str, reason: String) -> Error {
        Error::Contract { url: self.url.to_owned(), query: query.to_owned(), reason }
    }

    fn finish(self, system: System, asked: usize, time: Duration) -> Result<Answers, Error> {
        if let Some((degraded, query, reason)) = self.degraded {
            let (url, system) = (self.url.to_owned(), system.to_string());
            return Err(Error::Degraded { url, system, degraded, asked, query, reason });
        }
        let served = self.served.unwrap_or(Served { generation: 0, fingerprint: String::new() });
        Ok(Answers { run: self.run, served, time })
    }
}

/// Refuses answers of two indexes in one measurement.
pub(super) fn same(url: &str, expected: &Served, got: &Served) -> Result<(), Error> {
    if expected == got {
        return Ok(());
    }
    Err(Error::IndexChanged { url: url.to_owned(), expected: expected.to_string(), got: got.to_string() })
}
