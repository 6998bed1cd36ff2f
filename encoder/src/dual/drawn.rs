//! Tensors whose values are drawn anew: of the projection, of multi-hop attention, of a transformer; and their file.

use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::random::Random;
use crate::bundle::{Draw, Initial, MultiHopConfig};
use crate::error::Error;

/// Keeps the values of an aggregator apart from those of a projection of the same seed.
const MULTIHOP_STREAM: u64 = 0x6d75_6c74_6968_6f70;

/// Name, shape and values.
pub(super) type Drawn = (String, Vec<usize>, Vec<f32>);

/// A linear map without bias by variance scaling: scale 1.0, fan in, truncated normal (Dong et al. 2022, section 4.1).
pub(super) fn projection(input: usize, output: usize, mut random: Random) -> Vec<Drawn> {
    let deviation = (1.0 / input as f64).sqrt();
    let values = (0..input * output).map(|_| random.cut_normal(deviation) as f32).collect();
    vec![("linear.weight".to_owned(), vec![output, input], values)]
}

/// Both maps of multi-hop attention, uniform within one over the square root of their input, as torch draws linear maps.
pub(super) fn multihop(config: &MultiHopConfig, seed: u64) -> Vec<Drawn> {
    let mut random = Random::new(seed ^ MULTIHOP_STREAM);
    let MultiHopConfig { in_features, inner, hops, .. } = *config;
    let maps = [("w1.weight", inner, in_features), ("w2.weight", hops, inner)];
    maps.map(|(name, rows, columns)| uniform(&mut random, name, &[rows, columns], columns)).into()
}

/// A tensor of a transformer.
pub(super) fn tensor(random: &mut Random, tensor: Initial) -> Drawn {
    let Initial { name, shape, draw } = tensor;
    let count = shape.iter().product();
    let mut fill = |one: &mut dyn FnMut(&mut Random) -> f64| (0..count).map(|_| one(random) as f32).collect();
    let values = match draw {
        Draw::Constant(value) => vec![value; count],
        Draw::Normal(deviation) => fill(&mut |random| random.cut_normal(deviation)),
        Draw::Uniform(bound) => fill(&mut |random| random.uniform(bound)),
    };
    (name, shape, values)
}

/// Uniform within one over the square root of `fan`.
pub(super) fn uniform(random: &mut Random, name: &str, shape: &[usize], fan: usize) -> Drawn {
    let bound = (1.0 / fan as f64).sqrt();
    let values = (0..shape.iter().product()).map(|_| random.uniform(bound) as f32).collect();
    (name.to_owned(), shape.to_vec(), values)
}

/// Writes `model.safetensors` of a folder, in f32.
pub(super) fn write(folder: &Path, tensors: Vec<Drawn>) -> Result<(), Error> {
    let path = folder.join("model.safetensors");
    let failed = |error: safetensors::SafeTensorError| Error::Weights { path: path.clone(), reason: error.to_string() };
    // One after another: the values of a large model are there once.
    let bytes = |(name, shape, values): Drawn| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        (name, shape, bytes)
    };
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = tensors.into_iter().map(bytes).collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        Ok((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(failed)?))
    });
    let views = views.collect::<Result<Vec<_>, Error>>()?;
    safetensors::serialize_to_file(views, None, &path).map_err(failed)
}
