//! A checkpoint, from a directory; nothing but settings and headers is read.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::manifest::{CheckpointManifest, MANIFEST};
use super::safetensors::WeightFile;
use super::tensor::TensorData;
use crate::config::{JsonFile, Layout, Module, Placed, PromptOptions, SETTINGS, read_value};
use crate::error::Error;

/// The weights of a module.
pub(crate) const WEIGHTS: &str = "model.safetensors";
/// Index of split weights: the file of each tensor.
const INDEX: &str = "model.safetensors.index.json";

/// The content of a file of the directory.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// The content of this file.
    Copy(PathBuf),
    Json(Value),
    Weights(WeightFile),
}

/// A model: a value, from which others are made ([`crate::transform`]), which is opened ([`crate::model`]) or written.
#[derive(Debug, Clone)]
pub(crate) struct Checkpoint {
    pub(crate) layout: Layout,
    /// Every file but `dyad.json`, by its path below the model's directory.
    pub(crate) files: BTreeMap<PathBuf, Content>,
    /// The files of each module's weights, by its place; none where it has no tensors.
    pub(crate) weights: Vec<Vec<PathBuf>>,
    /// `dyad.json`, where there is one.
    pub(crate) manifest: Option<CheckpointManifest>,
}

impl Checkpoint {
    /// Reads a model's directory: the files that a model is opened from. Weights in another form (`pytorch_model.bin`,
    /// ONNX) and other files are not part of it.
    pub(crate) fn read(root: &Path) -> Result<Self, Error> {
        let mut checkpoint = Self::read_settings(root)?;
        for placed in checkpoint.layout.modules.clone() {
            let mut files = Vec::new();
            for name in weight_files(&placed)? {
                let path = Path::new(&placed.id).join(name);
                let file = WeightFile::open(&root.join(&path))?;
                checkpoint.files.insert(path.clone(), Content::Weights(file));
                files.push(path);
            }
            checkpoint.weights.push(files);
        }
        Ok(checkpoint)
    }

    /// Without weights, none of which need to be there.
    pub(crate) fn read_settings(root: &Path) -> Result<Self, Error> {
        let (layout, manifest) = (Layout::read(root)?, CheckpointManifest::read(root)?);
        let mut files = BTreeMap::new();
        for folder in model_folders(&layout) {
            let inside = root.join(&folder);
            if !inside.is_dir() {
                continue;
            }
            for entry in fs_err::read_dir(&inside)? {
                let (path, name) =
                    entry.map(|entry| (entry.path(), entry.file_name().to_string_lossy().into_owned()))?;
                if is_settings_file(&name) && path.is_file() {
                    files.insert(folder.join(name), Content::Copy(path));
                }
            }
        }
        Ok(Self {
            layout,
            files,
            weights: Vec::new(),
            manifest,
        })
    }

    /// With every other file below the directory, weights among them; what begins with a dot (`.git`, `.cache`) is no
    /// part of a model.
    pub(crate) fn with_all_files(mut self) -> Result<Self, Error> {
        let root = self.layout.root.clone();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs_err::read_dir(&folder)? {
                let entry = entry?;
                let path = entry.path();
                let inside = path.strip_prefix(&root).unwrap_or(&path).to_owned();
                let name = entry.file_name().to_string_lossy().into_owned();
                if name.starts_with('.') || name == MANIFEST || self.files.contains_key(&inside) {
                    continue;
                }
                if !path.is_dir() {
                    let weights = path.extension().is_some_and(|extension| extension == "safetensors");
                    let content = if weights {
                        Content::Weights(WeightFile::open(&path)?)
                    } else {
                        Content::Copy(path)
                    };
                    self.files.insert(inside, content);
                } else if entry.file_type()?.is_symlink() {
                    // A link may lead back to its own folder.
                    let supported = "files, folders, and links to files";
                    return Err(Error::Unsupported {
                        got: path.display().to_string(),
                        path,
                        what: "link",
                        supported,
                    });
                } else {
                    folders.push(path);
                }
            }
        }
        Ok(self)
    }

    /// With other prompts in `config_sentence_transformers.json`: those of the towers are `query` and `document` there,
    /// and prompts of other names stay.
    pub(crate) fn with_prompts(mut self, options: &PromptOptions) -> Result<Self, Error> {
        let root = &self.layout.root;
        if self.layout.scores() || !root.join("modules.json").is_file() {
            return Err(Error::Unsupported {
                path: root.clone(),
                what: "prompt of this model",
                supported: "those of a model that embeds single texts and has a `modules.json` (`SentenceTransformer(NAME).save_pretrained(DIR)` writes one)",
                got: "one that is asked for".into(),
            });
        }
        let prompts = self.layout.prompts_by(options)?;
        let path = Path::new(SETTINGS);
        let known = self
            .files
            .get(path)
            .map(Content::json)
            .transpose()?
            .flatten()
            .unwrap_or_else(|| json!({}));
        let mut fields = JsonFile::new(root.join(path), known)?.into_fields();
        fields.insert("prompts".to_owned(), prompts.to_json());
        fields.insert("default_prompt_name".to_owned(), Value::Null);
        self.files.insert(path.to_owned(), Content::Json(Value::Object(fields)));
        self.layout.prompts = prompts;
        Ok(self)
    }

    /// The tensors of a module, by the names that it gives them.
    pub(crate) fn tensors(&self, at: usize) -> Result<ModuleTensors<'_>, Error> {
        let (Some(placed), Some(files)) = (self.layout.modules.get(at), self.weights.get(at)) else {
            return Err(Error::MissingFile {
                path: self.layout.root.join(WEIGHTS),
                fix: REFETCH,
            });
        };
        let mut found = ModuleTensors {
            path: PathBuf::new(),
            tensors: BTreeMap::new(),
        };
        for path in files {
            let Some(Content::Weights(file)) = self.files.get(path) else {
                continue;
            };
            found.path = if files.len() == 1 {
                file.path.clone()
            } else {
                file.path.with_file_name(INDEX)
            };
            for (stored, tensor) in &file.tensors {
                let name = placed.module.tensor_name(stored);
                // A table under both of its names is one table.
                if let Some(known) = found.tensors.get(&name)
                    && (known.dtype() != tensor.dtype()
                        || known.shape() != tensor.shape()
                        || known.bytes()? != tensor.bytes()?)
                {
                    let reason = format!("it holds tensor `{stored}` under two names, and they differ");
                    return Err(Error::Weights {
                        path: file.path.clone(),
                        reason,
                    });
                }
                found.tensors.insert(name, tensor);
            }
        }
        Ok(found)
    }
}

/// The tensors of one module.
#[derive(Debug)]
pub(crate) struct ModuleTensors<'a> {
    /// The file of the tensors, or the index of several files.
    pub(crate) path: PathBuf,
    pub(crate) tensors: BTreeMap<String, &'a TensorData>,
}

impl<'a> ModuleTensors<'a> {
    pub(crate) fn get(&self, name: &str) -> Result<&'a TensorData, Error> {
        let missing = || Error::MissingTensor {
            path: self.path.clone(),
            tensor: name.to_owned(),
        };
        self.tensors.get(name).copied().ok_or_else(missing)
    }
}

const REFETCH: &str = "Fetch the model again, for example with `deploy/model.sh NAME DIR`";

/// The model's own folder, those of its modules, and the folders in between, by their paths below the model's.
fn model_folders(layout: &Layout) -> BTreeSet<PathBuf> {
    let of = |placed: &Placed| -> Vec<PathBuf> { Path::new(&placed.id).ancestors().map(Path::to_owned).collect() };
    layout.modules.iter().flat_map(of).chain([PathBuf::new()]).collect()
}

/// Whether a file of this name is one of the settings and word lists that a model is opened from.
pub(crate) fn is_settings_file(name: &str) -> bool {
    let kinds = [".json", ".txt", ".model"];
    kinds.iter().any(|kind| name.ends_with(kind)) && !name.starts_with('.') && name != MANIFEST
}

/// The names of the files of a module's weights: `model.safetensors`, or those that `model.safetensors.index.json`
/// names.
fn weight_files(placed: &Placed) -> Result<Vec<String>, Error> {
    if matches!(placed.module, Module::Pooling(_) | Module::Normalize) {
        return Ok(Vec::new());
    }
    if let Module::Transformer(config) = &placed.module
        && let Some(table) = config.static_table()
    {
        return Ok(vec![table.weights_file.clone()]);
    }
    let (path, index) = (placed.folder.join(WEIGHTS), placed.folder.join(INDEX));
    if path.is_file() {
        return Ok(vec![WEIGHTS.to_owned()]);
    }
    if index.is_file() {
        return indexed_files(&index);
    }
    let fix = if placed.folder.join("pytorch_model.bin").is_file() {
        "Only `pytorch_model.bin` is there: load the model in Python and save it with `safe_serialization=True`"
    } else {
        REFETCH
    };
    Err(Error::MissingFile { path, fix })
}

/// The files that an index names, each once, none outside of the folder.
fn indexed_files(index: &Path) -> Result<Vec<String>, Error> {
    let settings = JsonFile::required(index)?;
    let wrong = || settings.wrong("weight_map", "an object from tensors to files of the same folder");
    let map = settings
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(wrong)?;
    let plain = |name: &str| Path::new(name).file_name().is_some_and(|file| file == name);
    let names: Result<BTreeSet<String>, Error> = map
        .values()
        .map(|file| {
            file.as_str()
                .filter(|name| plain(name))
                .map(ToOwned::to_owned)
                .ok_or_else(wrong)
        })
        .collect();
    Ok(names?.into_iter().collect())
}

impl Content {
    /// A JSON file's value; nothing for other files.
    pub(crate) fn json(&self) -> Result<Option<Value>, Error> {
        match self {
            Self::Json(value) => Ok(Some(value.clone())),
            Self::Copy(path) if path.extension().is_some_and(|extension| extension == "json") => read_value(path),
            Self::Copy(_) | Self::Weights(_) => Ok(None),
        }
    }
}
