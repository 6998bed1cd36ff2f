//! Tiny model directories, reference vectors, and the real model where there is one.

use std::path::{Path, PathBuf};

use dyad_encoder::tokenize::{Budget, Tokens};
use dyad_encoder::{Compute, Model, Tower};
use serde_json::Value;
use tempfile::TempDir;

/// One of the committed directories under `tests/golden/tiny`.
pub(crate) fn tiny(name: &str) -> PathBuf {
    golden().join("tiny").join(name)
}

pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A copy that a test may change.
pub(crate) fn copy(name: &str) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_folder(&tiny(name), copy.path());
    copy
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs_err::copy(entry.path(), target).unwrap();
        }
    }
}

pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

/// Changes one JSON file of a model directory.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = read_json(path);
    change(&mut value);
    fs_err::write(path, value.to_string()).unwrap();
}

/// Tests run side by side, so one thread each is fastest.
fn one_thread() -> Compute {
    Compute {
        threads: Some(1),
        ..Compute::default()
    }
}

pub(crate) fn open(directory: &Path) -> Model {
    Model::open(directory, &one_thread()).unwrap()
}

/// The message of a directory that must not open.
pub(crate) fn refusal(directory: &Path) -> String {
    Model::open(directory, &Compute::default()).unwrap_err().to_string()
}

pub(crate) fn tokens(encoder: &Model, tower: Tower, texts: &[String]) -> Vec<Tokens> {
    let tokenizer = encoder.tokenizer();
    texts
        .iter()
        .map(|text| tokenizer.encode(tower, text).unwrap())
        .collect()
}

/// One row per text.
pub(crate) fn embed(encoder: &Model, tower: Tower, texts: &[String]) -> Vec<Vec<f32>> {
    let tokens = tokens(encoder, tower, texts);
    rows(
        &encoder.embed_all(tower, &tokens, Budget::CPU).unwrap(),
        encoder.info().dim,
    )
}

pub(crate) fn rows(values: &[f32], dim: usize) -> Vec<Vec<f32>> {
    values.chunks_exact(dim).map(<[f32]>::to_vec).collect()
}

pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The smallest cosine between rows of the same place.
pub(crate) fn worst(a: &[Vec<f32>], b: &[Vec<f32>]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| cosine(a, b)).fold(f64::INFINITY, f64::min)
}

/// Rows of a two-dimensional `.npy` of f32 as numpy writes it.
pub(crate) fn npy(path: &Path) -> Vec<Vec<f32>> {
    let bytes = fs_err::read(path).unwrap();
    let header_length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..10 + header_length]).unwrap();
    assert!(
        header.contains("'<f4'") && header.contains("'fortran_order': False"),
        "{header}"
    );
    let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let (_, dim) = shape.split_once(", ").unwrap();
    let values: Vec<f32> = bytes[10 + header_length..]
        .as_chunks::<4>()
        .0
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .collect();
    rows(&values, dim.parse().unwrap())
}

/// The real model, if `DYAD_MODEL` names its directory; says so where it does not.
pub(crate) fn real_model(test: &str) -> Option<PathBuf> {
    path_of("DYAD_MODEL", test)
}

/// A path from the environment.
pub(crate) fn path_of(variable: &str, test: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        println!("{test}: skipped, {variable} is not set");
    }
    path
}
