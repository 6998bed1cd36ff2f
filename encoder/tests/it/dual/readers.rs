//! Models as sentence-transformers and `inspect` read them.

use std::path::Path;
use std::process::Command;

use dyad_encoder::model::create;
use dyad_encoder::transform::Creation;

use super::{DIM, made, sizes};
use crate::fixture::path_of;

/// What we write is what sentence-transformers reads: `encode_query` and `encode_document` give our golden vectors.
#[test]
fn sentence_transformers_reads_our_models() {
    let test = "sentence_transformers_reads_our_models";
    let (Some(python), Some(checkpoints)) = (path_of("DYAD_PYTHON", test), path_of("DYAD_ST_CHECKPOINTS", test)) else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/peers/st_load.py");
    let folder = tempfile::tempdir().unwrap();
    let made = [
        ("bert", "sde", DIM),
        ("t5-gated", "ade", DIM),
        ("distilbert", "ade-spl", DIM),
        ("t5-relu", "ade-ste", DIM),
        ("dpr", "ade-ste", DIM),
        ("dpr-projected", "ade", 10),
        ("dpr-projected", "ade-spl", 10),
    ];
    let model_dirs = made.map(|(from, sharing, dim)| {
        let model_dir = folder.path().join(format!("{from}-{sharing}"));
        create(
            &checkpoints.join(from),
            &model_dir,
            &Creation {
                sharing: sharing.parse().unwrap(),
                dim,
                seed: 3,
            },
        )
        .unwrap();
        model_dir
    });
    // One process for all: Python takes long to read its modules.
    let output = Command::new(&python)
        .arg(&script)
        .args(&model_dirs)
        .env("HF_HUB_OFFLINE", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let results: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), model_dirs.len(), "{text}");
    for (model_dir, result) in model_dirs.iter().zip(&results) {
        assert_eq!(
            (result["model"].as_str(), &result["vectors"]),
            (model_dir.to_str(), &12.into()),
            "{result}"
        );
        assert!(result["smallest_cosine"].as_f64().unwrap() >= 0.999_99, "{result}");
    }
}

#[test]
fn inspect_prints_modules_ties_and_sizes() {
    let (_folder, model_dir) = made("ade-ste");
    let run = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
        let output = command.arg("inspect").arg(&model_dir).args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&[]);
    for part in [
        "sharing ade-ste",
        "query_2_Dense",
        "is one tensor in query_0_Transformer, document_0_Transformer",
        "golden vectors reproduced",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let value: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let [table, others, projection] = sizes();
    let parameters = (table + 2 * (others + projection)) as u64;
    assert_eq!(
        (value["parameters"].as_u64(), value["bytes"]["bf16"].as_u64()),
        (Some(parameters), Some(2 * parameters))
    );
    assert_eq!(value["modules"].as_array().unwrap().len(), 7);
}
