//! One module's tensors on their way into the network: from its file, or from another module that it shares them with.

use std::collections::HashMap;
use std::path::PathBuf;

use tch::Tensor;

use super::fingerprint::TensorRecord;
use super::layout::Layout;
use super::manifest::{MANIFEST, Manifest, SharedTensor};
use super::weights::WeightsFile;
use crate::dual::Parameter;
use crate::error::Error;
use crate::tower::Parameters;

/// The tensors that several modules share, and those of them that have been read.
pub(super) struct Ties {
    path: PathBuf,
    groups: Vec<SharedTensor>,
    /// By group: the tensor and its digest, and how many modules have taken it.
    read: HashMap<usize, (Tensor, String, usize)>,
}

impl Ties {
    pub(super) fn new(layout: &Layout, manifest: Option<&Manifest>) -> Self {
        let groups = manifest.map(|manifest| manifest.shared_tensors.clone()).unwrap_or_default();
        Self { path: layout.root.join(MANIFEST), groups, read: HashMap::new() }
    }

    fn group(&self, module: &str, tensor: &str) -> Option<usize> {
        let has = |group: &SharedTensor| group.tensor == tensor && group.modules.iter().any(|known| known == module);
        self.groups.iter().position(has)
    }

    /// Refuses ties that name what is not there.
    pub(super) fn check(&self) -> Result<(), Error> {
        for (at, group) in self.groups.iter().enumerate() {
            let found = self.read.get(&at).map_or(0, |(_, _, taken)| *taken);
            if found != group.modules.len() {
                return Err(Error::Field {
                    path: self.path.clone(),
                    field: "shared_tensors",
                    expected: format!("tensor `{}` in each of the modules {:?}", group.tensor, group.modules),
                    got: format!("{found} of them"),
                });
            }
        }
        Ok(())
    }
}

/// Hands out one module's tensors.
pub(super) struct Source<'a> {
    file: WeightsFile,
    module: &'a str,
    ties: &'a mut Ties,
    /// Where tensors are noted that are to be learned.
    learned: Option<&'a mut Vec<Parameter>>,
    mixed: bool,
    frozen_table: Option<&'static str>,
    others_frozen: bool,
    table: &'static str,
}

impl<'a> Source<'a> {
    pub(super) fn new(
        file: WeightsFile,
        module: &'a str,
        ties: &'a mut Ties,
        learned: Option<&'a mut Vec<Parameter>>,
    ) -> Self {
        Self { file, module, ties, learned, mixed: false, frozen_table: None, others_frozen: false, table: "" }
    }

    /// Products of what is learned are in bfloat16.
    pub(super) fn mix(mut self, mixed: bool) -> Self {
        self.mixed = mixed;
        self
    }

    /// What training leaves as it is: the table of token vectors, and all tensors but `table`.
    pub(super) fn freeze(&mut self, frozen_table: Option<&'static str>, others: bool, table: &'static str) {
        (self.frozen_table, self.others_frozen, self.table) = (frozen_table, others, table);
    }

    pub(super) fn finish(self, ignore: impl Fn(&str) -> bool) -> Result<Vec<TensorRecord>, Error> {
        self.file.finish(ignore)
    }
}

impl Parameters for Source<'_> {
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor, Error> {
        let tensor = self.file.take(name, shape)?;
        let group = self.ties.group(self.module, name);
        let digest = self.file.last_digest().unwrap_or_default().to_owned();
        if let Some(group) = group {
            if let Some((first, known, taken)) = self.ties.read.get_mut(&group) {
                if *known != digest {
                    let modules = self.ties.groups.get(group).map(|group| group.modules.clone()).unwrap_or_default();
                    let path = self.ties.path.clone();
                    return Err(Error::TiedTensors { path, tensor: name.to_owned(), modules });
                }
                *taken += 1;
                return Ok(first.shallow_clone());
            }
            self.ties.read.insert(group, (tensor.shallow_clone(), digest, 1));
        }
        if let Some(learned) = &mut self.learned {
            let frozen = self.frozen_table == Some(name) || (self.others_frozen && name != self.table);
            let name = format!("{}/{name}", self.module);
            learned.push(Parameter { name, tensor: tensor.set_requires_grad(!frozen), frozen });
        }
        Ok(tensor)
    }

    fn mixed(&self) -> bool {
        self.mixed
    }

    fn trainable(&self) -> bool {
        self.learned.is_some()
    }

    fn int8(&self) -> bool {
        self.file.int8()
    }
}
