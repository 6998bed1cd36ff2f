//! The model that training begins from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::text;
use crate::config::{RecurrentCell, Sharing};
use crate::model::LoraSettings;
use crate::transform::{Aggregation, NewEncoder};

/// A model as it is, or two towers made from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelConfig {
    /// Directory of the model.
    pub path: PathBuf,
    /// What is trained.
    #[serde(default, rename = "type", skip_serializing_if = "TrainedKind::is_dual_encoder")]
    pub kind: TrainedKind,
    /// Sharing of two new towers; absent to train the model as it is.
    #[serde(default, with = "text::option", skip_serializing_if = "Option::is_none")]
    pub sharing: Option<Sharing>,
    /// Values of a vector after the new projection.
    pub dim: usize,
    /// Pooling of the new towers.
    pub pooling: PoolingKind,
    /// Weighted means of multi-hop pooling.
    pub hops: usize,
    /// Values between the two maps of multi-hop pooling.
    pub inner: usize,
    /// Initial values of the encoder.
    #[serde(default, skip_serializing_if = "EncoderInit::is_pretrained")]
    pub init: EncoderInit,
    /// A randomly initialised encoder over the token vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder: Option<EncoderKind>,
    /// Layers of a new encoder.
    pub layers: usize,
    /// Values of a recurrent state.
    pub hidden: usize,
    /// Whether a second recurrent network reads from the end.
    pub bidirectional: bool,
    /// Low-rank adapters, by which alone transformers learn; absent to train all weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraSettings>,
}

/// What a run trains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrainedKind {
    /// Vectors of questions and answers.
    #[default]
    DualEncoder,
    /// Scores of pairs.
    CrossEncoder,
}

impl TrainedKind {
    /// Left out of a run's record, as in those of before there was another.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_dual_encoder(&self) -> bool {
        *self == Self::DualEncoder
    }
}

/// Initial values of the encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EncoderInit {
    /// From the model's files.
    #[default]
    Pretrained,
    /// Random values from the seed: the weights of the model are not read.
    Random,
}

impl EncoderInit {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
    fn is_pretrained(&self) -> bool {
        *self == Self::Pretrained
    }
}

/// From token vectors to one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolingKind {
    /// The model's own.
    Kept,
    /// The mean over all tokens.
    Mean,
    /// Multi-hop self-attention, randomly initialised.
    MultiHop,
}

/// The kind of a new encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EncoderKind {
    /// Hochreiter and Schmidhuber 1997.
    Lstm,
    /// Cho et al. 2014.
    Gru,
    /// Elman 1990.
    Rnn,
    /// In BERT's form.
    Transformer,
}

impl ModelConfig {
    /// The pooling of new towers.
    pub(crate) fn aggregation(&self) -> Aggregation {
        match self.pooling {
            PoolingKind::Kept => Aggregation::Kept,
            PoolingKind::Mean => Aggregation::Mean,
            PoolingKind::MultiHop => Aggregation::MultiHop {
                inner: self.inner,
                hops: self.hops,
            },
        }
    }

    /// The randomly initialised encoder, if there is one.
    pub(crate) fn new_encoder(&self) -> Option<NewEncoder> {
        let Self {
            layers,
            hidden,
            bidirectional,
            ..
        } = *self;
        let recurrent = |cell| NewEncoder::Recurrent {
            cell,
            layers,
            hidden,
            bidirectional,
        };
        self.encoder.map(|kind| match kind {
            EncoderKind::Lstm => recurrent(RecurrentCell::Lstm),
            EncoderKind::Gru => recurrent(RecurrentCell::Gru),
            EncoderKind::Rnn => recurrent(RecurrentCell::Rnn),
            EncoderKind::Transformer => NewEncoder::Transformer { layers },
        })
    }
}
