//! Token, position and type tables of BERT, summed and normalised.

use tch::{Kind, TchError, Tensor};

use super::norm::LayerNorm;
use crate::bundle::{BertConfig, WeightsFile};
use crate::error::{Error, torch};

#[derive(Debug)]
pub(crate) struct Embedding {
    tokens: Tensor,
    /// Row `i` is for the i-th token; the type vector of a single text (type 0) is already added.
    positions: Tensor,
    norm: LayerNorm,
}

impl Embedding {
    pub(crate) fn load(file: &mut WeightsFile, config: &BertConfig) -> Result<Self, Error> {
        let hidden = config.hidden_size;
        let tokens = file.take("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?;
        let positions = file.take("embeddings.position_embeddings.weight", &[config.position_rows, hidden])?;
        let positions = positions
            .f_narrow(0, config.first_position as i64, config.max_positions() as i64)
            .map_err(torch("reading position embeddings"))?;
        let positions = if config.type_rows == 0 {
            positions
        } else {
            let types = file.take("embeddings.token_type_embeddings.weight", &[config.type_rows, hidden])?;
            types.f_get(0).and_then(|first| positions.f_add(&first)).map_err(torch("adding type embeddings"))?
        };
        let norm = LayerNorm::load(file, "embeddings.LayerNorm", hidden, config.layer_norm_eps)?;
        Ok(Self { tokens, positions, norm })
    }

    /// Ids `[b, s]` to `[b, s, h]`.
    pub(crate) fn forward(&self, ids: &Tensor) -> Result<Tensor, TchError> {
        debug_assert_eq!(ids.kind(), Kind::Int64);
        let (_, tokens) = ids.size2()?;
        let summed =
            Tensor::f_embedding(&self.tokens, ids, -1, false, false)?.f_add(&self.positions.f_narrow(0, 0, tokens)?)?;
        self.norm.forward(&summed)
    }
}
