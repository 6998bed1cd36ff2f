//! All systems in turn: ask, write the run, compute the metrics.

use std::collections::{BTreeMap, BTreeSet};

use dyad_corpus::metrics::{Average, Metric, evaluate};
use dyad_corpus::run;
use dyad_proto::client::SearcherClient;
use dyad_proto::v1;

use super::ask::{Job, ask, same};
use super::error::Error;
use super::report::{Loss, OVERLAP_DEPTH, Report, Row, overlap};
use super::system::System;
use dyad_corpus::Judged;

/// The columns, unless k is too small for one of them.
pub const METRICS: [Metric; 7] = [
    Metric::ReciprocalRank,
    Metric::Precision(1),
    Metric::Recall(1),
    Metric::Recall(5),
    Metric::Recall(10),
    Metric::Recall(100),
    Metric::Ndcg(10),
];

/// Measures every system of `job` on every judged question, and writes its run; an index without any judged document is refused. `watch` hears of each call's answers.
pub async fn measure(
    client: &SearcherClient,
    judged: &Judged,
    job: &Job,
    watch: &(dyn Fn(System, usize) + Sync),
) -> Result<Report, Error> {
    let (metrics, left_out): (Vec<Metric>, Vec<Metric>) =
        METRICS.into_iter().partition(|metric| depth(*metric) <= job.k as usize);
    holds_any(client, judged).await?;
    let (mut rows, mut losses, mut served) = (Vec::<Row>::new(), Vec::new(), None);
    // The run through the graph, until the exact one of the same mode follows it.
    let mut approximate: Option<(System, run::Run)> = None;
    for &system in &job.systems {
        let answers = ask(client, &judged.questions, system, job, watch).await?;
        same(client.url(), served.get_or_insert_with(|| answers.served.clone()), &answers.served)?;
        let path = job.run_dir.join(system.run_file());
        run::write(&path, &answers.run, &system.tag())?;
        let means = evaluate(&answers.run, &judged.qrels, &metrics, Average::Complete).means;
        let queries_per_s = judged.questions.len() as f64 / answers.time.as_secs_f64().max(1e-9);
        let row = Row { system, run: path, means, queries_per_s };
        match approximate.take() {
            Some((walked, walked_run)) if system.exact && walked.mode == system.mode => {
                let walked_means = rows.iter().find(|row| row.system == walked).map_or(&[][..], |row| &row.means);
                let means = row.means.iter().zip(walked_means).map(|(exact, walked)| exact - walked).collect();
                let overlap = overlap(&walked_run, &answers.run, OVERLAP_DEPTH.min(job.k as usize));
                losses.push(Loss { mode: system.mode, means, overlap });
            }
            _ => approximate = Some((system, answers.run)),
        }
        rows.push(row);
    }
    Ok(Report {
        server: client.url().to_owned(),
        data: judged.data.clone(),
        split: judged.split.clone(),
        queries: judged.questions.len(),
        k: job.k,
        drop_identical_ids: job.drop_identical_ids,
        served,
        metrics,
        left_out,
        rows,
        losses,
    })
}

/// Judged documents asked for at once: the first few show that an index is the right one.
const KEYS: usize = 64;

/// Refuses an index that has none of the judged documents: every figure would be 0 for no fault of its answers.
async fn holds_any(client: &SearcherClient, judged: &Judged) -> Result<(), Error> {
    let documents: BTreeSet<&String> = judged.qrels.values().flat_map(BTreeMap::keys).collect();
    let keys: Vec<&String> = documents.into_iter().collect();
    for some in keys.chunks(KEYS) {
        let request = v1::GetDocumentsRequest { keys: some.iter().map(|key| (*key).clone()).collect() };
        if !client.get_documents(request).await?.documents.is_empty() {
            return Ok(());
        }
    }
    Err(Error::NoJudgedDocument { url: client.url().to_owned(), data: judged.data.clone(), documents: keys.len() })
}

/// Hits that a metric looks at, at least.
fn depth(metric: Metric) -> usize {
    match metric {
        Metric::ReciprocalRankAt(k)
        | Metric::Precision(k)
        | Metric::Recall(k)
        | Metric::Ndcg(k)
        | Metric::Success(k) => k,
        _ => 1,
    }
}
