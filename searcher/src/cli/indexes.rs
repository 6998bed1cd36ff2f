//! `--index` and `--indexes`: the indexes to serve.

use std::path::{Path, PathBuf};

use clap::Args;
use dyad_command::UsageError;
use dyad_index::manifest;
use dyad_proto::validate;

use crate::run::IndexPath;

/// The indexes.
#[derive(Debug, Args)]
pub(super) struct Indexes {
    /// Directory of the index. Of several indexes, each with `--index NAME=DIR`, the first answers requests that name none; without a NAME, its
    /// folder's name is taken. Write `./` before a path that has a `=`.
    #[arg(long, value_name = "[NAME=]DIR", env = "DYAD_INDEX", required_unless_present = "indexes")]
    index: Vec<PathBuf>,
    /// Directory of indexes: each folder in it that is one now is served by the folder's name.
    #[arg(long, value_name = "DIR", env = "DYAD_INDEXES")]
    indexes: Option<PathBuf>,
}

impl Indexes {
    /// Names and directories.
    pub(super) fn paths(&self) -> anyhow::Result<Vec<IndexPath>> {
        let mut all = Vec::new();
        for argument in &self.index {
            all.push(IndexPath { is_default: all.is_empty(), ..named(argument)? });
        }
        if let Some(directory) = &self.indexes {
            let within = folders(directory)?;
            if within.is_empty() {
                let what = format!("--indexes: `{}` has no folder that is an index", directory.display());
                let fix = format!("Build one with `dyad-indexer build --index {}`", directory.join("NAME").display());
                anyhow::bail!("{what}. {fix}");
            }
            all.extend(within);
        }
        Ok(all)
    }
}

/// The index that an argument says: `NAME=DIR`, or a path alone.
fn named(argument: &Path) -> anyhow::Result<IndexPath> {
    let parts = argument.to_str().and_then(|text| text.split_once('='));
    let Some((name, path)) = parts.filter(|(name, _)| !name.contains('/')) else {
        return Ok(IndexPath::new(argument));
    };
    validate::index_name(name).map_err(|error| UsageError(format!("--index `{}`: {error}", argument.display())))?;
    Ok(IndexPath { name: name.to_owned(), path: PathBuf::from(path), is_default: false })
}

/// The folders of a directory that are indexes; others are logged and left out.
fn folders(directory: &Path) -> anyhow::Result<Vec<IndexPath>> {
    let mut all = Vec::new();
    for entry in fs_err::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // One whose `CURRENT` cannot be read is an index too, and says so when it is opened.
        if !path.is_dir() || matches!(manifest::current_generation(&path), Ok(None)) {
            tracing::info!("--indexes: `{}` is left out: it is no index", path.display());
        } else if let Err(error) = validate::index_name(&name) {
            tracing::warn!("--indexes: `{}` is left out: {error}", path.display());
        } else {
            all.push(IndexPath { name, path, is_default: false });
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_a_name_and_a_path_or_a_path() {
        let of = |argument: &str| named(Path::new(argument)).map(|index| (index.name, index.path));
        let is = |argument: &str, name: &str, path: &str| {
            assert_eq!(of(argument).unwrap(), (name.to_owned(), PathBuf::from(path)), "{argument}");
        };
        is("wiki=/data/w", "wiki", "/data/w");
        is("wiki=a=b", "wiki", "a=b");
        is("/data/wiki", "wiki", "/data/wiki");
        is("wiki/", "wiki", "wiki/");
        is("./a=b", "default", "./a=b");
        is("/data/k=v/wiki", "wiki", "/data/k=v/wiki");
        for path in [".", "..", "/", "/data/my index", "/data/.hidden"] {
            is(path, "default", path);
        }
        let error = of("my wiki=w").unwrap_err().to_string();
        assert!(error.contains("--index `my wiki=w`: expected the name of an index"), "{error}");
        assert!(of("=w").is_err());
    }
}
