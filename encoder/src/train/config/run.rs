//! Evaluation, checkpoints, log.

use std::path::PathBuf;

use dyad_corpus::PassageContext;
use dyad_corpus::metrics::RankingMetric;
use serde::{Deserialize, Serialize};

use crate::loss::Similarity;
use crate::train::evaluate::EvaluatedContext;

/// Exact search over a BEIR folder on the way; for a cross encoder, its order of hits that were found before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct EvaluationConfig {
    /// The folder; absent for no evaluation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// The split whose questions are asked.
    pub split: String,
    /// Hits of its questions in TREC's form, which a cross encoder reranks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<PathBuf>,
    /// How many of each question's hits it reranks.
    #[serde(default = "depth", skip_serializing_if = "is_depth")]
    pub depth: usize,
    /// Steps between two; 0 for one after the last step only.
    pub every: u64,
    /// Which model is best.
    pub metric: Criterion,
    /// Evaluations without a better one that end a stage; 0 for never.
    pub patience: u64,
    /// Cosine is what a model serves.
    pub similarity: Similarity,
    /// What of its document reaches the vector of a passage that is searched; its title where that is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<PassageContext>,
    /// File of the documents that passages were cut from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<PathBuf>,
    /// Sizes to which vectors are cut, each measured as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dimensions: Vec<usize>,
}

impl EvaluationConfig {
    pub(crate) fn context(&self) -> EvaluatedContext {
        EvaluatedContext {
            context: self.context.unwrap_or_default(),
            documents: self.documents.clone(),
        }
    }
}

fn depth() -> usize {
    50
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference to the field"
)]
fn is_depth(value: &usize) -> bool {
    *value == depth()
}

/// The metric that selects the best model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Criterion {
    /// Mean reciprocal rank.
    #[serde(rename = "mrr")]
    Mrr,
    /// Recall at 1, ENDX's choice.
    #[serde(rename = "r@1")]
    RecallAt1,
    /// nDCG at 10, BEIR's measure.
    #[serde(rename = "ndcg@10")]
    NdcgAt10,
}

impl Criterion {
    /// The metric of trec_eval.
    pub fn metric(self) -> RankingMetric {
        match self {
            Self::Mrr => RankingMetric::ReciprocalRank,
            Self::RecallAt1 => RankingMetric::Recall(1),
            Self::NdcgAt10 => RankingMetric::Ndcg(10),
        }
    }
}

/// Checkpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct CheckpointConfig {
    /// Steps between two.
    pub every: u64,
    /// Number of latest checkpoints that are kept, besides the best.
    pub keep: usize,
}

/// Metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LogConfig {
    /// Steps between two lines.
    pub every: u64,
    /// Whether to write event files of TensorBoard too.
    pub tensorboard: bool,
}
