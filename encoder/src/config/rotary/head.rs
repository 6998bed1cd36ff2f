//! The heads of encoders with rotary positions that score a pair of texts.

use crate::config::dense::{Activation, DenseConfig};
use crate::config::head::{HeadMapConfig, HeadNormConfig};
use crate::config::json::JsonFile;
use crate::error::Error;

/// The head that scores a pair of texts: a map of the pooled vector, and one to the score.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::config) struct ScoreHead {
    /// The first map.
    pub(in crate::config) first: HeadMapConfig,
    /// Whether it reads the mean of the token vectors, and not the first.
    pub(in crate::config) reads_mean: bool,
}

impl ScoreHead {
    /// The head of `GteForSequenceClassification`: BERT's.
    pub(super) fn gte(hidden_size: usize) -> Self {
        let map = DenseConfig {
            in_features: hidden_size,
            out_features: hidden_size,
            bias: true,
            activation: Activation::Tanh,
        };
        Self {
            first: HeadMapConfig::new("pooler.dense", map),
            reads_mean: false,
        }
    }

    /// The head of `ModernBertForSequenceClassification`, whose norm is as those of its layers.
    pub(super) fn modern_bert(
        file: &JsonFile,
        hidden_size: usize,
        epsilon: f64,
        norm_bias: bool,
    ) -> Result<Self, Error> {
        let activation = match file.text("classifier_activation")?.unwrap_or("gelu") {
            "gelu" => Activation::Gelu,
            "relu" => Activation::Relu,
            "tanh" => Activation::Tanh,
            other => return Err(file.unsupported("activation of a head", "`gelu`, `relu` and `tanh`", other)),
        };
        let reads_mean = match file.text("classifier_pooling")?.unwrap_or("cls") {
            "cls" => false,
            "mean" => true,
            other => return Err(file.unsupported("pooling of a head", "`cls` and `mean`", other)),
        };
        let map = DenseConfig {
            in_features: hidden_size,
            out_features: hidden_size,
            bias: file.flag("classifier_bias")?.unwrap_or(false),
            activation,
        };
        let norm = HeadNormConfig {
            name: "head.norm",
            epsilon,
            bias: norm_bias,
        };
        let first = HeadMapConfig {
            name: "head.dense",
            map,
            norm: Some(norm),
        };
        Ok(Self { first, reads_mean })
    }
}
