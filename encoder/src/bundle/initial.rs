//! The values that a transformer has before any training: the tensors that its `config.json` asks for, and how each is drawn.

use std::path::Path;

use tch::{Device, Kind, Tensor};

use super::architecture::{Architecture, T5Config};
use super::json::JsonFile;
use crate::error::{Error, torch};
use crate::tower::{Parameters, Transformer};

const REFETCH: &str = "Fetch the whole model directory again";
/// Deviation of BERT's tensors where `initializer_range` does not say it (Devlin et al. 2019).
pub(crate) const BERT_RANGE: f64 = 0.02;

/// More than the encoder of T5 11B has, and more tensors than any.
const MOST_VALUES: usize = 6_000_000_000;
const MOST_TENSORS: usize = 10_000;

/// How the values of a tensor are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Draw {
    /// All the same.
    Constant(f32),
    /// Normal with this standard deviation, cut at two.
    Normal(f64),
    /// Between minus and plus this.
    Uniform(f64),
}

/// A tensor that is to be drawn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Initial {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) draw: Draw,
}

/// The tensors of the transformer that the `config.json` in `folder` describes, in the order in which it takes them; no weights are
/// read. BERT's family: maps and tables normal with `initializer_range`, norms one, biases zero. T5: by its fan-in, with
/// `initializer_factor` (Raffel et al. 2020). So has transformers them, but that normal values are not cut there, and rows of
/// padding, which nothing reads, are zero. Cells: uniform within one over the square root of the state, as torch draws them, over
/// token vectors of deviation one.
pub(crate) fn initial(folder: &Path) -> Result<Vec<Initial>, Error> {
    let path = folder.join("config.json");
    let (architecture, file) = (Architecture::read(&path)?, JsonFile::open(&path, REFETCH)?);
    let scale = |field: &'static str, otherwise: f64| match file.number(field)?.unwrap_or(otherwise) {
        value if value > 0.0 && value <= 10.0 => Ok(value),
        _ => Err(file.wrong(field, "a number above 0, and at most 10")),
    };
    let range = match architecture {
        Architecture::Bert(_) => scale("initializer_range", BERT_RANGE)?,
        Architecture::T5(_) => scale("initializer_factor", 1.0)?,
        Architecture::Recurrent(_) => 1.0,
    };
    if file.flag("sinusoidal_pos_embds")?.unwrap_or(false) {
        return Err(file.unsupported("drawing `sinusoidal_pos_embds`", "positions that are learned", "true"));
    }
    let drawn = tensors_of(&architecture, &path)?.into_iter().map(|(name, shape)| {
        let draw = draw(&architecture, range, &name, &shape);
        Initial { name, shape, draw }
    });
    Ok(drawn.collect())
}

/// Names and shapes of the tensors that a transformer takes. Refused where they are more than anybody draws; the error names `path`.
pub(crate) fn tensors_of(architecture: &Architecture, path: &Path) -> Result<Vec<(String, Vec<usize>)>, Error> {
    let mut asked = Asked { tensors: Vec::new(), values: 0, path };
    Transformer::load(&mut asked, architecture)?;
    Ok(asked.tensors)
}

/// Writes down what a network takes, and gives it zeros that have no memory.
struct Asked<'a> {
    tensors: Vec<(String, Vec<usize>)>,
    values: usize,
    path: &'a Path,
}

impl Parameters for Asked<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        let values = shape.iter().try_fold(1_usize, |values, &length| values.checked_mul(length));
        let values = values.and_then(|values| values.checked_add(self.values));
        let fits = values.filter(|&values| values <= MOST_VALUES && self.tensors.len() < MOST_TENSORS);
        let Some(values) = fits else {
            return Err(Error::Unsupported {
                path: self.path.to_owned(),
                what: "a model of this size that is drawn",
                supported: "up to 6,000,000,000 values in 10,000 tensors",
                got: format!("more, with `{name}` of {shape:?}"),
            });
        };
        self.values = values;
        self.tensors.push((name.to_owned(), shape.to_vec()));
        let size: Vec<i64> = shape.iter().map(|&length| length as i64).collect();
        let zero = Tensor::f_zeros([1], (Kind::Float, Device::Cpu));
        zero.and_then(|zero| zero.f_expand(size, false)).map_err(torch("listing weights"))
    }

    fn trainable(&self) -> bool {
        true
    }
}

fn draw(architecture: &Architecture, range: f64, name: &str, shape: &[usize]) -> Draw {
    match architecture {
        Architecture::Recurrent(_) if name == architecture.token_table() => Draw::Normal(range),
        Architecture::Recurrent(config) => Draw::Uniform((1.0 / config.hidden_size as f64).sqrt()),
        // Of one dimension are norms and biases.
        Architecture::Bert(_) if shape.len() == 1 => Draw::Constant(if name.ends_with(".weight") { 1.0 } else { 0.0 }),
        Architecture::Bert(_) => Draw::Normal(range),
        Architecture::T5(_) if shape.len() == 1 => Draw::Constant(range as f32),
        Architecture::T5(config) => Draw::Normal(range * t5_deviation(config, name)),
    }
}

fn t5_deviation(config: &T5Config, name: &str) -> f64 {
    let T5Config { d_model, d_kv, d_ff, heads, .. } = *config;
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
