//! Files around a run: those that a workload names, those that engines are given, and scratch files.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{BenchError, BenchResult};

/// Begins the name of a run's scratch folder; its process id follows.
pub(crate) const SCRATCH: &str = "scratch-";

/// Reads a TOML file and checks what it says; what is wrong comes back with the file's name.
pub(crate) fn read_toml<T: DeserializeOwned>(
    path: &Path,
    check: impl FnOnce(&mut T) -> std::result::Result<(), String>,
) -> BenchResult<T> {
    let text = fs_err::read_to_string(path)?;
    let mut read: T = toml::from_str(&text).map_err(|error| BenchError::file(path, error))?;
    check(&mut read).map_err(|problem| BenchError::file(path, problem))?;
    Ok(read)
}

/// Refuses names that are no names of files, that are there twice, or none at all; `field` is where they stand.
pub(crate) fn plain_names<'a>(field: &str, names: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let mut seen = Vec::new();
    for name in names {
        if name.is_empty() || !name.chars().all(allowed) {
            return Err(format!(
                "`{field}`: expected letters, digits, `-`, `_` or `.`, got `{name}`"
            ));
        }
        if seen.contains(&name) {
            return Err(format!("`{field}`: expected each name once, got `{name}` twice"));
        }
        seen.push(name);
    }
    if seen.is_empty() {
        Err(format!("`{field}`: expected at least one, got none"))
    } else {
        Ok(())
    }
}

/// The first place where the path is; all places in words where it is not.
pub(crate) fn find(path: &Path, beside: &Path, other: Option<&Path>) -> Result<PathBuf, String> {
    let tried: Vec<PathBuf> = std::iter::once(beside).chain(other).map(|dir| dir.join(path)).collect();
    if let Some(found) = tried.iter().find(|path| path.exists()) {
        return Ok(found.clone());
    }
    let tried: Vec<String> = tried.iter().map(|path| format!("`{}`", path.display())).collect();
    Err(tried.join(" or "))
}

/// A workload's file, and where else its data may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkloadFile<'a> {
    path: &'a Path,
    data_dir: Option<&'a Path>,
}

impl<'a> WorkloadFile<'a> {
    /// A file whose data lie next to it, or else in `data_dir`.
    pub(crate) fn new(path: &'a Path, data_dir: Option<&'a Path>) -> Self {
        Self { path, data_dir }
    }

    /// The folder of the file.
    pub(crate) fn folder(&self) -> &'a Path {
        self.path.parent().unwrap_or(Path::new(""))
    }

    /// Makes the relative path of a file of data that of the file; an error names the field of the workload.
    pub(crate) fn locate(&self, field: &str, data: &mut PathBuf) -> BenchResult<()> {
        *data = find(data, self.folder(), self.data_dir).map_err(|tried| {
            let other = "DYAD_DATA (or --data) may name another folder to look in";
            let hint = if self.data_dir.is_none() {
                format!(". {other}")
            } else {
                String::new()
            };
            BenchError::file(self.path, format!("`{field}`: no such file: {tried}{hint}"))
        })?;
        Ok(())
    }
}

/// Refuses counts of 0; each has the name of its field.
pub(crate) fn require_some(counts: &[(&str, usize)]) -> Result<(), String> {
    match counts.iter().find(|(_, count)| *count == 0) {
        Some((field, _)) => Err(format!("`{field}`: expected at least 1, got 0")),
        None => Ok(()),
    }
}

/// `count` of the items at like distances, in order; all where there are fewer.
pub(crate) fn evenly<T>(items: Vec<T>, count: usize) -> Vec<T> {
    let all = items.len();
    if all <= count {
        return items;
    }
    let mut wanted = (0..count).map(|at| at * all / count).peekable();
    let chosen = |(at, item): (usize, T)| wanted.next_if_eq(&at).map(|_| item);
    items.into_iter().enumerate().filter_map(chosen).collect()
}

/// Writes one JSON value per line.
pub(crate) fn write_lines<T: Serialize>(path: &Path, items: &[T]) -> BenchResult<()> {
    let mut out = std::io::BufWriter::new(fs_err::File::create(path)?);
    for item in items {
        serde_json::to_writer(&mut out, item).map_err(std::io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

/// Reads what [`write_lines`] wrote.
pub(crate) fn read_lines<T: DeserializeOwned>(path: &Path) -> anyhow::Result<Vec<T>> {
    Ok(fs_err::read_to_string(path)?
        .lines()
        .map(serde_json::from_str)
        .collect::<serde_json::Result<_>>()?)
}

/// Does something with a folder of this process under `cache`, which is removed afterwards, whether that succeeded or
/// not.
pub(crate) fn in_scratch<T>(cache: &Path, work: impl FnOnce(&Path) -> BenchResult<T>) -> BenchResult<T> {
    let scratch = cache.join(format!("{SCRATCH}{}", std::process::id()));
    fs_err::create_dir_all(&scratch)?;
    let scratch = fs_err::canonicalize(scratch)?;
    let done = work(&scratch);
    fs_err::remove_dir_all(&scratch)?;
    done
}

/// All files under a folder.
pub(crate) fn files_under(dir: &Path) -> BenchResult<Vec<PathBuf>> {
    let (mut files, mut pending) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(dir) = pending.pop() {
        for entry in fs_err::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                pending.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}
