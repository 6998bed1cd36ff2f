//! What a tower of a new bundle is made from: a tower of the pretrained model.

use std::path::Path;

use crate::bundle::{Activation, DenseConfig, Layout, Module, Placed, moved, stored};
use crate::error::Error;

/// One tower of the pretrained model.
#[derive(Debug, Clone)]
pub(super) struct Origin<'a> {
    pub(super) transformer: &'a Placed,
    /// Whether the transformer is DPR's form of BERT.
    pub(super) is_dpr: bool,
    /// Values of a token vector.
    pub(super) hidden: usize,
    /// From token vectors to one vector: a pooling, or multi-hop attention.
    pub(super) aggregator: Module,
    /// Where the aggregator's values lie, unless they are drawn anew.
    pub(super) kept: Option<&'a Path>,
    /// Values of the projection in the transformer's own file, which follows the aggregator.
    pub(super) own_projection: Option<usize>,
}

impl<'a> Origin<'a> {
    /// Of the question tower and of the answer tower.
    pub(super) fn of(layout: &'a Layout) -> Result<[Self; 2], Error> {
        let [question, answer] = layout.routes.each_ref().map(|route| Self::tower(layout, route));
        Ok([question?, answer?])
    }

    fn tower(layout: &'a Layout, route: &[usize]) -> Result<Self, Error> {
        let module = |at: usize| route.get(at).and_then(|&at| layout.modules.get(at));
        let (Some(transformer), Some(pooling)) = (module(0), module(1)) else {
            let fix = "A tower needs a transformer and a pooling";
            return Err(Error::MissingFile { path: layout.root.join("config.json"), fix });
        };
        Ok(Self {
            transformer,
            is_dpr: moved::is_dpr(&transformer.folder)?,
            hidden: stored::hidden_size(&transformer.folder)?,
            aggregator: pooling.module.clone(),
            kept: Some(&pooling.folder),
            own_projection: stored::projection(&transformer.folder)?,
        })
    }

    /// Takes another aggregator, for the token vectors that there are. The own projection was made for the old one.
    pub(super) fn replace_aggregator(&mut self, mut aggregator: Module) {
        if let Module::MultiHop(config) = &mut aggregator {
            config.in_features = self.hidden;
        }
        (self.aggregator, self.kept, self.own_projection) = (aggregator, None, None);
    }

    /// Values that the aggregator gives.
    pub(super) fn pooled(&self) -> usize {
        let vectors = match &self.aggregator {
            Module::MultiHop(config) => config.hops,
            Module::Pooling(config) => config.modes.len(),
            _ => 1,
        };
        self.hidden * vectors
    }

    /// Settings of the projection: the tower's own, or a new one.
    pub(super) fn dense(&self, dim: usize, own: bool) -> DenseConfig {
        if own {
            let (in_features, out_features) = (self.pooled(), dim);
            return DenseConfig { in_features, out_features, bias: true, activation: Activation::Identity };
        }
        DenseConfig::projection(self.pooled(), dim)
    }
}
