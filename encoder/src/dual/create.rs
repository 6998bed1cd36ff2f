//! A new bundle of two towers from one pretrained encoder: both towers start from the same tensors, the projection is random.

use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use super::sharing::{Sharing, Tie};
use crate::bundle::{DenseConfig, Layout, Manifest, Module, Placed, PoolingConfig, SharedTensor, seal, stored};
use crate::device::Compute;
use crate::error::Error;

/// A sample is drawn anew beyond so many standard deviations.
const CUT: f64 = 2.0;
/// Standard deviation of a standard normal that is cut there.
const CUT_DEVIATION: f64 = 0.879_625_661_034_239_8;
const CLASSIC: &str = "sentence_transformers.models.";

/// What to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Creation {
    /// What the towers have in common.
    pub sharing: Sharing,
    /// Values per vector.
    pub dim: usize,
    /// Of the projection's random values; equal projections of two towers have seeds of their own.
    pub seed: u64,
}

/// Writes a bundle to `to`, which must not exist: the transformer and the pooling of `from`, one projection or two without
/// bias and drawn by variance scaling (scale 1.0, fan in, truncated normal: Dong et al. 2022, section 4.1), and unit length.
///
/// In the classic layout of sentence-transformers, with a `Router` unless the towers are one.
pub fn create(from: &Path, to: &Path, creation: &Creation) -> Result<(), Error> {
    if to.exists() {
        return Err(Error::Exists { path: to.to_owned() });
    }
    let layout = Layout::read(from)?;
    let route = layout.routes.first().cloned().unwrap_or_default();
    let module = |at: usize| route.get(at).and_then(|&at| layout.modules.get(at));
    let (Some(transformer), Some(Placed { module: Module::Pooling(pooling), .. })) = (module(0), module(1)) else {
        return Err(Error::MissingFile {
            path: from.join("config.json"),
            fix: "A tower needs a transformer and a pooling",
        });
    };
    // Beside its place, so that a rename brings all of it or nothing.
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = to.with_file_name(name);
    if partial.exists() {
        fs_err::remove_dir_all(&partial)?;
    }
    fs_err::create_dir_all(&partial)?;
    let writer = Writer { root: &partial, transformer, pooling, creation };
    let manifest = writer.write()?;
    write(
        &partial.join("config_sentence_transformers.json"),
        &json!({
            "__version__": {"sentence_transformers": "5.0.0", "transformers": "4.50.0", "pytorch": "2.7.0"},
            "prompts": {"query": layout.prompts.question, "document": layout.prompts.answer},
            "default_prompt_name": null,
            "similarity_fn_name": "cosine",
        }),
    )?;
    seal(&partial, manifest, &Compute { threads: Some(1), ..Compute::default() })?;
    Ok(fs_err::rename(&partial, to)?)
}

struct Writer<'a> {
    root: &'a Path,
    transformer: &'a Placed,
    pooling: &'a PoolingConfig,
    creation: &'a Creation,
}

impl Writer<'_> {
    fn write(&self) -> Result<Manifest, Error> {
        let sharing = self.creation.sharing;
        if sharing.has_one_transformer() && sharing.projection == Tie::Shared {
            self.transformer(self.root)?;
            self.modules(&["Transformer", "Pooling", "Dense", "Normalize"])?;
            self.pooling(&self.root.join("1_Pooling"))?;
            self.dense(&self.root.join("2_Dense"), 0)?;
            return Ok(Manifest::new(Some(sharing), Vec::new()));
        }
        let towers = ["query", "document"];
        let ids = |shared: bool, at: usize, class: &str| {
            towers.map(|tower| format!("{}_{at}_{class}", if shared { "shared" } else { tower }))
        };
        let transformers = ids(sharing.has_one_transformer(), 0, "Transformer");
        let poolings = ids(sharing.has_one_transformer(), 1, "Pooling");
        let projections = ids(sharing.projection == Tie::Shared, 2, "Dense");
        for id in each(&transformers) {
            self.transformer(&self.root.join(id))?;
        }
        for id in each(&poolings) {
            self.pooling(&self.root.join(id))?;
        }
        for (number, id) in each(&projections).into_iter().enumerate() {
            self.dense(&self.root.join(id), number as u64)?;
        }
        let class = |id: &String| format!("{CLASSIC}{}", id.rsplit('_').next().unwrap_or_default());
        let all = transformers.iter().chain(&poolings).chain(&projections);
        let types: serde_json::Map<String, Value> = all.map(|id| (id.clone(), json!(class(id)))).collect();
        let structure: serde_json::Map<String, Value> = towers
            .iter()
            .enumerate()
            .map(|(at, tower)| ((*tower).to_owned(), json!([transformers[at], poolings[at], projections[at]])))
            .collect();
        let parameters = json!({"default_route": "document", "allow_empty_key": true});
        let router = json!({"types": types, "structure": structure, "parameters": parameters});
        write(&self.root.join("router_config.json"), &router)?;
        self.modules(&["Router", "Normalize"])?;
        let shared = if sharing.has_one_transformer() { Vec::new() } else { self.shared(&transformers)? };
        Ok(Manifest::new(Some(sharing), shared))
    }

    /// The tensors that two transformers have in common.
    fn shared(&self, modules: &[String; 2]) -> Result<Vec<SharedTensor>, Error> {
        let sharing = self.creation.sharing;
        let (table, others) = stored::tensors_used(&self.transformer.folder)?;
        let mut tensors = Vec::new();
        if sharing.token == Tie::Shared {
            tensors.push(table);
        }
        if sharing.transformer == Tie::Shared {
            tensors.extend(others);
        }
        Ok(tensors.into_iter().map(|tensor| SharedTensor { tensor, modules: modules.to_vec() }).collect())
    }

    /// Copies weights, `config.json` and tokenizer.
    fn transformer(&self, folder: &Path) -> Result<(), Error> {
        fs_err::create_dir_all(folder)?;
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in fs_err::read_dir(&self.transformer.folder)? {
            files.push(entry?.path());
        }
        for file in files.iter().filter(|file| file.is_file()) {
            if let Some(name) = file.file_name().and_then(|name| name.to_str()).filter(|name| belongs(name)) {
                fs_err::copy(file, folder.join(name))?;
            }
        }
        if let Module::Transformer(settings) = &self.transformer.module {
            let settings = json!({"max_seq_length": settings.max_tokens, "do_lower_case": settings.lower_case});
            write(&folder.join("sentence_bert_config.json"), &settings)?;
        }
        Ok(())
    }

    fn pooling(&self, folder: &Path) -> Result<(), Error> {
        write(&folder.join("config.json"), &self.pooling.classic(stored::hidden_size(&self.transformer.folder)?))
    }

    fn dense(&self, folder: &Path, number: u64) -> Result<(), Error> {
        let input = stored::hidden_size(&self.transformer.folder)? * self.pooling.modes.len();
        let output = self.creation.dim;
        write(&folder.join("config.json"), &DenseConfig::projection(input, output).classic())?;
        let mut random = Random(self.creation.seed.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let deviation = (1.0 / input as f64).sqrt() / CUT_DEVIATION;
        let values: Vec<u8> =
            (0..input * output).flat_map(|_| ((random.cut_normal() * deviation) as f32).to_le_bytes()).collect();
        let path = folder.join("model.safetensors");
        let failed =
            |error: safetensors::SafeTensorError| Error::Weights { path: path.clone(), reason: error.to_string() };
        let view = TensorView::new(Dtype::F32, vec![output, input], &values).map_err(failed)?;
        let bytes = safetensors::serialize([("linear.weight", view)], None).map_err(failed)?;
        Ok(fs_err::write(&path, bytes)?)
    }

    fn modules(&self, classes: &[&str]) -> Result<(), Error> {
        let entries: Vec<Value> = classes
            .iter()
            .enumerate()
            .map(|(at, class)| {
                let path = if at == 0 { String::new() } else { format!("{at}_{class}") };
                json!({"idx": at, "name": at.to_string(), "path": path, "type": format!("{CLASSIC}{class}")})
            })
            .collect();
        for (at, class) in classes.iter().enumerate().skip(1) {
            fs_err::create_dir_all(self.root.join(format!("{at}_{class}")))?;
        }
        write(&self.root.join("modules.json"), &Value::Array(entries))
    }
}

/// Both, or the one that they are.
fn each(ids: &[String; 2]) -> Vec<&String> {
    if ids[0] == ids[1] { vec![&ids[0]] } else { ids.iter().collect() }
}

/// Whether a file is part of a transformer: what lies beside it in a model's own folder is written anew.
fn belongs(name: &str) -> bool {
    let others = ["modules.json", "router_config.json", "config_sentence_transformers.json", "dyad.json"];
    let kinds = [".json", ".safetensors", ".txt", ".model"];
    kinds.iter().any(|kind| name.ends_with(kind)) && !others.contains(&name) && !name.starts_with("sentence_")
}

fn write(path: &Path, value: &Value) -> Result<(), Error> {
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    Ok(fs_err::write(path, format!("{value:#}\n"))?)
}

/// splitmix64 (Steele, Lea and Flood 2014): the same values everywhere.
struct Random(u64);

impl Random {
    /// In (0, 1].
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// A standard normal (Box and Muller 1958) within [`CUT`].
    fn cut_normal(&mut self) -> f64 {
        loop {
            let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), std::f64::consts::TAU * self.uniform());
            let value = radius * angle.cos();
            if value.abs() <= CUT {
                return value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projections_are_drawn_with_the_variance_that_was_asked_for() {
        let mut random = Random(7);
        let values: Vec<f64> = (0..200_000).map(|_| random.cut_normal()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let deviation = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt();
        assert!(mean.abs() < 0.01 && (deviation - CUT_DEVIATION).abs() < 0.005, "{mean} {deviation}");
        assert!(values.iter().all(|value| value.abs() <= CUT));
    }
}
