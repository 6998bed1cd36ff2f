//! Quality next to latency: exact answers, asked for before anything is measured, and how near the answers of a pass
//! come to them.

use std::future::Future;
use std::time::Duration;

use dyad_corpus::metrics::{Average, RankingMetric, evaluate};
use dyad_corpus::qrels::Qrels;
use dyad_corpus::run::TrecRun;
use dyad_proto::access::Caller;
use dyad_proto::client::SearcherClient;
use dyad_proto::v1;
use dyad_searcher::run::Engine;

use super::arrivals::AskedQuestion;
use super::questions::{LoadRequests, QuestionForm};
use super::tally::RequestTally;
use super::workload::RequestKind;
use crate::error::{BenchError, BenchResult};
use crate::harness::by_name;
use crate::quality::overlap;
use serde_json::Value;

/// Questions in one call.
const BATCH: usize = 64;
/// Time for one call.
pub(super) const BATCH_TIME: Duration = Duration::from_mins(5);
/// Depth of the metric of judged questions.
const NDCG_DEPTH: usize = 10;

/// Exact answers by kind; none for kinds without vectors.
#[derive(Debug, Default)]
pub(super) struct ExactAnswers {
    kinds: Vec<Option<TrecRun>>,
}

/// Keys as a ranking; none of them has a score here, so their places stand for them.
fn ranking(keys: impl IntoIterator<Item = String>) -> Vec<(String, f32)> {
    keys.into_iter()
        .enumerate()
        .map(|(place, key)| (key, -(place as f32)))
        .collect()
}

impl ExactAnswers {
    /// Asks a server.
    pub(super) async fn of_server(
        client: &SearcherClient,
        requests: &LoadRequests,
        form: QuestionForm,
    ) -> BenchResult<Self> {
        Self::ask(requests, form, async |requests| {
            let replies = client
                .search_batch(v1::SearchBatchRequest { requests })
                .await?
                .responses;
            let keys = |reply: v1::SearchResponse| ranking(reply.hits.into_iter().map(|hit| hit.key));
            match replies.iter().find(|reply| reply.degraded) {
                Some(reply) => Err(BenchError::Refused(format!("exact answers: {}", reply.degraded_reason))),
                None => Ok(replies.into_iter().map(keys).collect()),
            }
        })
        .await
    }

    /// Asks an engine in this process.
    pub(super) async fn of_engine(engine: &Engine, requests: &LoadRequests) -> BenchResult<Self> {
        Self::ask(requests, QuestionForm::Vector, async |requests| {
            let answers = Box::pin(engine.search_batch(requests, &Caller::default(), Some(BATCH_TIME))).await;
            let (answers, _) = answers.map_err(|error| BenchError::Refused(format!("exact answers: {error}")))?;
            Ok(answers
                .into_iter()
                .map(|answer| ranking(answer.hits.into_iter().map(|answer| answer.hit.key)))
                .collect())
        })
        .await
    }

    async fn ask<F>(
        requests: &LoadRequests,
        form: QuestionForm,
        ask: impl Fn(Vec<v1::SearchRequest>) -> F,
    ) -> BenchResult<Self>
    where
        F: Future<Output = BenchResult<Vec<Vec<(String, f32)>>>>,
    {
        let mut kinds = Vec::new();
        for (number, kind) in requests.kinds.iter().enumerate() {
            if kind.request.mode() == v1::Mode::Bm25 {
                kinds.push(None);
                continue;
            }
            let exact = |question| exact_request(requests.request(AskedQuestion { kind: number, question }, form));
            let (mut run, queries) = (TrecRun::new(), &requests.questions.queries);
            let all: Vec<usize> = (0..queries.len()).collect();
            for some in all.chunks(BATCH) {
                let answers = ask(some.iter().map(|question| exact(*question)).collect()).await?;
                let keys = some
                    .iter()
                    .filter_map(|question| queries.get(*question))
                    .map(|query| query.key.clone());
                run.extend(keys.zip(answers));
            }
            kinds.push(Some(run));
        }
        Ok(Self { kinds })
    }

    /// The mean share of the exact hits that a pass has found, over all questions that it has asked; none without exact
    /// answers.
    pub(super) fn recall(&self, requests: &LoadRequests, tally: &RequestTally) -> Option<f64> {
        let (mut sum, mut count) = (0.0, 0);
        for (number, (kind, truth)) in requests.kinds.iter().zip(&self.kinds).enumerate() {
            let Some(truth) = truth else { continue };
            let run = answers(requests, tally, |ask| ask.kind == number);
            let asked: TrecRun = truth
                .iter()
                .filter(|(key, _)| run.contains_key(*key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            sum += overlap(&run, &asked, kind.request.k as usize) * asked.len() as f64;
            count += asked.len();
        }
        (count > 0).then(|| sum / count as f64)
    }
}

/// The same search by comparison with all vectors, for keys alone.
fn exact_request(request: v1::SearchRequest) -> v1::SearchRequest {
    v1::SearchRequest {
        exact: true,
        keys_only: true,
        ef: 0,
        target_recall: None,
        fields: Vec::new(),
        snippet_bytes: 0,
        ..request
    }
}

/// Answers as a run.
fn answers(requests: &LoadRequests, tally: &RequestTally, wanted: impl Fn(AskedQuestion) -> bool) -> TrecRun {
    let queries = &requests.questions.queries;
    let wanted = tally.answers().filter(|(ask, _)| wanted(*ask));
    wanted
        .filter_map(|(ask, keys)| {
            let query = queries.get(ask.question)?;
            Some((query.key.clone(), ranking(keys.iter().cloned())))
        })
        .collect()
}

/// The name of a kind's nDCG@10 among the figures: with that of the kind where there are several.
pub(super) fn ndcg_name(kinds: &[RequestKind], kind: &RequestKind) -> String {
    if kinds.len() > 1 {
        format!("ndcg_10_{}", kind.name)
    } else {
        "ndcg_10".to_owned()
    }
}

/// nDCG@10 of each kind, over the judged questions that a pass has asked in it; none without judgements.
pub(super) fn ndcg(requests: &LoadRequests, tally: &RequestTally) -> Value {
    let qrels = requests.questions.qrels.as_ref();
    by_name(requests.kinds.iter().enumerate().map(|(number, kind)| {
        let figure = qrels.and_then(|qrels| ndcg_of(&answers(requests, tally, |ask| ask.kind == number), qrels));
        (ndcg_name(&requests.kinds, kind), figure.into())
    }))
}

/// nDCG@10 over the questions of a run.
fn ndcg_of(run: &TrecRun, qrels: &Qrels) -> Option<f64> {
    let asked: Qrels = qrels
        .iter()
        .filter(|(key, _)| run.contains_key(*key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let metric = RankingMetric::Ndcg(NDCG_DEPTH);
    (!asked.is_empty())
        .then(|| evaluate(run, &asked, &[metric], Average::Complete).mean(metric))
        .flatten()
}
