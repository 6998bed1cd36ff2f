//! The example of training in `encoder/README.md`, as it is.

use std::path::Path;
use std::process::Command;

use dyad_encoder::train::Config;

use crate::fixture::tiny;

/// The settings that it shows.
fn example() -> String {
    let readme = fs_err::read_to_string(root().join("encoder/README.md")).unwrap();
    let block = readme
        .split("```toml\n")
        .find(|block| block.starts_with("# train.toml"))
        .unwrap();
    block.split("```").next().unwrap().to_owned()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

#[test]
fn what_it_reads_lies_in_the_repository() {
    let config = Config::parse(&example()).unwrap();
    let evaluation = config.evaluation.data.unwrap();
    for folder in config.stages[0].data.paths.iter().chain([&evaluation]) {
        assert!(
            root().join(folder).join("corpus.jsonl").is_file(),
            "{}",
            folder.display()
        );
    }
    assert!(
        root()
            .join(evaluation)
            .join(format!("qrels/{}.tsv", config.evaluation.split))
            .is_file()
    );
    let quickstart = fs_err::read_to_string(root().join("deploy/quickstart.sh")).unwrap();
    let model = config.model.path.strip_prefix(".models").unwrap().display().to_string();
    assert!(
        quickstart.contains(&format!("{{MODEL:-{model}}}")),
        "the model that the quickstart leaves"
    );
}

/// With a tiny model in the place of the real one, and for one step.
#[test]
fn it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("train.toml");
    let settings = example().replace(".models/all-MiniLM-L6-v2", &tiny("classic-mean").display().to_string());
    fs_err::write(&file, format!("threads = 1\n{settings}[training]\nsteps = 1\n")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-encoder"));
    command
        .arg("train")
        .arg("--config")
        .arg(&file)
        .arg("--out")
        .arg(folder.path().join("run"))
        .current_dir(root());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        said.contains("trained 1 steps") && said.contains("(before training 0."),
        "{said}"
    );
}
