//! Encoders whose positions rotate queries and keys: ModernBERT, GTE, NomicBERT, Qwen3 and Gemma3.
//!
//! | file | what |
//! |---|---|
//! | `layer.rs` | a layer, with its norms before or after its blocks |

mod layer;

use tch::{TchError, Tensor};

use self::layer::{RotaryLayer, RotaryNorm};
use super::packed::Packed;
use super::parameters::Parameters;
use super::rotation::RotaryAngles;
use super::shared_tensor::SharedTensor;
use crate::config::{RopeFrequencies, RotaryConfig};
use crate::error::Error;

/// An encoder with rotary positions.
#[derive(Debug, Clone)]
pub(crate) struct RotaryEncoder {
    tokens: SharedTensor,
    /// The first type is that of a text's tokens.
    types: Option<SharedTensor>,
    /// Factor of token vectors.
    token_scale: Option<f64>,
    embedding_norm: Option<RotaryNorm>,
    /// The rotations that layers have, each once.
    frequencies: Vec<RopeFrequencies>,
    head_size: usize,
    /// Layers with the places of their rotations in `frequencies`.
    layers: Vec<(RotaryLayer, usize)>,
    final_norm: Option<RotaryNorm>,
}

impl RotaryEncoder {
    pub(crate) fn load(parameters: &mut dyn Parameters, config: &RotaryConfig) -> Result<Self, Error> {
        let hidden = config.hidden_size;
        let tokens = parameters.take(config.token_table(), &[config.vocab_size, hidden])?;
        let types = match config.type_rows {
            0 => None,
            rows => Some(parameters.take(RotaryConfig::TYPES, &[rows, hidden])?.into()),
        };
        let mut norm = |name: Option<&str>| {
            name.map(|name| RotaryNorm::load(parameters, name, hidden, config))
                .transpose()
        };
        let (embedding_norm, final_norm) = (norm(config.embedding_norm())?, norm(config.final_norm())?);
        let mut frequencies: Vec<RopeFrequencies> = Vec::new();
        let mut layers = Vec::new();
        for (number, layer) in config.layers.iter().enumerate() {
            let known = frequencies.iter().position(|known| *known == layer.frequencies);
            let place = known.unwrap_or(frequencies.len());
            if known.is_none() {
                frequencies.push(layer.frequencies);
            }
            layers.push((RotaryLayer::load(parameters, number, config)?, place));
        }
        Ok(Self {
            tokens: tokens.into(),
            types,
            token_scale: config.family.scales_tokens().then(|| (hidden as f64).sqrt()),
            embedding_norm,
            frequencies,
            head_size: config.head_size,
            layers,
            final_norm,
        })
    }

    /// `[t]` ids to `[t, h]`.
    pub(crate) fn forward(&self, packed: &Packed) -> Result<Tensor, TchError> {
        let rotations = self
            .frequencies
            .iter()
            .map(|frequencies| RotaryAngles::new(packed, *frequencies, self.head_size));
        let rotations: Vec<RotaryAngles> = rotations.collect::<Result<_, _>>()?;
        let mut hidden = self.embedded(packed)?;
        for (layer, place) in &self.layers {
            if let Some(rotation) = rotations.get(*place) {
                hidden = layer.forward(&hidden, packed, rotation)?;
            }
        }
        match &self.final_norm {
            Some(norm) => norm.forward(packed.exec, &hidden),
            None => Ok(hidden),
        }
    }

    fn embedded(&self, packed: &Packed) -> Result<Tensor, TchError> {
        let mut vectors = Tensor::f_embedding(&self.tokens, &packed.ids, -1, false, false)?;
        if let Some(scale) = self.token_scale {
            // Rounded to the type of the weights first, as Gemma's code does.
            let scale = Tensor::f_from_slice(&[scale])?
                .f_to_device(vectors.device())?
                .f_to_kind(vectors.kind())?;
            vectors = vectors.f_mul(&scale)?;
        }
        if let Some(types) = &self.types {
            vectors = match &packed.types {
                Some(of_tokens) if types.size().first().is_some_and(|rows| *rows > 1) => {
                    vectors.f_add(&Tensor::f_embedding(types, of_tokens, -1, false, false)?)?
                }
                _ => vectors.f_add(&types.f_get(0)?)?,
            };
        }
        match &self.embedding_norm {
            Some(norm) => norm.forward(packed.exec, &vectors),
            None => Ok(vectors),
        }
    }
}
