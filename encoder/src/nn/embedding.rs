//! Token, position and type tables of the BERT family, summed and normalised.

use tch::{Kind, TchError, Tensor};

use super::norm::LayerNorm;
use super::packed::Packed;
use super::parameters::Parameters;
use super::shared_tensor::SharedTensor;
use crate::config::BertConfig;
use crate::error::Error;

#[derive(Debug, Clone)]
pub(crate) struct Embedding {
    tokens: SharedTensor,
    positions: SharedTensor,
    /// Row of `positions` that the first token takes.
    first_position: i64,
    /// Types of a pair's texts (segments); a single text is of type 0.
    types: Option<SharedTensor>,
    norm: LayerNorm,
}

impl Embedding {
    pub(crate) fn load(parameters: &mut dyn Parameters, config: &BertConfig) -> Result<Self, Error> {
        let hidden = config.hidden_size;
        let mut table = |name: &str, rows: usize| {
            parameters
                .take(&format!("embeddings.{name}.weight"), &[rows, hidden])
                .map(SharedTensor::from)
        };
        Ok(Self {
            tokens: table("word_embeddings", config.vocab_size)?,
            positions: table("position_embeddings", config.position_rows)?,
            first_position: config.first_position as i64,
            types: match config.type_rows {
                0 => None,
                rows => Some(table("token_type_embeddings", rows)?),
            },
            norm: LayerNorm::load(parameters, "embeddings.LayerNorm", hidden, config.layer_norm_eps)?,
        })
    }

    /// RoBERTa's positions begin after the id of its padding, which keeps the row of that id wherever it stands
    /// (`create_position_ids_from_input_ids` of transformers).
    pub(crate) fn uncounted(&self) -> Option<i64> {
        self.first_position.checked_sub(1).filter(|padding| *padding >= 0)
    }

    /// `[t]` ids, places and types to `[t, h]`.
    pub(crate) fn forward(&self, packed: &Packed) -> Result<Tensor, TchError> {
        debug_assert_eq!(packed.ids.kind(), Kind::Int64);
        let places = packed.positions.f_add_scalar(self.first_position)?;
        let tokens = Tensor::f_embedding(&self.tokens, &packed.ids, -1, false, false)?;
        let mut summed = tokens.f_add(&Tensor::f_embedding(&self.positions, &places, -1, false, false)?)?;
        if let Some(types) = &self.types {
            // RoBERTa's table has one row, whatever its tokenizer says of a pair.
            let rows = types.size().first().copied().unwrap_or(0);
            summed = match &packed.types {
                Some(of_tokens) if rows > 1 => {
                    summed.f_add(&Tensor::f_embedding(types, of_tokens, -1, false, false)?)?
                }
                _ => summed.f_add(&types.f_get(0)?)?,
            };
        }
        self.norm.forward(&summed)
    }
}
