//! `--index`, `--indexes` and `--cache`: the indexes to serve.

use std::path::{Path, PathBuf};

use clap::Args;
use dyad_command::UsageError;
use dyad_files::space::ByteSize;
use dyad_index::manifest;
use dyad_proto::validate;
use dyad_store::{Cache, Mirror, RemoteStore, without_secrets};

use crate::error::Error;
use crate::leaves::HeldShards;
use crate::mirrors::MirroredIndex;
use crate::run::IndexPath;

/// The indexes.
#[derive(Debug, Args)]
pub(super) struct IndexOptions {
    /// Directory of the index, or its place in an object store: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`,
    /// `az://CONTAINER/PREFIX` or `file:///DIR`, where `dyad-indexer push` has put it. Of several indexes, each with
    /// `--index NAME=DIR`, the first answers requests that name none; without a NAME, its folder's name is taken. Write
    /// `./` before a path that has a `=`.
    #[arg(
        long,
        value_name = "[NAME=]DIR|URL",
        env = "DYAD_INDEX",
        required_unless_present = "indexes"
    )]
    index: Vec<PathBuf>,
    /// Directory of indexes: each folder in it that is one now is served by the folder's name.
    #[arg(long, value_name = "DIR", env = "DYAD_INDEXES")]
    indexes: Option<PathBuf>,
    /// Directory for copies of indexes in object stores, from which they are served; on a local disk. A restart fetches
    /// only what is missing there.
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Bytes that may be in `--cache`, such as `500GiB`: older generations that are not served are removed for a new
    /// one, and a new one that does not fit even then is not fetched [default: no limit].
    #[arg(long, value_name = "BYTES", requires = "cache")]
    cache_bytes: Option<ByteSize>,
}

/// Indexes to serve.
#[derive(Debug)]
pub(super) struct ServedChoice {
    /// Names and directories; of mirrored ones, those of their mirrors.
    pub(super) paths: Vec<IndexPath>,
    /// The indexes that are in stores.
    pub(super) mirrored: Vec<MirroredIndex>,
}

impl ServedChoice {
    /// Looks for the indexes, before models are loaded, which takes seconds. What is mirrored may not be there yet.
    pub(super) fn check(&self) -> Result<(), Error> {
        if !self.mirrored.is_empty() {
            return Ok(());
        }
        for index in &self.paths {
            let current = manifest::current(&index.path).map_err(Error::from);
            current.map_err(|error| self.error_of(index, error))?;
        }
        Ok(())
    }

    /// The error of one index, named where there are several.
    fn error_of(&self, index: &IndexPath, error: Error) -> Error {
        if self.paths.len() == 1 {
            return error;
        }
        Error::OfIndex {
            name: index.name.clone(),
            error: Box::new(error),
        }
    }
}

impl IndexOptions {
    /// What is to be served, of which these shards are mirrored.
    pub(super) fn choose(&self, held: &HeldShards) -> anyhow::Result<ServedChoice> {
        let (mut all, mut mirrored) = (Vec::new(), Vec::new());
        for argument in &self.index {
            let mut index = IndexPath {
                is_default: all.is_empty(),
                ..named(argument)?
            };
            if let Some(url) = index.path.to_str().filter(|path| is_url(path)) {
                let mirror = self.mirror(url)?;
                mirror.directory().clone_into(&mut index.path);
                mirrored.push(MirroredIndex {
                    name: index.name.clone(),
                    mirror,
                    held: held.clone(),
                });
            }
            all.push(index);
        }
        if let Some(directory) = &self.indexes {
            let within = folders(directory)?;
            if within.is_empty() {
                let what = format!("--indexes: `{}` has no folder that is an index", directory.display());
                let fix = format!(
                    "Build one with `dyad-indexer build --index {}`",
                    directory.join("NAME").display()
                );
                anyhow::bail!("{what}. {fix}");
            }
            all.extend(within);
        }
        Ok(ServedChoice { paths: all, mirrored })
    }

    /// The mirror of an index in a store.
    fn mirror(&self, url: &str) -> Result<Mirror, UsageError> {
        let remote = RemoteStore::open(url).map_err(|error| UsageError(format!("--index: {error}")))?;
        let Some(cache) = &self.cache else {
            let what = format!("--index `{}` is in an object store", remote.url());
            return Err(UsageError(format!(
                "{what}: expected `--cache DIR`, a directory for a copy of it, got none"
            )));
        };
        Ok(Cache::new(cache, self.cache_bytes.map(|ByteSize(bytes)| bytes)).mirror(remote))
    }
}

/// Whether a path is a URL: `SCHEME://`.
fn is_url(path: &str) -> bool {
    let scheme = path.split_once("://").map(|(scheme, _)| scheme);
    scheme.is_some_and(|scheme| !scheme.is_empty() && scheme.chars().all(|letter| letter.is_ascii_alphanumeric()))
}

/// The index that an argument says: `NAME=DIR`, or a path alone.
fn named(argument: &Path) -> anyhow::Result<IndexPath> {
    let refused = |error| {
        UsageError(format!(
            "--index `{}`: {error}",
            without_secrets(&argument.display().to_string())
        ))
    };
    let (name, path) = validate::named_path(argument).map_err(refused)?;
    let by_folder = IndexPath::new(path);
    Ok(IndexPath {
        name: name.map_or(by_folder.name, str::to_owned),
        ..by_folder
    })
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
            all.push(IndexPath {
                name,
                path,
                is_default: false,
            });
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
            assert_eq!(
                of(argument).unwrap(),
                (name.to_owned(), PathBuf::from(path)),
                "{argument}"
            );
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
        assert!(
            error.contains("--index `my wiki=w`: expected the name of an index"),
            "{error}"
        );
        assert!(of("=w").is_err());
        is("s3://bucket/wiki", "wiki", "s3://bucket/wiki");
        is("w=gs://bucket/a=b", "w", "gs://bucket/a=b");
        let error = of("my wiki=s3://key:secret@bucket/w").unwrap_err().to_string();
        assert!(error.contains("`my wiki=s3://bucket/w`"), "{error}");
    }

    #[test]
    fn a_url_is_mirrored_into_the_cache_and_a_path_is_not() {
        let choose = |index: &[&str], cache: Option<&str>| {
            let index = index.iter().map(PathBuf::from).collect();
            IndexOptions {
                index,
                indexes: None,
                cache: cache.map(PathBuf::from),
                cache_bytes: None,
            }
            .choose(&HeldShards::All)
        };
        let ServedChoice { paths, mirrored } =
            choose(&["./a://b", "w=file:///data/w", "file:///data/news/"], Some("cache")).unwrap();
        let names: Vec<&str> = paths.iter().map(|index| index.name.as_str()).collect();
        assert_eq!(names, ["b", "w", "news"]);
        assert!(paths[0].path == Path::new("./a://b") && paths[0].is_default);
        let of_mirrors: Vec<(&str, &str)> = mirrored
            .iter()
            .map(|index| (index.name.as_str(), index.mirror.remote().url()))
            .collect();
        assert_eq!(of_mirrors, [("w", "file:///data/w"), ("news", "file:///data/news")]);
        assert!(paths[1].path.starts_with("cache") && paths[1].path == mirrored[0].mirror.directory());
        for (index, cache, expected) in [
            (
                "file:///data/w",
                None,
                "--index `file:///data/w` is in an object store: expected `--cache DIR`",
            ),
            (
                "ftp://key:secret@host/w",
                Some("cache"),
                "--index: `ftp://host/w` is no place in an object store",
            ),
        ] {
            let error = choose(&[index], cache).unwrap_err();
            assert!(
                error.is::<UsageError>() && error.to_string().starts_with(expected),
                "{error}"
            );
        }
    }
}
