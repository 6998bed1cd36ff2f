//! The network's tensors, out of a checkpoint: each is read once, however many towers run its module and whatever
//! modules share it.

use std::collections::HashMap;

use tch::{Kind, Tensor};

use super::adapters::{Adapter, AdapterInit};
use super::tensors::to_torch;
use crate::checkpoint::{Checkpoint, ModuleTensors, SharedTensorRecord};
use crate::config::{Architecture, Module, Placed, Tie, TowerPart};
use crate::device::{Compute, Device, Dtype};
use crate::error::{Error, torch};
use crate::nn::{
    Dense, HeadMap, LoadedModule, LowRankMap, MultiHop, Padding, Parameter, Parameters, PoolingLayer, RunCosts,
    Transformer, WeightForm, by_kernels,
};

/// The use that a model is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Weights do not change and are packed for speed.
    Inference,
    /// Weights are learned, but for those that the towers hold frozen.
    Training,
}

/// A loaded model.
pub(super) struct LoadedModules {
    pub(super) modules: Vec<LoadedModule>,
    /// The trained and frozen tensors, each once; empty for inference.
    pub(super) parameters: Vec<Parameter>,
    /// What is learned in place of weights.
    pub(super) adapters: Vec<Adapter>,
    pub(super) padding: Padding,
    /// Whether products use our kernels.
    pub(super) by_kernels: bool,
}

/// Loads the modules of a checkpoint.
pub(super) struct Loader<'a> {
    checkpoint: &'a Checkpoint,
    compute: &'a Compute,
    form: WeightForm,
    /// The number type in which tensors are kept.
    kind: Kind,
    /// The tensors that were read, by the number of their tie.
    tied: HashMap<usize, Tensor>,
    /// The adapters of tied weights, by the number of their tie.
    tied_adapters: HashMap<usize, LowRankMap>,
    /// How adapters are made, where transformers learn by them alone.
    adapter_init: Option<&'a AdapterInit<'a>>,
    parameters: Vec<Parameter>,
    adapters: Vec<Adapter>,
}

impl<'a> Loader<'a> {
    pub(super) fn new(
        checkpoint: &'a Checkpoint,
        compute: &'a Compute,
        mode: OpenMode,
        adapter_init: Option<&'a AdapterInit<'a>>,
    ) -> Self {
        let (form, kind) = match (mode, compute.dtype) {
            // What learns in bfloat16 is kept in f32: a step is often smaller than what bfloat16 tells apart.
            (OpenMode::Training, Dtype::Bf16) => (WeightForm::Mixed, Kind::Float),
            (OpenMode::Training, _) => (WeightForm::Learned, compute.dtype.kind()),
            (OpenMode::Inference, Dtype::Int8) => (WeightForm::Int8, Kind::Float),
            (OpenMode::Inference, _) => (WeightForm::Fixed, compute.dtype.kind()),
        };
        Self {
            checkpoint,
            compute,
            form,
            kind,
            tied: HashMap::new(),
            tied_adapters: HashMap::new(),
            adapter_init,
            parameters: Vec::new(),
            adapters: Vec::new(),
        }
    }

    pub(super) fn load(mut self) -> Result<LoadedModules, Error> {
        let placed = &self.checkpoint.layout.modules;
        let recurrent = placed.iter().any(|placed| match &placed.module {
            Module::Transformer(config) => matches!(config.architecture, Architecture::Recurrent(_)),
            _ => false,
        });
        // The mean of rows is no product.
        let multiplies = placed.iter().any(|placed| match &placed.module {
            Module::Transformer(config) => config.static_table().is_none(),
            module => module.tensors().next().is_some(),
        });
        let fixed = matches!(self.form, WeightForm::Fixed | WeightForm::Int8) && !recurrent;
        let on_cpu = self.compute.device == Device::Cpu;
        let by_kernels = match self.compute.dtype {
            _ if !fixed || !on_cpu || !multiplies => false,
            Dtype::F32 => by_kernels(false),
            Dtype::Int8 => by_kernels(true),
            Dtype::Bf16 | Dtype::F16 => false,
        };
        let padding = match self.compute.dtype {
            _ if !on_cpu => Padding::Rows(self.run_costs()),
            _ if !fixed || by_kernels => Padding::No,
            Dtype::F32 => Padding::Many,
            _ => Padding::All,
        };
        let modules = placed.iter().enumerate().map(|(at, placed)| self.module(at, placed));
        let modules = modules.collect::<Result<_, Error>>()?;
        if let Some(init) = self.adapter_init
            && self.adapters.is_empty()
        {
            return Err(init.matches_nothing(&self.checkpoint.layout.root));
        }
        Ok(LoadedModules {
            modules,
            parameters: self.parameters,
            adapters: self.adapters,
            padding,
            by_kernels,
        })
    }

    /// Of the larger transformer.
    fn run_costs(&self) -> RunCosts {
        let architectures = self
            .checkpoint
            .layout
            .modules
            .iter()
            .filter_map(|placed| match &placed.module {
                Module::Transformer(config) => Some(&config.architecture),
                _ => None,
            });
        let hidden = architectures.clone().map(Architecture::hidden_size).max().unwrap_or(0);
        RunCosts::of(hidden, architectures.filter_map(Architecture::biased_heads).max())
    }

    fn module(&mut self, at: usize, placed: &Placed) -> Result<LoadedModule, Error> {
        let kind = self.compute.dtype.kind();
        Ok(match &placed.module {
            Module::Transformer(config) => {
                let mut source = self.source(at, placed)?;
                let transformer = Transformer::load(&mut source, &config.architecture)?;
                let head = config.architecture.head();
                let head = head.iter().map(|settings| HeadMap::load(&mut source, settings, kind));
                LoadedModule::Transformer {
                    transformer,
                    head: head.collect::<Result<_, _>>()?,
                }
            }
            Module::Pooling(settings) => LoadedModule::Pooling(PoolingLayer::new(settings.clone())),
            Module::MultiHop(settings) => {
                LoadedModule::MultiHop(MultiHop::load(&mut self.source(at, placed)?, settings)?)
            }
            Module::Dense(settings) => {
                LoadedModule::Dense(Dense::load(&mut self.source(at, placed)?, "linear", settings, kind)?)
            }
            Module::Normalize => LoadedModule::Normalize,
        })
    }

    fn source<'b>(&'b mut self, at: usize, placed: &'b Placed) -> Result<TensorSource<'b, 'a>, Error> {
        Ok(TensorSource {
            tensors: self.checkpoint.tensors(at)?,
            placed,
            loader: self,
        })
    }
}

/// Provides the tensors of one module.
struct TensorSource<'b, 'a> {
    tensors: ModuleTensors<'a>,
    placed: &'b Placed,
    loader: &'b mut Loader<'a>,
}

impl TensorSource<'_, '_> {
    /// The tie that a tensor of the module belongs to.
    fn tie(&self, tensor: &str) -> Option<usize> {
        let ties = self
            .loader
            .checkpoint
            .manifest
            .as_ref()
            .map(|manifest| manifest.shared_tensors.as_slice())?;
        let has = |tie: &SharedTensorRecord| tie.tensor == tensor && tie.modules.contains(&self.placed.id);
        ties.iter().position(has)
    }

    /// Whether a tensor is frozen in training.
    fn is_frozen(&self, tensor: &str) -> bool {
        let part = match &self.placed.module {
            Module::Transformer(config) if config.architecture.token_table() == tensor => TowerPart::TokenEmbedder,
            Module::Dense(_) => TowerPart::Projection,
            _ => TowerPart::Transformer,
        };
        let sharing = self
            .loader
            .checkpoint
            .manifest
            .as_ref()
            .and_then(|manifest| manifest.sharing);
        sharing.is_some_and(|sharing| sharing.tie(part) == Tie::Frozen)
    }

    /// Whether a tensor is part of a transformer, and not of a head in its file.
    fn is_of_transformer(&self, tensor: &str) -> bool {
        let Module::Transformer(config) = &self.placed.module else {
            return false;
        };
        !config.architecture.head().iter().any(|map| map.holds(tensor))
    }

    /// Copies a tensor to the device.
    fn read(&self, name: &str, shape: &[usize], kind: Kind) -> Result<Tensor, Error> {
        let stored = self.tensors.get(name)?;
        let path = || self.tensors.path.clone();
        if stored.shape() != shape {
            let (expected, got) = (format!("{shape:?}"), format!("{:?}", stored.shape()));
            return Err(Error::TensorShape {
                path: path(),
                tensor: name.to_owned(),
                expected,
                got,
            });
        }
        let unknown = || Error::TensorDtype {
            path: path(),
            tensor: name.to_owned(),
            got: stored.dtype().to_string(),
        };
        let tensor = to_torch(stored).ok_or_else(unknown)??;
        tensor
            .f_to_kind(kind)
            .and_then(|tensor| tensor.f_to_device(self.loader.compute.torch_device()))
            .map_err(torch("reading weights"))
    }
}

impl Parameters for TensorSource<'_, '_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        let tie = self.tie(name);
        if let Some(first) = tie.and_then(|tie| self.loader.tied.get(&tie)) {
            return Ok(first.shallow_clone());
        }
        let mut tensor = self.read(name, shape, self.loader.kind)?;
        if self.form().is_learned() {
            let adapted = self.loader.adapter_init.is_some() && self.is_of_transformer(name);
            let frozen = adapted || self.is_frozen(name);
            tensor = tensor.set_requires_grad(!frozen);
            let (name, tensor) = (format!("{}/{name}", self.placed.id), tensor.shallow_clone());
            self.loader.parameters.push(Parameter { name, tensor, frozen });
        }
        if let Some(tie) = tie {
            self.loader.tied.insert(tie, tensor.shallow_clone());
        }
        Ok(tensor)
    }

    fn low_rank(&mut self, name: &str, output: usize, input: usize) -> Result<Option<LowRankMap>, Error> {
        let Some(init) = self.loader.adapter_init else {
            return Ok(None);
        };
        if !self.is_of_transformer(name) || !init.settings.adapts(name) {
            return Ok(None);
        }
        let tie = self.tie(&format!("{name}.weight"));
        if let Some(known) = tie.and_then(|tie| self.loader.tied_adapters.get(&tie)) {
            return Ok(Some(known.clone()));
        }
        let module = format!("{}/{name}", self.placed.id);
        let map = init.map(
            &module,
            output,
            input,
            self.loader.kind,
            self.loader.compute.torch_device(),
        )?;
        let adapter = Adapter {
            weight: format!("{module}.weight"),
            map: map.clone(),
        };
        self.loader.parameters.extend(adapter.parameters());
        self.loader.adapters.push(adapter);
        if let Some(tie) = tie {
            self.loader.tied_adapters.insert(tie, map.clone());
        }
        Ok(Some(map))
    }

    fn constant(&mut self, name: &str, shape: &[usize], kind: Kind) -> Result<Tensor, Error> {
        self.read(name, shape, kind)
    }

    fn form(&self) -> WeightForm {
        self.loader.form
    }
}
