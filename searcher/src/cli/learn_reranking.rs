//! What a cross encoder brings an index: nDCG@10 of judged questions with and without it.

use std::io::Write as _;

use dyad_command::ProgressBar;
use dyad_corpus::Judged;
use dyad_corpus::metrics::{Ranking, Sampling, compare_values};
use dyad_corpus::queries::Query;
use dyad_index::{RerankMeasured, RerankRecord};
use dyad_proto::v1;

use super::judged_answers::answers;
use crate::fusion::Fusion;
use crate::fusion::learn::METRIC;
use crate::reranker::Reranker;
use crate::run::Engine;
use crate::service::fusion_method;

/// Hits that the metric looks at, and one more, which may be the question itself.
const HITS: u32 = 11;
/// Hits of one call that are reranked, about: some thousand pairs take a minute.
const PAIRS: usize = 2_000;

/// A cross encoder that is measured.
pub(super) struct RerankMeasurement<'a> {
    pub(super) engine: &'a Engine,
    pub(super) judged: &'a Judged,
    /// By which the rankings are fused.
    pub(super) fusion: Fusion,
    /// Hits that the cross encoder scores.
    pub(super) depth: u32,
    pub(super) drop_identical_ids: bool,
    /// Folder of the questions, for people.
    pub(super) data: String,
    pub(super) split: String,
    /// Of the model whose vectors are ranked.
    pub(super) fingerprint: String,
}

impl RerankMeasurement<'_> {
    /// Measures, and prints the result.
    pub(super) async fn run(self, reranker: &Reranker) -> anyhow::Result<RerankRecord> {
        let (before, after) = (self.values(0).await?, self.values(self.depth).await?);
        let compared = compare_values(&before, &after, Sampling::default())?;
        let v1::ModelInfo { name, fingerprint, .. } = reranker.model();
        writeln!(
            std::io::stdout().lock(),
            "reranked {:.4}  by {name}, {} hits; {:+.4} against the fused ranking, p = {:.3} (paired randomisation test)",
            compared.second,
            self.depth,
            compared.difference,
            compared.p_randomisation
        )?;
        Ok(RerankRecord {
            format_version: RerankRecord::VERSION,
            fingerprint: self.fingerprint,
            reranker_fingerprint: fingerprint.clone(),
            reranker: name.clone(),
            depth: self.depth as usize,
            measured_on: RerankMeasured {
                data: self.data,
                split: self.split,
                questions: before.len(),
                before: compared.first,
                after: compared.second,
                p: compared.p_randomisation,
            },
        })
    }

    /// nDCG@10 of every question where this many of its hits are reranked.
    async fn values(&self, rerank_depth: u32) -> anyhow::Result<Vec<f64>> {
        let method = fusion_method(self.fusion.method);
        let request = v1::SearchRequest {
            mode: v1::Mode::Hybrid.into(),
            k: HITS,
            keys_only: true,
            fusion: method.into(),
            dense_weight: Some(self.fusion.dense_weight),
            document_weight: Some(self.fusion.document_weight),
            rerank_depth,
            ..v1::SearchRequest::default()
        };
        let questions = &self.judged.questions;
        let title = if rerank_depth > 0 { "reranked questions" } else { "questions" };
        let progress = ProgressBar::new(title, Some(questions.len() as u64), "{prefix} {wide_bar} {pos}/{len}");
        let mut values = Vec::with_capacity(questions.len());
        for questions in questions.chunks((PAIRS / self.depth.max(1) as usize).clamp(1, 128)) {
            let answers = answers(self.engine, questions, &request).await?;
            for (question, answer) in questions.iter().zip(answers) {
                let keys = answer.hits.into_iter().map(|hit| hit.key);
                values.push(self.value(question, keys));
            }
            progress.advance(questions.len() as u64);
        }
        Ok(values)
    }

    fn value(&self, question: &Query, keys: impl Iterator<Item = String>) -> f64 {
        let kept = keys.filter(|key| !self.drop_identical_ids || *key != question.key);
        // By place.
        let ranked: Vec<(String, f32)> = kept.enumerate().map(|(at, key)| (key, -(at as f32))).collect();
        let judgements = self.judged.qrels.get(&question.key).cloned().unwrap_or_default();
        METRIC.of(&Ranking::new(&ranked, &judgements))
    }
}
