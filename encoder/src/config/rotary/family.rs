//! The families of encoders with rotary positions, and how they differ.

/// A family, by the code that defines it in transformers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RotaryFamily {
    /// Warner et al. 2024: local attention in two layers of three, no biases.
    ModernBert,
    /// Zhang et al. 2024 (mGTE): `gte` of transformers, and `new` of `Alibaba-NLP/new-impl`.
    Gte,
    /// Nussbaum et al. 2024.
    NomicBert,
    /// Zhang et al. 2025: a decoder, of which the last token is pooled.
    Qwen3,
    /// EmbeddingGemma (Vera et al. 2025): a decoder that was trained to attend in both directions.
    Gemma3,
}

/// Where the norms of a layer stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NormOrder {
    /// Over the sum of a block and its input.
    Post,
    /// Before a block, and after the last layer.
    Pre,
    /// Before a block and over what it gives, and after the last layer.
    Both,
}

/// Which half of the first map of a feed-forward block is activated, and gates the other (Shazeer 2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedForwardGate {
    /// There is one map, all of which is activated.
    No,
    First,
    Second,
}

impl RotaryFamily {
    /// `model_type` in transformers.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ModernBert => "modernbert",
            Self::Gte => "gte",
            Self::NomicBert => "nomic_bert",
            Self::Qwen3 => "qwen3",
            Self::Gemma3 => "gemma3_text",
        }
    }

    /// The family of a `model_type`, if it is one of these.
    pub(crate) fn of(model_type: &str) -> Option<Self> {
        Some(match model_type {
            "modernbert" => Self::ModernBert,
            "gte" | "new" => Self::Gte,
            "nomic_bert" => Self::NomicBert,
            "qwen3" => Self::Qwen3,
            "gemma3_text" => Self::Gemma3,
            _ => return None,
        })
    }

    pub(crate) fn norm_order(self) -> NormOrder {
        match self {
            Self::Gte | Self::NomicBert => NormOrder::Post,
            Self::ModernBert | Self::Qwen3 => NormOrder::Pre,
            Self::Gemma3 => NormOrder::Both,
        }
    }

    /// Whether norms are by root mean square, also those of queries and keys.
    pub(crate) fn norms_by_root_mean_square(self) -> bool {
        matches!(self, Self::Qwen3 | Self::Gemma3)
    }

    /// What is added to the weight of a norm: Gemma's are stored less one.
    pub(crate) fn norm_offset(self) -> f64 {
        if self == Self::Gemma3 { 1.0 } else { 0.0 }
    }

    /// Whether token vectors are multiplied with the square root of their size.
    pub(crate) fn scales_tokens(self) -> bool {
        self == Self::Gemma3
    }

    /// Whether half precision overflows: Gemma's activations exceed f16's range.
    pub(crate) fn refuses_f16(self) -> bool {
        self == Self::Gemma3
    }

    pub(crate) fn gate(self) -> FeedForwardGate {
        if self == Self::Gte {
            FeedForwardGate::Second
        } else {
            FeedForwardGate::First
        }
    }
}
