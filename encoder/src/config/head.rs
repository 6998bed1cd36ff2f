//! The head in a transformer's own file, which follows its pooling: DPR's projection, or the maps of a cross encoder
//! that score a pair of texts.

use super::TensorSpec;
use super::dense::DenseConfig;

/// A map of a head, by the name of its tensors, and the layer norm of what it has activated, where there is one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeadMapConfig {
    pub(crate) name: &'static str,
    pub(crate) map: DenseConfig,
    pub(crate) norm: Option<HeadNormConfig>,
}

/// The layer norm of what a map of a head gives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct HeadNormConfig {
    pub(crate) name: &'static str,
    pub(crate) epsilon: f64,
    pub(crate) bias: bool,
}

impl HeadMapConfig {
    /// A map without a norm.
    pub(super) fn new(name: &'static str, map: DenseConfig) -> Self {
        Self { name, map, norm: None }
    }

    /// Names and shapes of its tensors.
    pub(super) fn tensors(&self) -> Vec<TensorSpec> {
        let (name, outputs) = (self.name, self.map.out_features);
        let mut tensors = vec![(format!("{name}.weight"), vec![outputs, self.map.in_features])];
        if self.map.bias {
            tensors.push((format!("{name}.bias"), vec![outputs]));
        }
        if let Some(norm) = self.norm {
            tensors.push((format!("{}.weight", norm.name), vec![outputs]));
            if norm.bias {
                tensors.push((format!("{}.bias", norm.name), vec![outputs]));
            }
        }
        tensors
    }

    /// Whether a tensor of the transformer's file is its.
    pub(crate) fn holds(&self, tensor: &str) -> bool {
        let parts = [Some(self.name), self.norm.map(|norm| norm.name)];
        parts.into_iter().flatten().any(|name| {
            tensor
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}
