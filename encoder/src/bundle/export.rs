//! The same model with its weights stored in another number type.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tch::Kind;

use super::architecture::Architecture;
use super::golden::{least_cosine, seal};
use super::json::read_value;
use super::layout::{Layout, Module};
use super::load::Encoder;
use super::manifest::{MANIFEST, Manifest};
use super::partial::Partial;
use super::rewrite::rewrite;
use crate::device::{Compute, Dtype, OperatorThreads};
use crate::error::Error;

/// The end of the name of a file that tells in which file each tensor lies.
const INDEX_NAME: &str = ".safetensors.index.json";

/// Writes the model in `from` to `to`, which must not exist, with all weights in `dtype`: every file is kept where it lies,
/// safetensors files are rewritten, and `dyad.json` is written anew, with the ties of the old one where there is one.
///
/// The model must open first, so that a damaged bundle is not sealed again; and the vectors of the new one must be those of
/// the old within rounding. What begins with a dot (`.git`, `.cache`) is no part of a model and stays behind. T5 is refused
/// in f16, whose range its activations exceed.
pub fn export(from: &Path, to: &Path, dtype: Dtype) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::Exists { path: to.to_owned() });
    }
    if dtype == Dtype::Int8 {
        return Err(Error::Unsupported {
            path: to.to_owned(),
            what: "dtype of weights in a file",
            supported: "`f32`, `bf16` and `f16`; int8 is made at opening (`--dtype int8` of `embed` and `serve`)",
            got: dtype.to_string(),
        });
    }
    let layout = Layout::read(from)?;
    for placed in layout.modules.iter().filter(|placed| matches!(placed.module, Module::Transformer(_))) {
        let path = placed.folder.join("config.json");
        if Architecture::read(&path)?.refuses_f16() && dtype == Dtype::F16 {
            return Err(Error::Unsupported {
                path,
                what: "dtype",
                supported: "`f32` and `bf16` for T5, whose activations exceed the range of f16",
                got: dtype.to_string(),
            });
        }
    }
    let _kept = OperatorThreads::kept();
    let compute = Compute { threads: Some(1), ..Compute::default() };
    let expected = Encoder::open(from, &compute)?.golden()?;
    // Listed before anything is written, so that a target inside of the model is not copied into itself.
    let mut files = Vec::new();
    list(from, &mut files)?;

    let beside = Partial::beside(to)?;
    let partial = beside.path();
    for (file, is_folder) in &files {
        let target = partial.join(file.strip_prefix(from).unwrap_or(file));
        if *is_folder {
            fs_err::create_dir_all(target)?;
        } else {
            copy(file, &target, dtype.kind())?;
        }
    }
    for (folder, _) in files.iter().filter(|(_, is_folder)| *is_folder).chain([&(from.to_owned(), true)]) {
        recount(&partial.join(folder.strip_prefix(from).unwrap_or(folder)))?;
    }
    let old = Manifest::read(from)?;
    let (sharing, shared) = old.map_or((None, Vec::new()), |old| (old.sharing, old.shared_tensors));
    seal(partial, Manifest::new(sharing, shared))?;
    let given = Manifest::read(partial)?.map(|manifest| manifest.golden).unwrap_or_default();
    for (expected, given) in expected.iter().zip(&given) {
        let (cosine, least) = (expected.cosine(&given.vector), least_cosine(dtype));
        // Also where it is no number.
        let near = cosine >= least;
        if !near {
            let (tower, text) = (given.tower.clone(), given.text.clone());
            let reason = format!("cosine {cosine:.6} after rounding to {dtype}, expected at least {least}");
            return Err(Error::Golden { model: partial.display().to_string(), tower, text, reason });
        }
    }
    beside.finish()
}

/// Files and folders below one, folders before what they hold.
fn list(folder: &Path, found: &mut Vec<(PathBuf, bool)>) -> Result<(), Error> {
    let mut entries = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        entries.push(entry?);
    }
    entries.sort_by_key(fs_err::DirEntry::file_name);
    for entry in entries.iter().filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')) {
        let path = entry.path();
        if !path.is_dir() {
            found.push((path, false));
        } else if entry.file_type()?.is_symlink() {
            // It may lead back to where it lies.
            let supported = "files, folders, and links to files";
            return Err(Error::Unsupported { got: path.display().to_string(), path, what: "link", supported });
        } else {
            found.push((path.clone(), true));
            list(&path, found)?;
        }
    }
    Ok(())
}

fn copy(file: &Path, target: &Path, kind: Kind) -> Result<(), Error> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if name == MANIFEST {
        return Ok(());
    }
    if file.extension().is_some_and(|extension| extension == "safetensors") {
        rewrite(file, target, kind)?;
        return Ok(());
    }
    if name == "config.json"
        && let Some(config) = with_type(file, kind)?
    {
        return Ok(fs_err::write(target, format!("{config:#}\n"))?);
    }
    // Bytes only: a model in a cache may be read-only, and the new one should not be.
    std::io::copy(&mut fs_err::File::open(file)?, &mut fs_err::File::create(target)?)?;
    Ok(())
}

/// `config.json` with the number type of the weights, where it says one: transformers loads them in it.
pub(crate) fn with_type(file: &Path, kind: Kind) -> Result<Option<Value>, Error> {
    let name = match kind {
        Kind::Half => "float16",
        Kind::BFloat16 => "bfloat16",
        _ => "float32",
    };
    let Some(mut config) = read_value(file)? else { return Ok(None) };
    let mut named = false;
    for field in ["torch_dtype", "dtype"] {
        if let Some(value) = config.get_mut(field).filter(|value| value.is_string()) {
            *value = json!(name);
            named = true;
        }
    }
    Ok(named.then_some(config))
}

/// Corrects the size that the index of split weights tells.
pub(super) fn recount(folder: &Path) -> Result<(), Error> {
    let (mut indexes, mut bytes) = (Vec::new(), std::collections::HashMap::new());
    for entry in fs_err::read_dir(folder)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned()))?;
        if name.ends_with(INDEX_NAME) {
            indexes.push(path);
        } else if name.ends_with(".safetensors") {
            let (metadata, _) = super::weights::header(&path, &mut fs_err::File::open(&path)?)?;
            bytes.insert(name, metadata.data_len() as u64);
        }
    }
    for path in indexes {
        let Some(mut index) = read_value(&path)? else { continue };
        let files: std::collections::BTreeSet<&str> = index
            .get("weight_map")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(_, file)| file.as_str())
            .collect();
        let total: u64 = files.iter().filter_map(|file| bytes.get(*file)).sum();
        if let Some(size) = index.get_mut("metadata").and_then(|metadata| metadata.get_mut("total_size")) {
            *size = json!(total);
            fs_err::write(&path, format!("{index:#}\n"))?;
        }
    }
    Ok(())
}
