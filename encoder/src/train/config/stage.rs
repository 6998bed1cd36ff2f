//! Data, batch, loss, optimizer and length of a stage.

use std::path::PathBuf;

use dyad_corpus::PassageContext;
use dyad_corpus::examples::{ExampleFormat, ExampleOptions, Flawed};
use serde::{Deserialize, Serialize};

use crate::cross::CrossSettings;
use crate::data::{Last, Margin, MineOptions, PairOptions};
use crate::error::Error;
use crate::loss::{Endx, GeometryLoss, Matryoshka, MatryoshkaSize, Similarity};
use crate::optim::{Clipping, Group, Groups, NotFinite, OptimizerSettings, Schedule};

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Stage {
    /// Names its files and its lines in the log.
    pub name: String,
    /// Examples.
    pub data: DataConfig,
    /// Batches.
    pub batch: BatchConfig,
    /// The objective of the stage.
    pub loss: LossConfig,
    /// The optimizer, with its learning rate.
    pub optimizer: OptimizerSettings,
    /// Schedule of the learning rate.
    pub schedule: Schedule,
    /// Clipping of gradients.
    pub clipping: ClippingConfig,
    /// How long, and which tensors differently.
    pub training: TrainingConfig,
    /// Hard negatives by the model as it is when the stage begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mine: Option<MineConfig>,
}

/// Examples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DataConfig {
    /// Files of examples, read in this order.
    pub paths: Vec<PathBuf>,
    /// The form of the files.
    pub format: ExampleFormat,
    /// Split of BEIR folders.
    pub split: String,
    /// Corpus of records that name their passages by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corpus: Option<PathBuf>,
    /// Skip bad records.
    pub skip_bad: bool,
    /// Longest question.
    pub question_tokens: usize,
    /// Longest answer.
    pub answer_tokens: usize,
    /// A passage's title stands before its text.
    pub titles: bool,
    /// What of its document reaches an answer's vector, in place of `titles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<PassageContext>,
    /// File of the documents that answers were cut from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documents: Option<PathBuf>,
}

impl DataConfig {
    pub(crate) fn read(&self) -> ExampleOptions {
        ExampleOptions {
            format: self.format,
            flawed: if self.skip_bad { Flawed::Skip } else { Flawed::Refuse },
            split: self.split.clone(),
            corpus: self.corpus.clone(),
        }
    }

    pub(crate) fn pairs(&self) -> PairOptions {
        let Self {
            question_tokens,
            answer_tokens,
            ..
        } = *self;
        let titles = self.context.map_or(self.titles, PassageContext::has_title);
        PairOptions {
            question_tokens,
            answer_tokens,
            titles,
        }
    }
}

/// Batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BatchConfig {
    /// Examples.
    pub size: usize,
    /// Hard negatives of each question.
    pub negatives: usize,
    /// Handling of an incomplete last batch.
    pub last: Last,
    /// Batches of a step.
    pub accumulate: usize,
    /// Texts at a time with a tape; 0 for all.
    pub chunk: usize,
}

/// The objective.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LossConfig {
    /// Similarity of a question and an answer.
    pub similarity: Similarity,
    /// Divisor of the scores.
    pub temperature: f64,
    /// Whether the temperature is trained.
    pub learned_temperature: bool,
    /// Adds the loss from answers to questions.
    pub symmetric: bool,
    /// Weight of the in-batch loss, next to distillation.
    pub weight: f64,
    /// After a teacher's scores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distillation: Option<DistillationConfig>,
    /// Training with a cross-encoder branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endx: Option<EndxConfig>,
    /// The same loss of vectors that are cut to several sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matryoshka: Option<MatryoshkaConfig>,
}

/// Matryoshka representation learning (Kusupati et al. 2022).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MatryoshkaConfig {
    /// Sizes of vectors.
    pub dims: Vec<usize>,
    /// The weight of the loss of each size; absent for 1 each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<f64>,
    /// Sizes of a step, at random; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dims_per_step: Option<usize>,
}

impl MatryoshkaConfig {
    /// The sizes with their weights.
    pub(crate) fn sizes(&self) -> Matryoshka {
        let weights = self.weights.iter().copied().chain(std::iter::repeat(one()));
        let sizes = self.dims.iter().zip(weights);
        let sizes = sizes.map(|(&dim, weight)| MatryoshkaSize { dim, weight });
        Matryoshka::new(sizes.collect(), self.dims_per_step)
    }

    /// Refuses sizes that vectors of `dim` values do not have.
    pub(crate) fn check(&self, dim: usize) -> Result<(), Error> {
        match self.dims.iter().find(|size| **size > dim) {
            Some(size) => Err(Error::Setting {
                setting: "loss.matryoshka.dims",
                expected: format!("sizes of at most {dim}, the values of the model's vectors"),
                got: size.to_string(),
            }),
            None => Ok(()),
        }
    }
}

/// After a teacher's scores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct DistillationConfig {
    /// Which loss.
    pub kind: DistillationKind,
    /// Its weight.
    #[serde(default = "one")]
    pub weight: f64,
    /// Divisor of both scores before the softmax of `kl`.
    #[serde(default = "one")]
    pub temperature: f64,
    /// What the teacher's scores are multiplied by, before all else.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub scale: f64,
}

fn one() -> f64 {
    1.0
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference to the field"
)]
fn is_one(value: &f64) -> bool {
    (value - one()).abs() < f64::EPSILON
}

/// Which loss of distillation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DistillationKind {
    /// KL divergence of the softmax over a question's candidates.
    Kl,
    /// Squared differences of margins.
    MarginMse,
}

/// ENDX (Wang et al. 2021). The default is the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct EndxConfig {
    /// Weights of equations 12 and 13.
    pub weights: Endx,
    /// The architecture of the cross-encoder branch.
    pub cross: CrossSettings,
    /// Kernels of the geometry terms.
    pub geometry: GeometryLoss,
}

/// Clipping, as the file has it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ClippingConfig {
    /// 0 for any norm.
    pub max_norm: f64,
    /// With ENDX: the norm is of the towers, of the cross-encoder branch, and of a learned temperature each, and not of
    /// all together.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub each_side: bool,
    /// Handling of gradients that are not finite.
    pub not_finite: NotFinite,
}

fn yes() -> bool {
    true
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference to the field"
)]
fn is_yes(value: &bool) -> bool {
    *value
}

impl ClippingConfig {
    pub(crate) fn clipping(self) -> Clipping {
        let any = self.max_norm.abs() < f64::MIN_POSITIVE;
        Clipping {
            max_norm: (!any).then_some(self.max_norm),
            not_finite: self.not_finite,
        }
    }
}

/// How long, and which tensors differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TrainingConfig {
    /// Passes over the examples.
    pub epochs: f64,
    /// In their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Rate and weight decay by name.
    pub groups: Vec<Group>,
}

impl TrainingConfig {
    /// The groups, and after them biases and norms without weight decay.
    pub(crate) fn groups(&self) -> Groups {
        Groups(self.groups.iter().cloned().chain([Groups::without_decay()]).collect())
    }

    /// Steps where an epoch has `batches` batches and a step takes `accumulate` of them.
    pub(crate) fn steps(&self, batches: u64, accumulate: usize) -> u64 {
        let of_epochs = (self.epochs * batches as f64 / accumulate.max(1) as f64).ceil() as u64;
        self.steps.unwrap_or(of_epochs.max(1))
    }
}

/// Hard negatives by the model itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct MineConfig {
    /// Candidates; absent for the examples' positives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corpus: Option<PathBuf>,
    /// First rank.
    pub rank_start: usize,
    /// The rank at which the window of candidates ends (exclusive).
    pub rank_end: usize,
    /// Negatives of each question.
    pub count: usize,
    /// How much lower than the worst positive a negative's cosine must be.
    pub margin: f32,
    /// Share of the worst positive's cosine that a negative's may reach.
    pub relative_margin: f32,
    /// Sample from the window instead of taking its best.
    pub sample: bool,
    /// Keep the negatives that the examples have.
    pub keep: bool,
}

impl Default for MineConfig {
    fn default() -> Self {
        let MineOptions {
            rank_start,
            rank_end,
            count,
            sample,
            keep,
            ..
        } = MineOptions::default();
        Self {
            corpus: None,
            rank_start,
            rank_end,
            count,
            margin: 0.0,
            relative_margin: 0.95,
            sample,
            keep,
        }
    }
}

impl MineConfig {
    /// Options of mining with a seed.
    pub fn options(&self, seed: u64) -> MineOptions {
        let Self {
            rank_start,
            rank_end,
            count,
            sample,
            keep,
            ..
        } = *self;
        let margin = Some(Margin {
            absolute: self.margin,
            relative: self.relative_margin,
        });
        MineOptions {
            rank_start,
            rank_end,
            count,
            margin,
            sample,
            seed,
            keep,
        }
    }
}
