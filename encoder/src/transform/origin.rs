//! The pretrained tower that a tower of a new model is made from.

use super::dpr;
use crate::checkpoint::{Checkpoint, ModuleTensors};
use crate::config::{Activation, DenseConfig, Module, Placed, PoolingConfig, Tower, TransformerConfig};
use crate::error::Error;

/// One tower of the pretrained model.
#[derive(Debug)]
pub(super) struct TowerOrigin<'a> {
    checkpoint: &'a Checkpoint,
    /// The transformer's place among the modules.
    at: usize,
    pub(super) placed: &'a Placed,
    pub(super) config: &'a TransformerConfig,
    /// From token vectors to one vector: a pooling, or multi-hop attention.
    pub(super) aggregator: Module,
    /// The place of the aggregator's values, unless they are new.
    kept: Option<usize>,
    /// Values of the projection in the transformer's own file, which follows the aggregator.
    pub(super) own_projection: Option<usize>,
}

impl<'a> TowerOrigin<'a> {
    /// A tower of `checkpoint`, with another aggregator where one is given, whose values are new and for token vectors
    /// of any size. The own projection was made for the old one.
    pub(super) fn new(checkpoint: &'a Checkpoint, tower: Tower, aggregator: Option<&Module>) -> Result<Self, Error> {
        let layout = &checkpoint.layout;
        let (at, placed, config) = layout.transformer(tower)?;
        let second = layout.routes[tower.index()]
            .get(1)
            .and_then(|&at| Some((at, layout.modules.get(at)?)));
        let Some((pooling, known)) = second else {
            let fix = "A tower needs a transformer and a pooling";
            return Err(Error::MissingFile {
                path: layout.root.join("config.json"),
                fix,
            });
        };
        let mean = Module::Pooling(PoolingConfig::mean());
        if config.static_table().is_some()
            && let Some(other) = aggregator.filter(|other| **other != mean)
        {
            return Err(Error::Unsupported {
                path: placed.folder.clone(),
                what: "another pooling of a static model",
                supported: "the mean",
                got: other.class().to_owned(),
            });
        }
        let (mut aggregator, kept, own_projection) = match aggregator {
            Some(other) => (other.clone(), None, None),
            None => (known.module.clone(), Some(pooling), config.architecture.projection()),
        };
        if let (Module::MultiHop(settings), None) = (&mut aggregator, kept) {
            settings.in_features = config.architecture.hidden_size();
        }
        Ok(Self {
            checkpoint,
            at,
            placed,
            config,
            aggregator,
            kept,
            own_projection,
        })
    }

    /// The tensors of its transformer.
    pub(super) fn tensors(&self) -> Result<ModuleTensors<'a>, Error> {
        self.checkpoint.tensors(self.at)
    }

    /// The tensors of its aggregator; `None`: they are new.
    pub(super) fn aggregator_tensors(&self) -> Result<Option<ModuleTensors<'a>>, Error> {
        self.kept.map(|at| self.checkpoint.tensors(at)).transpose()
    }

    /// Whether the transformer is kept in a new model without changes.
    pub(super) fn is_plain(&self) -> bool {
        !dpr::is_dpr(self.config)
    }

    /// Whether it is a table of token vectors, of which the mean is a part.
    pub(super) fn is_static(&self) -> bool {
        self.config.static_table().is_some()
    }

    /// Values that the aggregator gives.
    pub(super) fn pooled(&self) -> usize {
        let vectors = match &self.aggregator {
            Module::MultiHop(config) => config.hops,
            Module::Pooling(config) => config.modes.len(),
            _ => 1,
        };
        self.config.architecture.hidden_size() * vectors
    }

    /// Settings of the projection: the tower's own, or a new one.
    pub(super) fn dense(&self, dim: usize, own: bool) -> DenseConfig {
        if own {
            let (in_features, out_features) = (self.pooled(), dim);
            return DenseConfig {
                in_features,
                out_features,
                bias: true,
                activation: Activation::Identity,
            };
        }
        DenseConfig::projection(self.pooled(), dim)
    }
}
