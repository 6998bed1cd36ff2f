//! Workloads: read from TOML and checked. Those of named shapes share their reading, their checks and their choice of shapes.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::error::{Error, Result};
use super::named::{find, find_data, plain_name};

/// Reads a TOML file and checks what it says; what is wrong comes back with the file's name.
pub fn read_toml<T: DeserializeOwned>(
    path: &Path,
    check: impl FnOnce(&mut T) -> std::result::Result<(), String>,
) -> Result<T> {
    let text = fs_err::read_to_string(path)?;
    let fail = |problem: String| Error::Workload { path: path.to_owned(), problem };
    let mut read: T = toml::from_str(&text).map_err(|error| fail(error.to_string()))?;
    check(&mut read).map_err(fail)?;
    Ok(read)
}

/// One shape of a workload: inputs that are handed to every engine.
pub trait NamedShape {
    /// The key under which its files stand.
    const FILES: &'static str;
    /// Name in records.
    fn name(&self) -> &str;
    /// Its files.
    fn files(&mut self) -> impl Iterator<Item = &mut PathBuf>;
    /// What is wrong with it, its name apart.
    fn check(&self) -> std::result::Result<(), String>;
}

/// What all workloads of shapes have.
#[derive(Debug)]
pub struct Parts<'a, S> {
    /// Name in records.
    pub name: &'a str,
    /// Directory of the model.
    pub model: &'a mut PathBuf,
    /// Timed passes.
    pub repeats: &'a mut usize,
    /// Threads of every engine; 0: as many as the machine has.
    pub threads: usize,
    /// Engines measured where the command names none.
    pub engines: &'a [String],
    /// The shapes.
    pub shapes: &'a mut Vec<S>,
}

/// A workload of named shapes for engines that open a model.
pub trait Shaped: DeserializeOwned {
    /// One shape.
    type Shape: NamedShape;
    /// Engines that this binary holds.
    const OWN: &'static [&'static str];
    /// Its command that serves one of them.
    const WORKER: &'static str;

    /// What it has in common with others.
    fn parts(&mut self) -> Parts<'_, Self::Shape>;

    /// What is wrong with the keys that only this kind of workload has.
    fn check(&self) -> std::result::Result<(), String> {
        Ok(())
    }

    /// Whether an engine lives in this binary.
    fn is_ours(engine: &str) -> bool {
        Self::OWN.contains(&engine)
    }

    /// Reads and checks a workload. Relative paths of a shape are looked for beside the file, then under `data_dir`; a relative
    /// model directory beside the file, then where the command was given. `model` stands in for the workload's.
    fn read(path: &Path, data_dir: Option<&Path>, model: Option<&Path>) -> Result<Self> {
        let fail = |problem: String| Error::Workload { path: path.to_owned(), problem };
        let mut workload: Self = read_toml(path, check_all)?;
        let beside = path.parent().unwrap_or(Path::new(""));
        let Parts { model: own_model, shapes, .. } = workload.parts();
        for shape in shapes {
            let field = format!("shape.{}.{}", shape.name(), Self::Shape::FILES);
            for file in shape.files() {
                *file = find_data(&field, file, beside, data_dir).map_err(fail)?;
            }
        }
        let (model, beside) = model.map_or((own_model.as_path(), beside), |model| (model, Path::new("")));
        *own_model = find(model, beside, Some(Path::new(""))).map_err(|problem| {
            fail(format!("`model`: no such directory: {problem}. `deploy/model.sh NAME DIR` fetches one"))
        })?;
        Ok(workload)
    }

    /// Keeps only the named shapes, in the workload's order.
    fn keep_shapes(&mut self, names: &[String]) -> std::result::Result<(), String> {
        let Parts { shapes, .. } = self.parts();
        if let Some(unknown) = names.iter().find(|name| shapes.iter().all(|shape| shape.name() != name.as_str())) {
            let known: Vec<&str> = shapes.iter().map(NamedShape::name).collect();
            return Err(format!("expected shapes of the workload ({}), got `{unknown}`", known.join(", ")));
        }
        if !names.is_empty() {
            shapes.retain(|shape| names.iter().any(|name| name == shape.name()));
        }
        Ok(())
    }
}

fn check_all<W: Shaped>(workload: &mut W) -> std::result::Result<(), String> {
    let Parts { name, repeats, shapes, .. } = workload.parts();
    plain_name("name", name)?;
    if *repeats == 0 {
        return Err("`repeats`: expected at least 1, got 0".to_owned());
    }
    if shapes.is_empty() {
        return Err("`shape`: expected at least one, got none".to_owned());
    }
    workload.check()?;
    let Parts { shapes, .. } = workload.parts();
    for (at, shape) in shapes.iter().enumerate() {
        let name = shape.name();
        plain_name("shape.name", name)?;
        if shapes.iter().take(at).any(|other| other.name() == name) {
            return Err(format!("`shape.name`: expected a name for each shape, got `{name}` twice"));
        }
        shape.check()?;
    }
    Ok(())
}
