//! Tensors with the values that they have before any training.

use std::path::Path;

use crate::checkpoint::TensorData;
use crate::config::{Architecture, JsonFile, MultiHopConfig, T5Config, TensorSpec};
use crate::error::Error;
use crate::random::Random;

/// Deviation of BERT's tensors where `initializer_range` does not say it (Devlin et al. 2019).
pub(super) const BERT_RANGE: f64 = 0.02;

/// More than the encoder of T5 11B has, and more tensors than any.
const MOST_VALUES: usize = 6_000_000_000;
const MOST_TENSORS: usize = 10_000;

/// How the values of a tensor are distributed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TensorInit {
    /// All the same.
    Constant(f32),
    /// Normal with this standard deviation, truncated at two.
    Normal(f64),
    /// Between minus and plus this.
    Uniform(f64),
}

impl TensorInit {
    /// Uniform within one over the square root of `fan_in`, as torch initialises linear maps and cells.
    pub(super) fn uniform(fan_in: usize) -> Self {
        Self::Uniform((1.0 / fan_in as f64).sqrt())
    }

    /// A tensor with values of the stream `name` of a seed.
    pub(super) fn tensor(self, seed: u64, name: &str, shape: &[usize]) -> TensorData {
        let (count, name) = (shape.iter().product(), name.to_owned());
        TensorData::floats(shape.to_vec(), move || {
            let mut stream = Random::named(seed, &name);
            Ok(match self {
                Self::Constant(value) => vec![value; count],
                Self::Normal(deviation) => (0..count).map(|_| stream.truncated_normal(deviation) as f32).collect(),
                Self::Uniform(bound) => (0..count).map(|_| stream.uniform(bound) as f32).collect(),
            })
        })
    }
}

/// A linear map without bias by variance scaling: scale 1.0, fan in, truncated normal (Dong et al. 2022, section 4.1).
pub(super) fn projection(input: usize, output: usize, seed: u64, name: &str) -> Vec<(String, TensorData)> {
    let init = TensorInit::Normal((1.0 / input as f64).sqrt());
    vec![("linear.weight".to_owned(), init.tensor(seed, name, &[output, input]))]
}

/// Both maps of multi-hop attention, as torch initialises linear maps.
pub(super) fn multihop(config: &MultiHopConfig, seed: u64) -> Vec<(String, TensorData)> {
    let MultiHopConfig {
        in_features,
        inner,
        hops,
        ..
    } = *config;
    let map = |name: &str, output: usize, input: usize| {
        (
            name.to_owned(),
            TensorInit::uniform(input).tensor(seed, &format!("multihop/{name}"), &[output, input]),
        )
    };
    vec![map("w1.weight", inner, in_features), map("w2.weight", hops, inner)]
}

/// The tensors of the transformer that the `config.json` in `folder` describes, in the order in which it takes them.
/// BERT's family: maps and tables normal with `initializer_range`, norms one, biases zero. T5: by its fan-in, with
/// `initializer_factor` (Raffel et al. 2020). So has transformers them, but that normal values are not truncated there,
/// and rows of padding, which nothing reads, are zero. Cells: uniform within one over the square root of the state, as
/// torch has them, over token vectors of deviation one.
pub(super) fn transformer(
    architecture: &Architecture,
    folder: &Path,
    seed: u64,
) -> Result<Vec<(String, TensorData)>, Error> {
    let file = JsonFile::required(&folder.join("config.json"))?;
    let scale = |field: &'static str, otherwise: f64| match file.number(field)?.unwrap_or(otherwise) {
        value if value > 0.0 && value <= 10.0 => Ok(value),
        _ => Err(file.wrong(field, "a number above 0, and at most 10")),
    };
    let range = match architecture {
        Architecture::Bert(_) | Architecture::Rotary(_) => scale("initializer_range", BERT_RANGE)?,
        Architecture::T5(_) => scale("initializer_factor", 1.0)?,
        Architecture::Recurrent(_) | Architecture::Static(_) => 1.0,
    };
    if file.flag("sinusoidal_pos_embds")?.unwrap_or(false) {
        return Err(file.unsupported(
            "initialising `sinusoidal_pos_embds`",
            "positions that are learned",
            "true",
        ));
    }
    let specs = specs(architecture, &folder.join("config.json"))?.into_iter();
    let tensor = |(name, shape): TensorSpec| {
        let data = init(architecture, range, &name, &shape).tensor(seed, &format!("encoder/{name}"), &shape);
        (name, data)
    };
    Ok(specs.map(tensor).collect())
}

/// Names and shapes of the tensors that a transformer takes. Refused where they are more than anybody trains; the error
/// names `path`.
pub(super) fn specs(architecture: &Architecture, path: &Path) -> Result<Vec<TensorSpec>, Error> {
    let (mut specs, mut values) = (Vec::new(), 0_usize);
    for (name, shape) in architecture.tensors() {
        let count = shape
            .iter()
            .try_fold(1_usize, |count, &length| count.checked_mul(length));
        let sum = count.and_then(|count| count.checked_add(values));
        let Some(sum) = sum.filter(|&sum| sum <= MOST_VALUES && specs.len() < MOST_TENSORS) else {
            return Err(Error::Unsupported {
                path: path.to_owned(),
                what: "a randomly initialised model of this size",
                supported: "up to 6,000,000,000 values in 10,000 tensors",
                got: format!("more, with `{name}` of {shape:?}"),
            });
        };
        values = sum;
        specs.push((name, shape));
    }
    Ok(specs)
}

fn init(architecture: &Architecture, range: f64, name: &str, shape: &[usize]) -> TensorInit {
    match architecture {
        Architecture::Recurrent(_) if name == architecture.token_table() => TensorInit::Normal(range),
        Architecture::Recurrent(config) => TensorInit::uniform(config.hidden_size),
        // Of one dimension are norms and biases.
        Architecture::Rotary(config) if shape.len() == 1 && config.family.norm_offset() != 0.0 => {
            TensorInit::Constant(0.0)
        }
        Architecture::Bert(_) | Architecture::Rotary(_) if shape.len() == 1 => {
            TensorInit::Constant(if name.ends_with(".weight") { 1.0 } else { 0.0 })
        }
        Architecture::Bert(_) | Architecture::Rotary(_) | Architecture::Static(_) => TensorInit::Normal(range),
        Architecture::T5(_) if shape.len() == 1 => TensorInit::Constant(range as f32),
        Architecture::T5(config) => TensorInit::Normal(range * t5_deviation(config, name)),
    }
}

fn t5_deviation(config: &T5Config, name: &str) -> f64 {
    let T5Config {
        d_model,
        d_kv,
        d_ff,
        heads,
        ..
    } = *config;
    let fan = match name.rsplit('.').nth(1).unwrap_or_default() {
        "shared" => 1,
        // Scores are not divided by the square root of a head's values, so that their maps begin smaller.
        "q" => d_model * d_kv,
        "o" => heads * d_kv,
        "wo" => d_ff,
        _ => d_model,
    };
    (1.0 / fan as f64).sqrt()
}
