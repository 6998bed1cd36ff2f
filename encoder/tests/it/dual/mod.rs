//! Dual encoders of every sharing.
//!
//! | file | what |
//! |---|---|
//! | `sharings.rs` | which tensors are one, which learn, which stay equal |
//! | `damaged.rs` | ties that do not hold, and the gate of golden vectors |
//! | `readers.rs` | models as sentence-transformers and `inspect` read them |

use std::path::{Path, PathBuf};

use dyad_encoder::Compute;
use dyad_encoder::model::{Model, create};
use dyad_encoder::transform::Creation;

use crate::fixture::tiny;

mod damaged;
mod readers;
mod sharings;

const DIM: usize = 6;
const VARIANTS: [&str; 5] = ["sde", "ade", "ade-ste", "ade-fte", "ade-spl"];

/// Not one of the five: one transformer, two projections.
const FREE: &str = "token=shared,transformer=shared,projection=separate";
const TABLE: &str = "embeddings.word_embeddings.weight";

fn made(sharing: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("model");
    create(
        &tiny("classic-mean"),
        &to,
        &Creation {
            sharing: sharing.parse().unwrap(),
            dim: DIM,
            seed: 1,
        },
    )
    .unwrap();
    (folder, to)
}

fn learned(model_dir: &Path) -> Model {
    Model::open_for_training(
        model_dir,
        &Compute {
            threads: Some(1),
            ..Compute::default()
        },
    )
    .unwrap()
}

/// Values of the table, of the other tensors of a transformer, and of a projection.
fn sizes() -> [usize; 3] {
    let (_folder, model_dir) = made("ade");
    let mut sizes = [0; 3];
    for parameter in learned(&model_dir)
        .parameters()
        .iter()
        .filter(|parameter| parameter.name.starts_with("query"))
    {
        let part = match parameter.name.split_once('/').unwrap() {
            (_, TABLE) => 0,
            (module, _) if module.ends_with("Transformer") => 1,
            _ => 2,
        };
        sizes[part] += parameter.tensor.numel();
    }
    assert!(sizes.iter().all(|size| *size > 0));
    sizes
}
