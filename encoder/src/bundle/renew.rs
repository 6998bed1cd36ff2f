//! A model once more with other values of its tensors: what training writes.
//!
//! Only files that a model is opened from are taken along: settings, word lists, and the weights of its modules. Weights in
//! another form (`pytorch_model.bin`, ONNX) would be those from before training, and stay behind.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tch::{Kind, Tensor};

use super::architecture::Architecture;
use super::export::{recount, with_type};
use super::golden::seal;
use super::layout::{Layout, Module, Placed};
use super::manifest::{MANIFEST, Manifest, SharedTensor};
use super::partial::Partial;
use super::rewrite::rewrite_with;
use super::weights::{INDEX, WEIGHTS, shards};
use crate::error::Error;

/// Ends of the names of settings and word lists.
const SETTINGS: [&str; 3] = [".json", ".txt", ".model"];

/// Writes the model in `from` to the place of `beside`, with `values` (by module and tensor, as [`crate::dual::Parameter`]
/// names them) in the place of its own, weights in f32, and `dyad.json` with its ties and new golden vectors. Each of `values`
/// must have its place in the model.
pub(crate) fn renew(from: &Path, beside: Partial, values: &BTreeMap<String, Tensor>) -> Result<(), Error> {
    let (layout, manifest) = (Layout::read(from)?, Manifest::read(from)?);
    let (sharing, shared) = manifest.map_or((None, Vec::new()), |old| (old.sharing, old.shared_tensors));
    let target = |path: &Path| beside.path().join(path.strip_prefix(from).unwrap_or(path));
    for folder in folders(from, &layout) {
        fs_err::create_dir_all(target(&folder))?;
        for entry in fs_err::read_dir(&folder)? {
            let (path, name) = entry.map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned()))?;
            let setting = SETTINGS.iter().any(|end| name.ends_with(end)) && !name.starts_with('.') && name != MANIFEST;
            if !setting || !path.is_file() {
                continue;
            }
            match if name == "config.json" { with_type(&path, Kind::Float)? } else { None } {
                Some(config) => fs_err::write(target(&path), format!("{config:#}\n"))?,
                // Bytes only: a model in a cache may be read-only, and the new one should not be.
                None => fs_err::write(target(&path), fs_err::read(&path)?)?,
            }
        }
    }
    let mut renewal = Renewal { values, shared: &shared, used: BTreeSet::new() };
    for placed in &layout.modules {
        for path in files(placed)? {
            renewal.rewrite(placed, &path, &target(&path))?;
        }
        if target(&placed.folder).join(INDEX).is_file() {
            recount(&target(&placed.folder))?;
        }
    }
    if let Some(lost) = values.keys().find(|name| !renewal.used.contains(*name)) {
        return Err(Error::MissingTensor { path: from.to_owned(), tensor: lost.clone() });
    }
    seal(beside.path(), Manifest::new(sharing, shared))?;
    beside.finish()
}

/// The model's own folder, those of its modules, and what lies between.
fn folders(root: &Path, layout: &Layout) -> BTreeSet<PathBuf> {
    let mut folders = BTreeSet::from([root.to_owned()]);
    for placed in &layout.modules {
        let inside = placed.folder.ancestors().take_while(|folder| *folder != root && folder.starts_with(root));
        folders.extend(inside.map(Path::to_owned).filter(|folder| folder.is_dir()));
    }
    folders
}

/// The files of a module's weights; none where it has no tensors.
fn files(placed: &Placed) -> Result<Vec<PathBuf>, Error> {
    let (whole, index) = (placed.folder.join(WEIGHTS), placed.folder.join(INDEX));
    Ok(match placed.module {
        Module::Pooling(_) | Module::Normalize => Vec::new(),
        _ if whole.is_file() => vec![whole],
        _ => shards(&index)?.into_iter().map(|shard| placed.folder.join(shard)).collect(),
    })
}

struct Renewal<'a> {
    values: &'a BTreeMap<String, Tensor>,
    shared: &'a [SharedTensor],
    /// Names of values that have found their place.
    used: BTreeSet<String>,
}

impl Renewal<'_> {
    fn rewrite(&mut self, placed: &Placed, from: &Path, to: &Path) -> Result<(), Error> {
        let architecture = match placed.module {
            Module::Transformer(_) => Some(Architecture::read(&placed.folder.join("config.json"))?),
            _ => None,
        };
        let given = |stored: &str| {
            let name = architecture.as_ref().map_or_else(|| stored.to_owned(), |known| known.tensor_name(stored));
            self.value(&placed.id, &name)
        };
        rewrite_with(from, to, Kind::Float, given).map(|_| ())
    }

    /// The value of a module's tensor: its own, or that of a module which it shares the tensor with.
    fn value(&mut self, module: &str, tensor: &str) -> Option<Tensor> {
        let has = |group: &&SharedTensor| group.tensor == tensor && group.modules.iter().any(|known| known == module);
        let others = self.shared.iter().find(has).map(|group| group.modules.as_slice()).unwrap_or_default();
        let modules = std::iter::once(module).chain(others.iter().map(String::as_str));
        let mut names = modules.map(|module| format!("{module}/{tensor}"));
        let name = names.find(|name| self.values.contains_key(name))?;
        let value = self.values.get(&name).map(Tensor::shallow_clone);
        self.used.insert(name);
        value
    }
}
