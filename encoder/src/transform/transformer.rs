//! The transformer of a new tower: its tensors, its `config.json`, and the files that belong to it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::dpr;
use super::origin::TowerOrigin;
use crate::checkpoint::{Checkpoint, Content, TensorData, is_settings_file};
use crate::error::Error;

/// The tensors of a transformer by the architecture's names, with the token table of the one in `table`, which must be
/// of the same sizes.
pub(super) fn transformer_tensors(
    table: &TowerOrigin<'_>,
    others: &TowerOrigin<'_>,
) -> Result<Vec<(String, TensorData)>, Error> {
    let (architecture, other) = (&others.config.architecture, &table.config.architecture);
    if architecture != other {
        return Err(Error::Unsupported {
            path: table.placed.folder.join("config.json"),
            what: "a tensor that two towers share",
            supported: "towers of one architecture and the same sizes",
            got: format!(
                "another `config.json` than `{}`",
                others.placed.folder.join("config.json").display()
            ),
        });
    }
    let (weights, tables) = (others.tensors()?, table.tensors()?);
    let names = architecture
        .tensors()
        .map(|(name, _)| name)
        .filter(|name| !name.starts_with(dpr::PROJECTION));
    let mut tensors = Vec::new();
    for name in names {
        let source = if name == architecture.token_table() {
            &tables
        } else {
            &weights
        };
        let tensor = source.get(&name)?.clone();
        tensors.push((name, tensor));
    }
    Ok(tensors)
}

/// The `config.json` of a transformer as the new model has it.
pub(super) fn config_json(from: &Checkpoint, origin: &TowerOrigin<'_>) -> Result<Value, Error> {
    let content = from.files.get(&Path::new(&origin.placed.id).join("config.json"));
    let json = content.map(Content::json).transpose()?.flatten().unwrap_or_default();
    Ok(dpr::bert_json(origin.config.tokenizer.named(json)))
}

/// The files of a folder that are part of its transformer, and not of the model that may lie in the same folder.
pub(super) fn transformer_files<'a>(
    from: &'a Checkpoint,
    folder: &'a Path,
) -> impl Iterator<Item = (&'a PathBuf, &'a Content)> {
    from.files
        .iter()
        .filter(move |(path, _)| path.parent() == Some(folder) && is_transformer_file(path))
}

fn is_transformer_file(path: &Path) -> bool {
    let of_model = [
        "modules.json",
        "router_config.json",
        "config_sentence_transformers.json",
    ];
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    (is_settings_file(&name) || name.ends_with(".safetensors"))
        && !of_model.contains(&&*name)
        && !name.starts_with("sentence_")
}
