//! The cross-encoder branch of ENDX (Wang et al. 2021, section 3.3): vectors of matched questions and answers that
//! attend to each other. It guides the dual encoder in training ([`crate::loss::GeometryLoss`]) and is not part of a
//! model: its tensors have names, and lie in training checkpoints only.
//!
//! | file | what |
//! |---|---|
//! | `settings.rs` | sizes and choices |
//! | `random_init.rs` | random initialisation |
//! | `padded.rs` | packed tokens to rows of one length, and back |
//! | `side.rs` | cross attention, feed-forward block and aggregator of one side |
//!
//! Choices where the paper leaves them open:
//!
//! - *The encoder.* It names `Encoder_cross` as well as `Encoder_dual` and shows two, so the default is an encoder of
//!   its own that starts from the same pretrained one ([`CrossBranchEncoder::Separate`]). That doubles the cost of a
//!   step; with [`CrossBranchEncoder::Shared`] the cross-encoder branch reads the dual encoder's token vectors, and
//!   gives them a gradient.
//! - *Both sides.* "Similarly we can obtain" the answer's side: by the same maps, for no side stands in equations 2 to
//!   4, unless `one-side` is false.
//! - *Feed-forward block.* Its width and activation are not given: four times the token vector and GELU, as in BERT.
//!   The attention's maps have no biases, as in equations 2 and 3.
//! - *Equation 2* takes queries from the answer for the question's side, so the refined question has as many token
//!   vectors as the answer has tokens. There is no residual around it, for the lengths differ.

mod padded;
mod random_init;
mod settings;
mod side;
#[cfg(test)]
mod tests;

use std::path::Path;

use tch::Tensor;

use crate::config::Tower;
use crate::device::Compute;
use crate::error::{Error, torch};
use crate::model::{Model, Output, Parameter};
use random_init::RandomInit;
pub use settings::{Aggregator, CrossBranchEncoder, CrossSettings};
use side::CrossSide;

/// Prefix of the names of the branch's own tensors.
const PREFIX: &str = "cross/";
/// Prefix of the names of its encoder's tensors.
const ENCODER_PREFIX: &str = "cross/encoder/";

/// Vectors of matched questions and answers, `[b, dim]` each and in f32, not normalised.
#[derive(Debug)]
pub struct CrossVectors {
    /// `R_q^cross`.
    pub questions: Tensor,
    /// `R_a^cross`.
    pub answers: Tensor,
}

/// The cross-encoder branch.
#[derive(Debug)]
pub struct Cross {
    settings: CrossSettings,
    encoder: Option<Model>,
    question: CrossSide,
    /// `None`: that of the question.
    answer: Option<CrossSide>,
    parameters: Vec<Parameter>,
}

impl Cross {
    /// Randomly initialises a cross-encoder branch for the token vectors of `dual`; an encoder of its own is read from
    /// `directory`, the model that `dual` began from. [`Self::parameters`] says what learns.
    pub fn new(settings: &CrossSettings, dual: &Model, directory: &Path, compute: &Compute) -> Result<Self, Error> {
        let size = dual.token_size(Tower::Question);
        let answers = dual.token_size(Tower::Answer);
        if size != answers {
            return Err(Error::Setting {
                setting: "cross",
                expected: format!("on towers with equally long token vectors; those of questions have {size} values"),
                got: answers.to_string(),
            });
        }
        settings.check(size)?;
        let mut init = RandomInit::new(settings.seed.unwrap_or_default(), compute);
        let mut side = |name: &str| {
            init.within(format!("{PREFIX}{name}/"));
            CrossSide::load(&mut init, settings, size)
        };
        let (question, answer) = if settings.one_side {
            (side("both")?, None)
        } else {
            (side("question")?, Some(side("answer")?))
        };
        let mut parameters = init.finish();
        let encoder = match settings.encoder {
            CrossBranchEncoder::Shared => None,
            CrossBranchEncoder::Separate => {
                Some(Model::open_for_training(directory, compute)?.into_transformers(ENCODER_PREFIX)?)
            }
        };
        parameters.extend(encoder.iter().flat_map(Model::parameters).map(Parameter::shallow_clone));
        Ok(Self {
            settings: *settings,
            encoder,
            question,
            answer,
            parameters,
        })
    }

    /// What it was made by.
    pub fn settings(&self) -> &CrossSettings {
        &self.settings
    }

    /// `Encoder_cross`, whose [`Model::forward`] go into [`Self::forward`]; `None` where those of the dual encoder do.
    pub fn encoder(&self) -> Option<&Model> {
        self.encoder.as_ref()
    }

    /// Every tensor of the cross-encoder branch once, those of its own encoder too.
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Vectors of questions and their answers, in the same order.
    pub fn forward(&self, questions: &Output, answers: &Output) -> Result<CrossVectors, Error> {
        let failed = torch("attending across questions and answers");
        let answer = self.answer.as_ref().unwrap_or(&self.question);
        let vectors = || {
            Ok(CrossVectors {
                questions: self.question.forward(questions, answers)?,
                answers: answer.forward(answers, questions)?,
            })
        };
        vectors().map_err(failed)
    }
}
