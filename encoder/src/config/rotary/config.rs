//! Sizes and constants of an encoder with rotary positions.

use serde_json::{Value, json};

use super::family::RotaryFamily;
use super::frequencies::RopeFrequencies;
use super::head::ScoreHead;
use crate::config::activation::HiddenActivation;
use crate::config::dense::{Activation, DenseConfig};
use crate::config::head::HeadMapConfig;

/// The keys that a query attends to, by their distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttentionReach {
    /// Keys before the query, at most.
    pub(crate) before: usize,
    /// Keys after it, at most.
    pub(crate) after: usize,
}

impl AttentionReach {
    /// Every query attends to every key.
    pub(crate) const ALL: Self = Self {
        before: usize::MAX,
        after: usize::MAX,
    };

    /// As many keys on both sides.
    pub(crate) fn around(distance: usize) -> Self {
        Self {
            before: distance,
            after: distance,
        }
    }

    /// No keys after the query, and this many before it.
    pub(crate) fn causal(before: usize) -> Self {
        Self { before, after: 0 }
    }

    /// Whether it leaves out no key of a text of this many tokens.
    pub(crate) fn is_all(self, tokens: usize) -> bool {
        self.before.min(self.after).saturating_add(1) >= tokens
    }

    fn fact(self) -> Value {
        let limit = |keys: usize| (keys < usize::MAX).then_some(keys);
        json!([limit(self.before), limit(self.after)])
    }
}

/// What layers of one model have of their own.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RotaryLayerConfig {
    pub(crate) reach: AttentionReach,
    pub(crate) frequencies: RopeFrequencies,
}

/// Sizes and constants of an encoder with rotary positions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RotaryConfig {
    pub(crate) family: RotaryFamily,
    pub(crate) vocab_size: usize,
    pub(crate) hidden_size: usize,
    pub(crate) heads: usize,
    /// Heads of keys and values, each for as many queries (grouped-query attention, Ainslie et al. 2023).
    pub(crate) key_heads: usize,
    /// Values of a query, a key and a value.
    pub(crate) head_size: usize,
    pub(crate) intermediate_size: usize,
    /// Longest input.
    pub(crate) max_positions: usize,
    /// Rows of the table of token types; a text takes the first.
    pub(crate) type_rows: usize,
    pub(crate) epsilon: f64,
    pub(crate) activation: HiddenActivation,
    /// Factor of the scores.
    pub(crate) scale: f64,
    /// Maps of attention with a bias.
    pub(crate) attention_bias: bool,
    /// Maps of the feed-forward block with a bias: the first, the second.
    pub(crate) feed_forward_bias: [bool; 2],
    /// Layer norms with a bias.
    pub(crate) norm_bias: bool,
    pub(crate) layers: Vec<RotaryLayerConfig>,
    /// What is known of the head that scores a pair of texts; nothing where none is known.
    pub(in crate::config) score_head: Option<ScoreHead>,
    /// Whether it ends in that head.
    pub(crate) scores: bool,
}

impl RotaryConfig {
    /// Values of all queries of a token.
    pub(crate) fn query_size(&self) -> usize {
        self.heads * self.head_size
    }

    /// Values of all keys of a token.
    pub(crate) fn key_size(&self) -> usize {
        self.key_heads * self.head_size
    }

    /// The maps after the pooling, where it scores a pair of texts.
    pub(in crate::config) fn head(&self) -> Vec<HeadMapConfig> {
        let Some(head) = self.score_head.as_ref().filter(|_| self.scores) else {
            return Vec::new();
        };
        let last = DenseConfig {
            in_features: self.hidden_size,
            out_features: 1,
            bias: true,
            activation: Activation::Identity,
        };
        vec![head.first.clone(), HeadMapConfig::new("classifier", last)]
    }

    /// For the fingerprint.
    pub(in crate::config) fn fact(&self) -> Value {
        let layers: Vec<Value> = self
            .layers
            .iter()
            .map(|layer| json!([layer.reach.fact(), layer.frequencies.theta, layer.frequencies.factor]))
            .collect();
        let mut fact = json!({
            "model_type": self.family.name(),
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads,
            "head_dim": self.head_size,
            "intermediate_size": self.intermediate_size,
            "max_position_embeddings": self.max_positions,
            "type_vocab_size": self.type_rows,
            "norm_eps": self.epsilon,
            "hidden_act": self.activation.name(),
            "scale": self.scale,
            "layers": layers,
        });
        if let (true, Some(head), Some(fact)) = (self.scores, &self.score_head, fact.as_object_mut()) {
            let norm = head.first.norm;
            let told = match norm {
                // As before there were others.
                None => json!("score"),
                Some(norm) => json!(["score", head.first.map.fact(), norm.epsilon]),
            };
            fact.insert("head".to_owned(), told);
        }
        fact
    }
}
