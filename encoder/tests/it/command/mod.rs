//! The binary as people run it.
//!
//! | file | what |
//! |---|---|
//! | `embed.rs` | `embed` |
//! | `encode.rs` | `encode`, and failures of every command |
//! | `serve.rs` | `serve` |

use std::path::Path;
use std::process::{Command, Output, Stdio};

mod embed;
mod encode;
mod serve;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn signal(name: &str, process: u32) {
    assert!(
        Command::new("kill")
            .args([name, &process.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

fn corpus(root: &Path) -> String {
    let path = root.join("corpus.tsv");
    let lines: Vec<String> = (0..40)
        .map(|number| format!("k{number}\tthe river {number} of the king"))
        .collect();
    fs_err::write(&path, lines.join("\n")).unwrap();
    path.display().to_string()
}

fn embed_corpus(model: &Path, corpus: &str, out: &Path) -> Output {
    let (model, out) = (model.display().to_string(), out.display().to_string());
    let arguments = [
        "embed",
        "--model",
        &model,
        "--tower",
        "answer",
        "--corpus",
        corpus,
        "--out",
        &out,
        "--part-rows",
        "16",
    ];
    command(&arguments).output().unwrap()
}
