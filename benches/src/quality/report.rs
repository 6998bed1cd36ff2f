//! All systems in turn: ask, write the run, compute the metrics; then ANN loss and overlap, as JSON and for people.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::PathBuf;

use dyad_corpus::JudgedQuestions;
use dyad_corpus::metrics::{Average, RankingMetric, evaluate};
use dyad_corpus::run::{self, TrecRun};
use dyad_proto::client::SearcherClient;
use dyad_proto::v1;
use serde_json::{Value, json};

use super::ask::{AnsweringIndex, QualityJob, RankingMode, RankingSystem, ask, same, systems};
use crate::error::{BenchError, BenchResult};
use crate::harness::{FigureFormat, TextTable, by_name};

/// The columns: metrics, their headings, and the k that they need.
pub const METRICS: [(RankingMetric, &str, u32); 7] = [
    (RankingMetric::ReciprocalRank, "MRR", 1),
    (RankingMetric::Precision(1), "P@1", 1),
    (RankingMetric::Recall(1), "R@1", 1),
    (RankingMetric::Recall(5), "R@5", 5),
    (RankingMetric::Recall(10), "R@10", 10),
    (RankingMetric::Recall(100), "R@100", 100),
    (RankingMetric::Ndcg(10), "nDCG@10", 10),
];
/// Depth at which the hits of the graph walk are compared with those of exact search.
const OVERLAP_DEPTH: usize = 10;
/// Judged documents asked for at once: the first few show that an index is the right one.
const KEYS: usize = 64;

/// One system's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct SystemRow {
    /// What was measured.
    pub system: RankingSystem,
    /// The run that was written.
    pub run: PathBuf,
    /// One mean per [`QualityReport::metrics`], over all judged queries.
    pub means: Vec<f64>,
    /// Questions per second of wall-clock time. For information: the clients' load is not controlled.
    pub queries_per_s: f64,
}

/// What the graph walk lost against exact search.
#[derive(Debug, Clone, PartialEq)]
pub struct AnnLoss {
    /// The ranking that lost them.
    pub mode: RankingMode,
    /// Exact minus ANN, one per [`QualityReport::metrics`].
    pub means: Vec<f64>,
    /// [`overlap`] at 10, or at k where that is smaller.
    pub overlap: f64,
}

/// A measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct QualityReport {
    server: String,
    data: PathBuf,
    split: String,
    /// Judged questions, all of which count.
    pub queries: usize,
    /// Hits asked for per question.
    pub k: u32,
    drop_identical_ids: bool,
    rerank: u32,
    /// What answered; `None` where no system was measured.
    pub served: Option<AnsweringIndex>,
    /// The metrics of [`METRICS`] for which k is large enough.
    pub metrics: Vec<(RankingMetric, &'static str, u32)>,
    /// One row for each system, in the order in which they were measured.
    pub rows: Vec<SystemRow>,
    /// What approximate search loses, for each system that was measured both ways.
    pub losses: Vec<AnnLoss>,
}

/// Measures the systems of all modes on every judged question, and writes its run; an index without any judged document
/// is refused. `watch` hears of each call's answers.
pub async fn measure(
    client: &SearcherClient,
    judged: &JudgedQuestions,
    job: &QualityJob,
    watch: &(dyn Fn(RankingSystem, usize) + Sync),
) -> BenchResult<QualityReport> {
    holds_any(client, judged).await?;
    let mut report = QualityReport {
        server: client.url().to_owned(),
        data: judged.data.clone(),
        split: judged.split.clone(),
        queries: judged.questions.len(),
        k: job.k,
        drop_identical_ids: job.drop_identical_ids,
        rerank: job.rerank,
        served: None,
        metrics: METRICS.into_iter().filter(|(.., depth)| *depth <= job.k).collect(),
        rows: Vec::new(),
        losses: Vec::new(),
    };
    let metrics: Vec<RankingMetric> = report.metrics.iter().map(|(metric, ..)| *metric).collect();
    // The run through the graph, until the exact one of the same mode follows it.
    let mut approximate: Option<(SystemRow, TrecRun)> = None;
    for system in systems(&job.modes, job.rerank) {
        let (answers, served, time) = ask(client, &judged.questions, system, job, watch).await?;
        same(
            client.url(),
            report.served.get_or_insert_with(|| served.clone()),
            &served,
        )?;
        let name = system.to_string().replace(' ', "-");
        let path = job.run_dir.join(format!("{name}.run"));
        run::write(&path, &answers, &format!("dyad-{name}"))?;
        let means = evaluate(&answers, &judged.qrels, &metrics, Average::Complete).means;
        let queries_per_s = judged.questions.len() as f64 / time.as_secs_f64().max(1e-9);
        let row = SystemRow {
            system,
            run: path,
            means,
            queries_per_s,
        };
        match approximate.take() {
            Some((walked, walked_run)) if system.exact && walked.system.mode == system.mode => {
                let means = row
                    .means
                    .iter()
                    .zip(&walked.means)
                    .map(|(exact, walked)| exact - walked)
                    .collect();
                let overlap = overlap(&walked_run, &answers, report.overlap_depth());
                report.losses.push(AnnLoss {
                    mode: system.mode,
                    means,
                    overlap,
                });
            }
            _ => approximate = Some((row.clone(), answers)),
        }
        report.rows.push(row);
    }
    Ok(report)
}

/// Refuses an index that has none of the judged documents: every figure would be 0 for no fault of its answers.
async fn holds_any(client: &SearcherClient, judged: &JudgedQuestions) -> BenchResult<()> {
    let documents: BTreeSet<&String> = judged.qrels.values().flat_map(BTreeMap::keys).collect();
    let keys: Vec<String> = documents.into_iter().cloned().collect();
    for some in keys.chunks(KEYS) {
        let request = v1::GetDocumentsRequest {
            keys: some.to_vec(),
            ..Default::default()
        };
        if !client.get_documents(request).await?.documents.is_empty() {
            return Ok(());
        }
    }
    Err(BenchError::Refused(format!(
        "none of the {} judged documents is in the index that `{}` serves. Serve an index of the corpus of `{}`, or name its folder with \
         `--data`",
        keys.len(),
        client.url(),
        judged.data.display()
    )))
}

impl QualityReport {
    /// The depth at which [`AnnLoss::overlap`] was taken.
    pub fn overlap_depth(&self) -> usize {
        OVERLAP_DEPTH.min(self.k as usize)
    }

    /// Everything, unrounded; metrics under trec_eval's names.
    pub fn to_json(&self) -> Value {
        json!({
            "server": self.server,
            "data": self.data,
            "split": self.split,
            "queries": self.queries,
            "average": "complete",
            "k": self.k,
            "drop_identical_ids": self.drop_identical_ids,
            "generation": self.served.as_ref().map(|served| served.generation),
            "fingerprint": self.served.as_ref().map(|served| served.fingerprint.as_str()),
            "systems": self.rows.iter().map(|row| self.system_json(row)).collect::<Vec<_>>(),
            "ann_loss": self.losses.iter().map(|loss| self.loss_json(loss)).collect::<Vec<_>>(),
        })
    }

    fn system_json(&self, row: &SystemRow) -> Value {
        json!({
            "mode": row.system.mode.names().0,
            "exact": row.system.exact,
            "rerank": row.system.rerank,
            "run": row.run,
            "metrics": self.named(&row.means),
            "queries_per_s": row.queries_per_s,
        })
    }

    fn loss_json(&self, loss: &AnnLoss) -> Value {
        let overlap = json!({ "depth": self.overlap_depth(), "mean": loss.overlap });
        json!({ "mode": loss.mode.names().0, "metrics": self.named(&loss.means), "overlap": overlap })
    }

    /// One value per metric, under trec_eval's names.
    fn named(&self, means: &[f64]) -> Value {
        by_name(
            self.metrics
                .iter()
                .zip(means)
                .map(|((metric, ..), mean)| (metric.to_string(), json!(mean))),
        )
    }

    /// Prints one row per system, then what the graph walk lost.
    pub fn write_table(&self, out: &mut impl Write) -> io::Result<()> {
        let Self {
            data,
            split,
            queries,
            k,
            metrics,
            ..
        } = self;
        let served = self
            .served
            .as_ref()
            .map_or_else(|| "generation 0, model -".to_owned(), ToString::to_string);
        writeln!(
            out,
            "{}, split {split}: {queries} queries, k {k}, index {served}\n",
            data.display()
        )?;
        // What reranking costs a question is told as its time.
        let (heading, speed): (_, fn(f64) -> f64) = if self.rerank > 0 {
            ("ms/question", |queries_per_s| 1e3 / queries_per_s)
        } else {
            ("queries/s", |qps| qps)
        };
        let headings = || metrics.iter().map(|(_, heading, _)| (*heading).to_owned());
        let mut table = TextTable::new("", headings().chain([heading.to_owned()]));
        for row in &self.rows {
            let means = row.means.iter().map(|mean| format!("{mean:.4}"));
            table.push(
                &row.system.to_string(),
                means.chain([format!("{:.1}", speed(row.queries_per_s))]),
            );
        }
        table.write(out)?;
        if !self.losses.is_empty() {
            writeln!(out)?;
            let overlap = format!("overlap@{}", self.overlap_depth());
            let mut table = TextTable::new("ANN loss: exact minus ANN", headings().chain([overlap]));
            for loss in &self.losses {
                let means = loss.means.iter().map(|mean| FigureFormat::Signed(4).text(&json!(mean)));
                table.push(loss.mode.names().0, means.chain([format!("{:.4}", loss.overlap)]));
            }
            table.write(out)?;
        }
        writeln!(
            out,
            "\nAll judged queries count, those without results as 0 (trec_eval -c)."
        )?;
        if self.rerank > 0 {
            writeln!(
                out,
                "Reranked: the best {} hits scored again by the server's cross encoder.",
                self.rerank
            )?;
        }
        if self.drop_identical_ids {
            writeln!(out, "Hits with the query's own key were dropped.")?;
        }
        let left_out = METRICS.iter().filter(|(.., depth)| depth > k);
        let left_out = left_out.map(|(_, heading, _)| *heading).collect::<Vec<_>>().join(", ");
        if !left_out.is_empty() {
            writeln!(out, "Left out, because k is only {k}: {left_out}.")?;
        }
        self.rows
            .first()
            .and_then(|row| row.run.parent())
            .map_or(Ok(()), |dir| writeln!(out, "Runs: {}", dir.display()))
    }
}

/// Mean over the queries of the share of `truth`'s first `depth` hits that are also among `run`'s, both in the order
/// served. Queries without hits in `truth` do not count; 1 where none has any.
pub fn overlap(run: &TrecRun, truth: &TrecRun, depth: usize) -> f64 {
    let (mut sum, mut queries) = (0.0, 0);
    for (query, expected) in truth.iter().filter(|(_, expected)| !expected.is_empty()) {
        let expected = expected.get(..depth).unwrap_or(expected);
        let found = run.get(query).map_or(&[][..], Vec::as_slice);
        let found = found.get(..depth).unwrap_or(found);
        let shared = expected
            .iter()
            .filter(|(key, _)| found.iter().any(|(other, _)| other == key))
            .count();
        sum += shared as f64 / expected.len() as f64;
        queries += 1;
    }
    if queries == 0 { 1.0 } else { sum / f64::from(queries) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(keys: &[&str]) -> Vec<(String, f32)> {
        keys.iter().map(|key| ((*key).to_owned(), 1.0)).collect()
    }

    #[test]
    fn overlap_is_the_shared_part_of_the_truth() {
        let truth = TrecRun::from([
            ("q1".to_owned(), hits(&["a", "b", "c"])),
            ("q2".to_owned(), hits(&["a"])),
            ("q3".to_owned(), hits(&["a", "b"])),
        ]);
        let run = TrecRun::from([
            ("q1".to_owned(), hits(&["b", "x", "a"])),
            ("q2".to_owned(), hits(&["a", "b"])),
        ]);
        // q1 shares b of a, b; q2 all of its one; q3 nothing.
        assert!((overlap(&run, &truth, 2) - (0.5 + 1.0 + 0.0) / 3.0).abs() < 1e-12);
        assert!((overlap(&run, &truth, 10) - (2.0 / 3.0 + 1.0) / 3.0).abs() < 1e-12);
        assert!((overlap(&truth, &truth, 10) - 1.0).abs() < 1e-12);
        assert!((overlap(&run, &TrecRun::new(), 10) - 1.0).abs() < 1e-12);
    }
}
