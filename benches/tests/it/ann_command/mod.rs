//! `dyad-bench ann`, `synth` and `churn` as commands, with our own engines on tiny data.
//!
//! | file | contents |
//! |---|---|
//! | `measured.rs` | runs that measure |
//! | `refused.rs` | runs that end by a mistake or a signal |

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dyad_bench::dataset::Neighbours;
use serde_json::Value;

mod measured;
mod refused;

pub(crate) fn bench(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-bench"));
    command
        .args(arguments)
        .current_dir(directory)
        .env_remove("DYAD_DATA")
        .env("NO_COLOR", "1")
        .output()
        .unwrap()
}

fn workload(directory: &Path, name: &str, n: usize) -> PathBuf {
    let path = directory.join(format!("{name}.toml"));
    let text = format!(
        "name = \"{name}\"\nmetric = \"ip\"\nm = 8\nef_construction = 40\nrepeats = 2\nthreaded_repeats = 1\nthreads = 2\nleast_ms = 0\n\
         engines = [\"dyad\", \"hnsw_rs\"]\ntargets = [0.9, 0.95]\n\
         [data.synthetic]\nkind = \"clustered\"\nn = {n}\ndim = 48\nqueries = 40\nclusters = 10\nintrinsic = 16\n\
         [sweep]\ndyad = [1, 10, 12, 16, 24, 48, 96]\n"
    );
    fs_err::write(&path, text).unwrap();
    path
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

/// Sizes and a row of values as files of vectors hold them.
fn bytes<T: Copy>(sizes: &[u32], row: &[T], value: fn(T) -> [u8; 4]) -> Vec<u8> {
    sizes
        .iter()
        .map(|size| size.to_le_bytes())
        .chain(row.iter().copied().map(value))
        .flatten()
        .collect()
}

fn write_ivecs(path: &Path, truth: &Neighbours) {
    let rows = truth
        .rows()
        .map(|row| bytes(&[row.len() as u32], row, u32::to_le_bytes));
    fs_err::write(path, rows.collect::<Vec<_>>().concat()).unwrap();
}
