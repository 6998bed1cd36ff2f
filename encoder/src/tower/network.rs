//! The whole way of one batch: transformer, pooling, projections, unit length.

use tch::{Device, Kind, TchError, Tensor};

use super::kernels::Cores;
use super::packed::Packed;
use super::parameters::Parameters;
use super::product::Filling;
use super::{Bert, Dense, MultiHop, Pooling, Recurrent, T5, Tower};
use crate::bundle::Architecture;
use crate::error::{Error, torch};
use crate::tokenize::Batch;

/// Below this length a vector counts as zero, as in `torch.nn.functional.normalize`.
const SMALLEST_NORM: f64 = 1e-12;

/// Tokens to token vectors.
#[derive(Debug, Clone)]
pub(crate) enum Transformer {
    Bert(Bert),
    T5(T5),
    Recurrent(Recurrent),
}

impl Transformer {
    pub(crate) fn load(parameters: &mut dyn Parameters, architecture: &Architecture) -> Result<Self, Error> {
        Ok(match architecture {
            Architecture::Bert(config) => Self::Bert(Bert::load(parameters, config)?),
            Architecture::T5(config) => Self::T5(T5::load(parameters, config)?),
            Architecture::Recurrent(config) => Self::Recurrent(Recurrent::load(parameters, config)?),
        })
    }

    pub(super) fn forward(&self, packed: &Packed) -> Result<Tensor, TchError> {
        match self {
            Self::Bert(bert) => bert.forward(packed),
            Self::T5(t5) => t5.forward(packed),
            Self::Recurrent(recurrent) => recurrent.forward(packed),
        }
    }
}

/// A module with its weights.
#[derive(Debug, Clone)]
pub(crate) enum Loaded {
    Transformer(Transformer),
    Pooling(Pooling),
    MultiHop(MultiHop),
    Dense(Dense),
    Normalize,
}

/// What one tower runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// Places of modules, in order.
    pub(crate) steps: Vec<usize>,
    /// Length of a vector.
    pub(crate) dim: usize,
}

/// How long the vectors of a text are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VectorLength {
    /// 1: what a cosine needs, and what is served.
    #[default]
    Unit,
    /// As the last module before the normalisation gives it, for losses by inner product.
    Raw,
}

/// A batch behind the network.
#[derive(Debug)]
pub(crate) struct Passed {
    /// What the transformer gives, `[t, h]`.
    pub(crate) tokens: Tensor,
    pub(crate) packed: Packed,
    /// `[rows, dim]` in f32, in the order of the batch.
    pub(crate) vectors: Tensor,
}

/// Both towers: every module once, and the way of each tower through them.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) modules: Vec<Loaded>,
    /// Of the question tower and the answer tower; of a siamese encoder they are equal.
    pub(crate) routes: [Route; 2],
    pub(crate) device: Device,
    pub(crate) filling: Filling,
    /// Threads for our kernels, where products are theirs.
    pub(crate) cores: Option<Cores>,
}

impl Network {
    /// Length of a vector, of either tower.
    pub(crate) fn dim(&self) -> usize {
        self.routes[1].dim
    }

    /// Embeds a batch, on as many threads as operators have here: `batch.rows() * dim` values, row-major, in the order of the batch.
    pub(crate) fn embed(&self, tower: Tower, batch: &Batch, length: VectorLength) -> Result<Vec<f32>, Error> {
        match &self.cores {
            Some(cores) if tch::get_num_threads() > 1 => {
                let network = self.clone();
                cores.run(move || network.embed_here(tower, batch, length))
            }
            _ => self.embed_here(tower, batch, length),
        }
    }

    fn embed_here(&self, tower: Tower, batch: &Batch, length: VectorLength) -> Result<Vec<f32>, Error> {
        let dim = self.routes[usize::from(tower == Tower::Answer)].dim;
        let on_cpu = || self.pass(tower, batch, length)?.vectors.f_to_device(Device::Cpu)?.f_contiguous();
        let vectors = tch::no_grad(on_cpu).map_err(torch("embedding a batch"))?;
        let values = batch.rows() * dim;
        let mut rows = vec![0.0_f32; values];
        vectors.f_copy_data(&mut rows, values).map_err(torch("copying vectors from the device"))?;
        if rows.iter().all(|value| value.is_finite()) { Ok(rows) } else { Err(Error::NotFinite) }
    }

    /// Vectors of that length, and the token vectors that they are made from.
    pub(crate) fn pass(&self, tower: Tower, batch: &Batch, length: VectorLength) -> Result<Passed, TchError> {
        let route = &self.routes[usize::from(tower == Tower::Answer)];
        let packed = Packed::new(batch, self.device, self.filling)?;
        let mut steps: Vec<&Loaded> = route.steps.iter().filter_map(|&at| self.modules.get(at)).collect();
        while length == VectorLength::Raw && matches!(steps.last(), Some(Loaded::Normalize)) {
            steps.pop();
        }
        // `[t, h]` up to the pooling, `[rows, h]` from there on.
        let mut values = packed.ids.shallow_clone();
        let mut tokens = None;
        for module in steps {
            values = match module {
                Loaded::Transformer(transformer) => {
                    let states = transformer.forward(&packed)?;
                    tokens = Some(states.shallow_clone());
                    states
                }
                Loaded::Pooling(pooling) => pooling.forward(&values, &packed)?,
                Loaded::MultiHop(multihop) => multihop.forward(&values, &packed)?,
                Loaded::Dense(dense) => dense.forward(&values)?,
                Loaded::Normalize => unit_length(&values)?,
            };
        }
        let vectors = values.f_narrow(1, 0, route.dim as i64)?;
        let vectors = match length {
            // A no-op in the common case; it undoes nothing, and makes every model's vectors fit a cosine index.
            VectorLength::Unit => unit_length(&vectors)?,
            VectorLength::Raw => vectors,
        };
        Ok(Passed { tokens: tokens.unwrap_or_else(|| packed.ids.shallow_clone()), packed, vectors })
    }
}

fn unit_length(vectors: &Tensor) -> Result<Tensor, TchError> {
    let norms = vectors.f_linalg_norm(2.0, &[1i64][..], true, None::<Kind>)?;
    vectors.f_div(&norms.f_clamp_min(SMALLEST_NORM)?)
}
