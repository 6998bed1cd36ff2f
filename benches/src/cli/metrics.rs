//! `dyad-bench metrics`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use dyad_corpus::metrics::{Average, RankingMetric, evaluate};
use dyad_corpus::qrels::{self, Qrels};
use dyad_corpus::run::{self, TrecRun};
use serde_json::{Map, Value, json};

/// The metrics that are printed, under trec_eval's names.
pub const TREC_METRICS: [RankingMetric; 9] = [
    RankingMetric::ReciprocalRank,
    RankingMetric::Precision(1),
    RankingMetric::Recall(1),
    RankingMetric::Recall(5),
    RankingMetric::Recall(10),
    RankingMetric::Recall(100),
    RankingMetric::Ndcg(10),
    RankingMetric::AveragePrecision,
    RankingMetric::Success(5),
];

/// Compute the metrics of a TREC run, as `trec_eval -c` does.
#[derive(Debug, Args)]
pub(super) struct MetricsCommand {
    /// Judgements in BEIR's form (query-id, corpus-id, score) or TREC's (qid, iter, docno, rel); `-` is standard input.
    #[arg(long, value_name = "FILE")]
    qrels: PathBuf,
    /// The run: qid, Q0, docno, rank, sim, tag. The order of hits follows from `sim`, as in trec_eval.
    #[arg(long, value_name = "FILE")]
    run: PathBuf,
    /// Print JSON, unrounded.
    #[arg(long)]
    json: bool,
}

impl MetricsCommand {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let (qrels, run) = (qrels::read(&self.qrels)?, run::read(&self.run)?);
        let unanswered = qrels.keys().filter(|query| !run.contains_key(*query)).count();
        if unanswered == qrels.len() {
            let (asked, judged) = (run.keys().next().cloned(), qrels.keys().next().cloned());
            anyhow::bail!(
                "`{}` answers none of the {unanswered} judged queries: its first query is `{}`, the first judged one `{}`. \
                 Give the judgements that belong to the run",
                self.run.display(),
                asked.unwrap_or_default(),
                judged.unwrap_or_default()
            );
        }
        if !has_judged_hit(&run, &qrels) {
            tracing::warn!("no document of the run is judged for its query: are run and judgements of one corpus?");
        }
        let evaluation = evaluate(&run, &qrels, &TREC_METRICS, Average::Complete);
        let unjudged = run.keys().filter(|query| !qrels.contains_key(*query)).count();
        let names = evaluation.metrics.iter().map(ToString::to_string);
        let means: Vec<(String, f64)> = names.zip(evaluation.means.iter().copied()).collect();

        let mut out = std::io::stdout().lock();
        if self.json {
            let metrics: Map<String, Value> = means.into_iter().map(|(name, mean)| (name, mean.into())).collect();
            let queries = json!({ "judged": qrels.len(), "unanswered": unanswered, "unjudged": unjudged });
            writeln!(
                out,
                "{:#}",
                json!({ "average": "complete", "queries": queries, "metrics": metrics })
            )?;
            return Ok(());
        }
        for (name, mean) in means {
            writeln!(out, "{name:<12} {mean:.4}")?;
        }
        writeln!(
            out,
            "means over all {} judged queries, {unanswered} of them unanswered (trec_eval -c)",
            qrels.len()
        )?;
        if unjudged > 0 {
            writeln!(out, "{unjudged} queries of the run have no judgements and do not count")?;
        }
        Ok(())
    }
}

/// Whether a document of the run is judged for its query.
fn has_judged_hit(run: &TrecRun, qrels: &Qrels) -> bool {
    run.iter().any(|(query, hits)| {
        let judged = qrels.get(query);
        hits.iter()
            .any(|(key, _)| judged.is_some_and(|judged| judged.contains_key(key)))
    })
}
