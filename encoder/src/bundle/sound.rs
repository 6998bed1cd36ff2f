//! Whether a model is fit to be the source of another one, and whether a bundle of ours is whole.

use std::path::Path;

use super::architecture::Architecture;
use super::layout::{Layout, Module};
use super::load::Encoder;
use super::manifest::{MANIFEST, Manifest};
use super::parts::Opened;
use super::weights::WeightsFile;
use crate::device::{Compute, OperatorThreads};
use crate::error::Error;

/// Reads what a model says of itself, once its configurations and tokenizers can be used; no weights are read.
pub(crate) fn configured(root: &Path) -> Result<Layout, Error> {
    let layout = Layout::read(root)?;
    for (at, placed) in layout.modules.iter().enumerate() {
        if let Module::Transformer(_) = placed.module {
            Opened::open(at, placed, 0, &Compute::default())?;
        }
    }
    Ok(layout)
}

/// Reads what a model says of itself, once it has opened (so its fingerprint, ties and golden vectors hold where it has
/// some), no weight of it is NaN or infinite, and both towers have embedded all golden texts.
pub(crate) fn sound(root: &Path) -> Result<Layout, Error> {
    let _kept = OperatorThreads::kept();
    let compute = Compute { threads: Some(1), ..Compute::default() };
    let layout = Layout::read(root)?;
    for placed in &layout.modules {
        match placed.module {
            Module::Transformer(_) => {
                let architecture = Architecture::read(&placed.folder.join("config.json"))?;
                let weights = WeightsFile::open(&placed.folder, compute, |name| architecture.tensor_name(name))?;
                weights.finite(|name| !Architecture::is_unused(name))?;
            }
            Module::MultiHop(_) | Module::Dense(_) => {
                WeightsFile::open(&placed.folder, compute, str::to_owned)?.finite(|_| true)?;
            }
            Module::Pooling(_) | Module::Normalize => {}
        }
    }
    Encoder::open(root, &compute)?.golden()?;
    Ok(layout)
}

/// Whether a bundle of ours has its `dyad.json`, which is written last.
pub(crate) fn is_sealed(root: &Path) -> Result<bool, Error> {
    Ok(Manifest::read(root)?.is_some())
}

/// Refuses a bundle of ours that is torn or was changed: without `dyad.json`, or not what that says.
pub(crate) fn whole(root: &Path) -> Result<(), Error> {
    let _kept = OperatorThreads::kept();
    if !is_sealed(root)? {
        return Err(Error::MissingFile {
            path: root.join(MANIFEST),
            fix: "It is written last: the bundle is not whole",
        });
    }
    Encoder::open(root, &Compute { threads: Some(1), ..Compute::default() }).map(drop)
}
