//! A readable description of a model: modules, towers, shared tensors, memory.

use crate::checkpoint::{CheckpointManifest, ModuleRecords, SharedTensorRecord};
use crate::config::{Layout, Sharing};

/// A module and its size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleContents {
    /// The folder of the module, below the model's; empty for the model's own.
    pub id: String,
    /// `Transformer`, `StaticEmbedding`, `Pooling`, `MultiHopAttention`, `Dense` or `Normalize`.
    pub class: &'static str,
    /// Which towers run it.
    pub towers: Vec<&'static str>,
    /// Tensors that it reads.
    pub tensors: usize,
    /// Their values, those included that it shares with another module.
    pub parameters: u64,
}

/// Modules, ties and counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Each once.
    pub modules: Vec<ModuleContents>,
    /// The sharing of the towers, where the model states it.
    pub sharing: Option<Sharing>,
    /// Tensors inside several modules that are one: name, and the modules.
    pub shared_tensors: Vec<(String, Vec<String>)>,
    /// Values of all tensors, each counted once.
    pub parameters: u64,
}

impl Contents {
    pub(super) fn new(layout: &Layout, manifest: Option<&CheckpointManifest>, records: &[ModuleRecords]) -> Self {
        let ties = manifest
            .map(|manifest| manifest.shared_tensors.as_slice())
            .unwrap_or_default();
        let mut counted_twice = 0;
        let modules = layout.modules.iter().enumerate().map(|(at, placed)| {
            let records = records
                .iter()
                .find(|(place, _)| *place == at)
                .map(|(_, records)| records.as_slice());
            let records = records.unwrap_or_default();
            let values = |shape: &[usize]| shape.iter().map(|&length| length as u64).product::<u64>();
            for record in records {
                // The first module of a tie counts.
                let again = |tie: &SharedTensorRecord| {
                    tie.tensor == record.name && tie.modules.iter().skip(1).any(|module| *module == placed.id)
                };
                counted_twice += if ties.iter().any(again) {
                    values(&record.shape)
                } else {
                    0
                };
            }
            let runs = |route: &Vec<usize>| route.contains(&at);
            let towers = layout.routes.iter().zip(["question", "answer"]);
            ModuleContents {
                id: placed.id.clone(),
                class: placed.module.class(),
                towers: towers
                    .filter(|(route, _)| runs(route))
                    .map(|(_, tower)| tower)
                    .collect(),
                tensors: records.len(),
                parameters: records.iter().map(|record| values(&record.shape)).sum(),
            }
        });
        let modules: Vec<ModuleContents> = modules.collect();
        let parameters = modules.iter().map(|module| module.parameters).sum::<u64>() - counted_twice;
        Self {
            modules,
            sharing: manifest.and_then(|manifest| manifest.sharing),
            shared_tensors: ties
                .iter()
                .map(|tie| (tie.tensor.clone(), tie.modules.clone()))
                .collect(),
            parameters,
        }
    }
}
