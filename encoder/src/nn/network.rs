//! The whole way of one batch: transformer, pooling, projections, unit length.

use tch::{Device, Kind, TchError, Tensor};

use super::bert::Bert;
use super::exec::Exec;
use super::multihop::MultiHop;
use super::output::Output;
use super::packed::Packed;
use super::parameters::Parameters;
use super::pool::KernelPool;
use super::pooling::PoolingLayer;
use super::product::Padding;
use super::projection::{Dense, HeadMap};
use super::recurrent::Recurrent;
use super::rotary::RotaryEncoder;
use super::static_table::{StaticTable, TableRows};
use super::t5::T5;
use crate::config::{Architecture, ModuleStep, Route, Tower};
use crate::error::{Error, torch};
use crate::tokenize::TokenBatch;

/// Below this length a vector counts as zero, as in `torch.nn.functional.normalize`.
const SMALLEST_NORM: f64 = 1e-12;

/// Tokens to token vectors.
#[derive(Debug, Clone)]
pub(crate) enum Transformer {
    Bert(Bert),
    T5(T5),
    Rotary(RotaryEncoder),
    Recurrent(Recurrent),
    Static(StaticTable),
}

impl Transformer {
    pub(crate) fn load(parameters: &mut dyn Parameters, architecture: &Architecture) -> Result<Self, Error> {
        Ok(match architecture {
            Architecture::Bert(config) => Self::Bert(Bert::load(parameters, config)?),
            Architecture::T5(config) => Self::T5(T5::load(parameters, config)?),
            Architecture::Rotary(config) => Self::Rotary(RotaryEncoder::load(parameters, config)?),
            Architecture::Recurrent(config) => Self::Recurrent(Recurrent::load(parameters, config)?),
            Architecture::Static(config) => Self::Static(StaticTable::load(parameters, config)?),
        })
    }

    /// The token that takes no position.
    fn uncounted(&self) -> Option<i64> {
        match self {
            Self::Bert(bert) => bert.uncounted(),
            Self::T5(_) | Self::Rotary(_) | Self::Recurrent(_) | Self::Static(_) => None,
        }
    }

    pub(super) fn forward(&self, packed: &Packed) -> Result<Tensor, TchError> {
        match self {
            Self::Bert(bert) => bert.forward(packed),
            Self::T5(t5) => t5.forward(packed),
            Self::Rotary(rotary) => rotary.forward(packed),
            Self::Recurrent(recurrent) => recurrent.forward(packed),
            Self::Static(table) => table.forward(packed),
        }
    }
}

/// A module with its weights.
#[derive(Debug, Clone)]
pub(crate) enum LoadedModule {
    Transformer {
        transformer: Transformer,
        /// What is in the transformer's own file and follows the pooling: DPR's projection, or the head of a cross
        /// encoder.
        head: Vec<HeadMap>,
    },
    Pooling(PoolingLayer),
    MultiHop(MultiHop),
    Dense(Dense),
    Normalize,
}

/// How long the vectors of a text are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VectorLength {
    /// 1: what a cosine needs, and what is served.
    #[default]
    Unit,
    /// The output of the last module before the normalisation, for losses by inner product.
    Raw,
}

/// Both towers: every module once, and the way of each tower through them.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    pub(crate) modules: Vec<LoadedModule>,
    /// The question tower and the answer tower; equal for a siamese encoder.
    pub(crate) routes: [Route; 2],
    pub(crate) device: Device,
    pub(crate) padding: Padding,
    /// How the calling thread computes where there is no pool.
    pub(crate) exec: Exec,
    /// What shares the work of our kernels, where products are theirs and more than one thread may be used.
    pub(crate) pool: Option<KernelPool>,
}

impl Network {
    /// Length of a vector, of either tower.
    pub(crate) fn dim(&self) -> usize {
        self.routes[1].dim
    }

    /// Whether parts of a text can have vectors of their own: where the text's is the mean of its token vectors.
    pub(crate) fn pools_means(&self, tower: Tower) -> bool {
        let route = &self.routes[tower.index()];
        let poolings = route.steps.iter().filter_map(|step| match self.layer(*step) {
            Some(RouteLayer::Module(LoadedModule::Pooling(pooling))) => Some(pooling.is_mean()),
            Some(RouteLayer::Module(LoadedModule::MultiHop(_))) => Some(false),
            _ => None,
        });
        let poolings: Vec<bool> = poolings.collect();
        !poolings.is_empty() && poolings.into_iter().all(|is_mean| is_mean)
    }

    /// Embeds a batch on this thread, helped by those that are free, or by operators on all threads: `batch.vectors() *
    /// dim` values, row-major, in the order of the texts.
    pub(crate) fn embed(&self, tower: Tower, batch: &TokenBatch, length: VectorLength) -> Result<Vec<f32>, Error> {
        match &self.pool {
            Some(pool) => pool.run(|| self.embed_by(Exec::SHARED, tower, batch, length)),
            None => self.embed_by(self.exec, tower, batch, length),
        }
    }

    fn vectors_on_cpu(
        &self,
        exec: Exec,
        tower: Tower,
        batch: &TokenBatch,
        length: VectorLength,
    ) -> Result<Tensor, TchError> {
        self.forward_by(exec, tower, batch, length)?
            .vectors()
            .f_to_device(Device::Cpu)?
            .f_contiguous()
    }

    /// Embeds a batch on the calling thread, as `exec` says.
    pub(crate) fn embed_by(
        &self,
        exec: Exec,
        tower: Tower,
        batch: &TokenBatch,
        length: VectorLength,
    ) -> Result<Vec<f32>, Error> {
        if let Some(table) = self.only_table(tower) {
            let dim = self.routes[tower.index()].dim;
            return finite(table.embed(batch, dim, length == VectorLength::Unit));
        }
        let vectors =
            tch::no_grad(|| self.vectors_on_cpu(exec, tower, batch, length)).map_err(torch("embedding a batch"))?;
        let values = batch.vectors() * self.routes[tower.index()].dim;
        let mut rows = vec![0.0_f32; values];
        vectors
            .f_copy_data(&mut rows, values)
            .map_err(torch("copying vectors from the device"))?;
        finite(rows)
    }

    /// The table of a tower that is nothing but the mean of its rows.
    fn only_table(&self, tower: Tower) -> Option<&TableRows> {
        let mut steps = self.routes[tower.index()].steps.iter().map(|step| self.layer(*step));
        let first = steps.next().flatten()?;
        let RouteLayer::Module(LoadedModule::Transformer { transformer, .. }) = first else {
            return None;
        };
        let Transformer::Static(StaticTable::Memory(table)) = transformer else {
            return None;
        };
        let is_mean = |layer: Option<RouteLayer<'_>>| match layer {
            Some(RouteLayer::Module(LoadedModule::Pooling(pooling))) => pooling.is_mean(),
            _ => false,
        };
        let is_normalize = |layer| matches!(layer, Some(RouteLayer::Module(LoadedModule::Normalize)));
        (steps.next().is_some_and(is_mean) && steps.all(is_normalize)).then_some(table)
    }

    /// The forward pass of a batch on the calling thread, with its tape where something is learned.
    pub(crate) fn forward(&self, tower: Tower, batch: &TokenBatch, length: VectorLength) -> Result<Output, TchError> {
        self.forward_by(self.exec, tower, batch, length)
    }

    fn forward_by(
        &self,
        exec: Exec,
        tower: Tower,
        batch: &TokenBatch,
        length: VectorLength,
    ) -> Result<Output, TchError> {
        let route = &self.routes[tower.index()];
        let mut steps: Vec<RouteLayer<'_>> = route.steps.iter().filter_map(|step| self.layer(*step)).collect();
        let uncounted = match steps.first() {
            Some(RouteLayer::Module(LoadedModule::Transformer { transformer, .. })) => transformer.uncounted(),
            _ => None,
        };
        let packed = Packed::new(batch, self.device, self.padding, exec, uncounted)?;
        while length == VectorLength::Raw && matches!(steps.last(), Some(RouteLayer::Module(LoadedModule::Normalize))) {
            steps.pop();
        }
        // `[t, h]` up to the pooling, `[rows, h]` from there on.
        let mut values = packed.ids.shallow_clone();
        let mut tokens = packed.ids.shallow_clone();
        for step in steps {
            values = match step {
                RouteLayer::Module(LoadedModule::Transformer { transformer, .. }) => {
                    tokens = transformer.forward(&packed)?;
                    tokens.shallow_clone()
                }
                RouteLayer::Module(LoadedModule::Pooling(pooling)) => pooling.forward(&values, &packed)?,
                RouteLayer::Module(LoadedModule::MultiHop(multihop)) => multihop.forward(&values, &packed)?,
                RouteLayer::Module(LoadedModule::Dense(dense)) => dense.forward(exec, &values)?,
                RouteLayer::Head(maps) => maps.iter().try_fold(values, |values, map| map.forward(exec, &values))?,
                RouteLayer::Module(LoadedModule::Normalize) => unit_length(&values)?,
            };
        }
        let vectors = values.f_narrow(1, 0, route.dim as i64)?;
        let vectors = match length {
            // A no-op in the common case; it undoes nothing, and makes every model's vectors fit a cosine index.
            VectorLength::Unit => unit_length(&vectors)?,
            VectorLength::Raw => vectors,
        };
        Output::new(tokens, packed, &vectors, batch)
    }

    fn layer(&self, step: ModuleStep) -> Option<RouteLayer<'_>> {
        match step {
            ModuleStep::Module(at) => self.modules.get(at).map(RouteLayer::Module),
            ModuleStep::OwnHead(at) => match self.modules.get(at) {
                Some(LoadedModule::Transformer { head, .. }) => Some(RouteLayer::Head(head)),
                _ => None,
            },
        }
    }
}

/// Refuses vectors that hold a value which is no number.
fn finite(rows: Vec<f32>) -> Result<Vec<f32>, Error> {
    if rows.iter().all(|value| value.is_finite()) {
        Ok(rows)
    } else {
        Err(Error::NotFinite)
    }
}

/// A step of a route.
#[derive(Debug, Clone, Copy)]
enum RouteLayer<'a> {
    Module(&'a LoadedModule),
    Head(&'a [HeadMap]),
}

fn unit_length(vectors: &Tensor) -> Result<Tensor, TchError> {
    let norms = vectors.f_linalg_norm(2.0, &[1i64][..], true, None::<Kind>)?;
    vectors.f_div(&norms.f_clamp_min(SMALLEST_NORM)?)
}
