//! What is measured, a ranking mode through the graph, exact, or reranked; and every question to the server, over gRPC,
//! replies checked.

use std::collections::HashSet;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use dyad_corpus::queries::KeyedQuery;
use dyad_corpus::run::TrecRun;
use dyad_proto::client::SearcherClient;
use dyad_proto::limits::{MAX_BATCH_RERANK, MAX_K, MAX_RERANK};
use dyad_proto::{v1, validate};
use futures_util::{StreamExt as _, stream};

use crate::error::{BenchError, BenchResult};

/// Questions in one call: enough for the server to embed them together, few enough for the progress bar to move.
const BATCH: usize = 64;

/// A ranking that a searcher serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RankingMode {
    /// Nearest vectors.
    Dense,
    /// Okapi BM25.
    Bm25,
    /// Fusion of both.
    Hybrid,
}

impl RankingMode {
    /// The mode's name on the command line and in files, and in the protocol.
    pub(super) fn names(self) -> (&'static str, v1::Mode) {
        match self {
            Self::Dense => ("dense", v1::Mode::Dense),
            Self::Bm25 => ("bm25", v1::Mode::Bm25),
            Self::Hybrid => ("hybrid", v1::Mode::Hybrid),
        }
    }
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankingSystem {
    /// The ranking that is asked for.
    pub mode: RankingMode,
    /// Every vector compared, instead of a walk over the graph.
    pub exact: bool,
    /// Best hits that the server's cross encoder has scored again; 0 for none.
    pub rerank: u32,
}

/// `dense`, `dense exact`, `dense rerank`, ...
impl fmt::Display for RankingSystem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match (self.exact, self.rerank) {
            (true, _) => " exact",
            (false, 0) => "",
            (false, _) => " rerank",
        };
        formatter.pad(&format!("{}{how}", self.mode.names().0))
    }
}

/// The systems of `modes`, each once and in their order; those with vectors followed by their exact form, and all by
/// the one whose best `rerank` hits are scored again.
pub fn systems(modes: &[RankingMode], rerank: u32) -> Vec<RankingSystem> {
    let mut systems = Vec::new();
    for &mode in modes {
        for (exact, rerank) in [(false, 0), (true, 0), (false, rerank)] {
            let system = RankingSystem { mode, exact, rerank };
            if !(systems.contains(&system) || exact && mode == RankingMode::Bm25) {
                systems.push(system);
            }
        }
    }
    systems
}

/// What to ask, and where the runs go.
#[derive(Debug, Clone, clap::Args)]
pub struct QualityJob {
    /// Rankings to measure, between commas; dense and hybrid are also asked for with exact search.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["dense", "bm25", "hybrid"])]
    pub modes: Vec<RankingMode>,
    /// Each ranking also with its best N hits scored again by the server's cross encoder; 0: without.
    #[arg(
        long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(MAX_RERANK)),
    )]
    pub rerank: u32,
    /// Folder for the runs: dense.run, dense-exact.run, bm25.run and so on. Earlier runs there are replaced.
    #[arg(long, value_name = "DIR")]
    pub run_dir: PathBuf,
    /// Hits per question.
    #[arg(long, short, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_K)))]
    pub k: u32,
    /// Calls under way at once; each carries 64 questions.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub concurrency: u32,
    /// Drop hits whose key is the question's own, where questions are themselves documents (ArguAna, Quora).
    #[arg(long)]
    pub drop_identical_ids: bool,
}

/// The index that answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AnsweringIndex {
    /// The generation of the index.
    pub generation: u64,
    /// Fingerprint of its model.
    pub fingerprint: String,
}

/// `generation 3, model 0123456789ab`: the first 12 digits of the fingerprint.
impl fmt::Display for AnsweringIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "generation {}, model {}",
            self.generation,
            self.fingerprint.get(..12).unwrap_or(&self.fingerprint)
        )
    }
}

/// Asks `system` every question, `job.concurrency` calls at a time: the run, the index that answered, and the time of
/// it all. `watch` hears how many answers have come with each call.
///
/// One index has to give all answers, whole and well-formed; anything else is an error.
pub(super) async fn ask(
    client: &SearcherClient,
    questions: &[KeyedQuery],
    system: RankingSystem,
    job: &QualityJob,
    watch: &(dyn Fn(RankingSystem, usize) + Sync),
) -> BenchResult<(TrecRun, AnsweringIndex, Duration)> {
    let (url, asked) = (client.url(), questions.len());
    let requests = questions
        .iter()
        .map(|question| request(question, system, job))
        .collect::<BenchResult<Vec<_>>>()?;
    let pairs = u64::from(system.rerank.max(1));
    let batch = BATCH.min((MAX_BATCH_RERANK / pairs) as usize).max(1);
    let started = Instant::now();
    let mut calls = stream::iter(questions.chunks(batch).zip(requests.chunks(batch)))
        .map(|(questions, requests)| async move {
            let request = v1::SearchBatchRequest {
                requests: requests.to_vec(),
            };
            (questions, client.search_batch(request).await)
        })
        .buffered(job.concurrency.max(1) as usize);
    let (mut run, mut served) = (TrecRun::new(), None);
    // How many, the first one's query and its reason.
    let mut degraded: Option<(usize, &str, String)> = None;
    while let Some((questions, reply)) = calls.next().await {
        let responses = reply?.responses;
        if let (Some(first), true) = (questions.first(), responses.len() != questions.len()) {
            let reason = format!(
                "expected {} responses to a batch, got {}",
                questions.len(),
                responses.len()
            );
            return Err(contract_error(url, first, &reason));
        }
        for (question, response) in questions.iter().zip(responses) {
            if response.degraded {
                degraded.get_or_insert((0, &question.key, response.degraded_reason)).0 += 1;
                continue;
            }
            let (name, mode) = system.mode.names();
            if response.mode() != mode {
                let reason = format!("expected mode {name}, got {}", response.mode().as_str_name());
                return Err(contract_error(url, question, &reason));
            }
            let one = AnsweringIndex {
                generation: response.generation,
                fingerprint: response.fingerprint,
            };
            same(url, served.get_or_insert_with(|| one.clone()), &one)?;
            let mut hits = hits(response.hits).map_err(|reason| contract_error(url, question, &reason))?;
            if system.rerank > 0 {
                // Scores of two kinds, one after the other: a run has one that says the order.
                (1_u16..)
                    .zip(&mut hits)
                    .for_each(|(rank, (_, score))| *score = 1.0 / f32::from(rank));
            }
            hits.retain(|(key, _)| !job.drop_identical_ids || *key != question.key);
            hits.truncate(job.k as usize);
            if !hits.is_empty() {
                run.insert(question.key.clone(), hits);
            }
        }
        watch(system, questions.len());
    }
    if let Some((count, query, reason)) = degraded {
        return Err(BenchError::Refused(format!(
            "`{url}` gave degraded answers to {count} of {asked} questions in mode {system}, query `{query}` first: {reason}. Restore the \
             server, then measure again"
        )));
    }
    Ok((run, served.unwrap_or_default(), started.elapsed()))
}

fn contract_error(url: &str, question: &KeyedQuery, reason: &str) -> BenchError {
    let query = &question.key;
    let hint = "Check that client and server are of the same release";
    BenchError::Refused(format!(
        "`{url}` answered query `{query}` against the contract: {reason}. {hint}"
    ))
}

fn request(question: &KeyedQuery, system: RankingSystem, job: &QualityJob) -> BenchResult<v1::SearchRequest> {
    // The hit that may be dropped does not count.
    let k = if job.drop_identical_ids {
        job.k.saturating_add(1).min(MAX_K)
    } else {
        job.k
    };
    let (query, mode) = (question.text.clone(), system.mode.names().1.into());
    let (exact, rerank_depth) = (system.exact, system.rerank);
    let request = v1::SearchRequest {
        query,
        mode,
        k,
        exact,
        rerank_depth,
        keys_only: true,
        ..v1::SearchRequest::default()
    };
    // Refused here, where the question's key is known.
    validate::search_request(&request)
        .map_err(|violations| BenchError::Refused(format!("query `{}`: {violations}", question.key)))?;
    Ok(request)
}

/// Keys and scores, where a run could hold them.
fn hits(hits: Vec<v1::Hit>) -> Result<Vec<(String, f32)>, String> {
    let mut seen = HashSet::with_capacity(hits.len());
    for v1::Hit { key, rank, score, .. } in &hits {
        if key.is_empty() || !seen.insert(key.as_str()) {
            return Err(format!("hit {rank} is empty or a duplicate: `{key}`"));
        }
        if !score.is_finite() {
            return Err(format!("the score of `{key}` is not finite: {score}"));
        }
    }
    Ok(hits.into_iter().map(|hit| (hit.key, hit.score)).collect())
}

/// Refuses answers of two indexes in one measurement: they do not compare.
pub(super) fn same(url: &str, expected: &AnsweringIndex, got: &AnsweringIndex) -> BenchResult<()> {
    if expected == got {
        return Ok(());
    }
    let problem = format!("changed its index during the measurement: expected {expected}, got {got}. Measure again");
    Err(BenchError::Refused(format!("`{url}` {problem}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_searched_both_ways_and_each_system_once() {
        let names: Vec<String> = systems(&[RankingMode::Hybrid, RankingMode::Bm25, RankingMode::Hybrid], 0)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["hybrid", "hybrid exact", "bm25"]);
        let names: Vec<String> = systems(&[RankingMode::Dense, RankingMode::Bm25], 20)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["dense", "dense exact", "dense rerank", "bm25", "bm25 rerank"]);
    }
}
