//! The binary: output, exit codes, Ctrl-C.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Output, Stdio};

use crate::fixture::{Fixture, document};

pub(crate) fn dyad_indexer() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-indexer"));
    command.env_remove("RUST_LOG");
    command
}

pub(crate) fn build(fixture: &Fixture, more: &[&str]) -> Output {
    dyad_indexer()
        .arg("build")
        .arg("--corpus")
        .arg(fixture.path("corpus.jsonl"))
        .arg("--index")
        .arg(fixture.index())
        .arg("--embeddings")
        .arg(fixture.path("embeddings"))
        .args(more)
        .output()
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_version_has_a_revision() {
    let printed = text(&dyad_indexer().arg("--version").output().unwrap().stdout);
    let released = concat!("dyad-indexer ", env!("CARGO_PKG_VERSION"), " (");
    assert!(printed.starts_with(released) && printed.ends_with(")\n"), "{printed}");
}

#[test]
fn build_inspect_verify() {
    let fixture = Fixture::new(70);
    let built = build(&fixture, &["--shards", "2", "--threads", "2"]);
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let out = text(&built.stdout);
    assert!(
        out.contains("built generation 1 of") && out.contains("70 documents in 2 shards"),
        "{out}"
    );
    assert!(
        text(&built.stderr).contains("plan: 70 documents of 24 values"),
        "{}",
        text(&built.stderr)
    );

    let run = |command: &str, more: &[&str]| {
        dyad_indexer()
            .arg(command)
            .arg("--index")
            .arg(fixture.index())
            .args(more)
            .output()
            .unwrap()
    };
    let inspected = run("inspect", &[]);
    assert!(
        text(&inspected.stdout).contains("certificate"),
        "{}",
        text(&inspected.stdout)
    );
    let json: serde_json::Value = serde_json::from_slice(&run("inspect", &["--json"]).stdout).unwrap();
    assert_eq!(json["documents"], 70);
    assert_eq!(json["model"]["metric"], "cosine");
    assert_eq!(json["shards"][0]["certificate"]["unreachable"], 0);

    let verified = run("verify", &[]);
    assert_eq!(verified.status.code(), Some(0));
    assert!(
        text(&verified.stdout).starts_with("intact: generation 1, "),
        "{}",
        text(&verified.stdout)
    );
    let dense = fixture
        .files()
        .into_keys()
        .find(|path| path.ends_with("dense.dyad"))
        .unwrap();
    let mut bytes = fs_err::read(&dense).unwrap();
    bytes[600] ^= 1;
    fs_err::write(&dense, bytes).unwrap();
    let verified = run("verify", &[]);
    assert_eq!(verified.status.code(), Some(1));
    let out = text(&verified.stdout);
    assert!(
        out.contains("META") && out.contains("damaged: 1 problem in generation 1"),
        "{out}"
    );
}

#[test]
fn rollback_says_where_it_went() {
    let fixture = Fixture::new(30);
    for _ in 0..2 {
        assert_eq!(build(&fixture, &[]).status.code(), Some(0));
    }
    let rollback = |more: &[&str]| {
        dyad_indexer()
            .arg("rollback")
            .arg("--index")
            .arg(fixture.index())
            .args(more)
            .output()
            .unwrap()
    };
    let back = rollback(&[]);
    assert_eq!(back.status.code(), Some(0), "{}", text(&back.stderr));
    let said = text(&back.stdout);
    assert!(
        said.starts_with("generation 2 -> 1 of") && said.contains("30 documents, model `hash`"),
        "{said}"
    );
    let oldest = rollback(&[]);
    assert_eq!(oldest.status.code(), Some(1));
    assert!(text(&oldest.stderr).contains("nothing to roll back to: generation 1 is the oldest"));
    assert!(text(&rollback(&["--to", "2"]).stdout).starts_with("generation 1 -> 2 of"));
    let absent = rollback(&["--to", "7"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(
        text(&absent.stderr).contains("has no generation 7. Present: 1, 2"),
        "{}",
        text(&absent.stderr)
    );
}

#[test]
fn failures_exit_with_1_and_usage_with_2() {
    let fixture = Fixture::new(10);
    assert_eq!(build(&fixture, &["--m", "300"]).status.code(), Some(2));
    assert_eq!(
        build(&fixture, &["--encoder", "http://127.0.0.1:9"]).status.code(),
        Some(2),
        "two sources"
    );
    assert_eq!(dyad_indexer().arg("build").output().unwrap().status.code(), Some(2));
    let missing = dyad_indexer()
        .args(["inspect", "--index", "/nonexistent"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(
        text(&missing.stderr).contains("error: `/nonexistent` holds no index"),
        "{}",
        text(&missing.stderr)
    );
    for refused in ["0", "1.5", "NaN", "many"] {
        assert_eq!(
            build(&fixture, &["--min-recall", refused]).status.code(),
            Some(2),
            "{refused}"
        );
    }
    assert_eq!(
        build(&fixture, &["--min-recall", "0.9", "--at-ef", "0"]).status.code(),
        Some(2)
    );
    assert_eq!(build(&fixture, &["--builder", "hnsw"]).status.code(), Some(2));
    fs_err::rename(fixture.path("corpus.jsonl"), fixture.path("corpus")).unwrap();
    let missing = text(&build(&fixture, &[]).stderr);
    assert!(
        missing.starts_with("error: --corpus: no file or directory `"),
        "{missing}"
    );
    assert_eq!(missing.lines().count(), 1, "{missing}");
    let line = "{\"_id\":\"doc-0000\",\"text\":\"x\",\"url\":\"http://x\"}\n";
    fs_err::write(fixture.path("corpus.jsonl"), line).unwrap();
    fs_err::remove_dir_all(fixture.path("embeddings")).unwrap();
    let one = dyad_corpus::Document {
        key: "doc-0000".into(),
        text: "x".into(),
        ..Default::default()
    };
    fixture.write_embeddings("embeddings", crate::fixture::header(), &[one]);
    let log = text(&build(&fixture, &[]).stderr);
    assert_eq!(
        log.matches("WARN fields outside `metadata` are not stored: url")
            .count(),
        1,
        "{log}"
    );
    assert!(log.contains("were computed in f32"), "{log}");
    fs_err::write(fixture.path("corpus.jsonl"), "{").unwrap();
    let broken = build(&fixture, &[]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(
        text(&broken.stderr).contains("corpus.jsonl:1: not a JSON object"),
        "{}",
        text(&broken.stderr)
    );
}

/// A build that reads its corpus from the test.
fn start_build(fixture: &Fixture) -> Child {
    dyad_indexer()
        .args(["build", "--corpus", "-", "--index"])
        .arg(fixture.index())
        .arg("--embeddings")
        .arg(fixture.path("embeddings"))
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

pub(crate) fn write(input: &mut ChildStdin, number: usize) -> std::io::Result<()> {
    let document = document(number);
    let line = serde_json::json!({ "_id": document.key, "title": document.title, "text": document.text });
    writeln!(input, "{line}")?;
    input.flush()
}

fn interrupt(child: &Child) {
    assert!(
        Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn ctrl_c_cancels_cleanly() {
    let fixture = Fixture::new(50);
    fixture.build().unwrap();
    let before = fixture.files();
    let mut child = start_build(&fixture);
    let mut input = child.stdin.take().unwrap();
    (0..10).for_each(|number| write(&mut input, number).unwrap());
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("plan:")));
    interrupt(&child);
    assert!(log.any(|line| line.contains("stopping and cleaning up")));
    // The pass checks the flag with every document. It may have ended at one of the first ten, and reads no more then.
    _ = write(&mut input, 10);
    assert!(log.any(|line| line.contains("error: cancelled; the index is unchanged")));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(fixture.files() == before);
    assert_eq!(fixture.building(), 0);
}

#[test]
fn a_second_ctrl_c_ends_at_once_and_the_next_build_cleans_up() {
    let fixture = Fixture::new(50);
    let mut child = start_build(&fixture);
    // Kept open: the build waits for the next document.
    let mut input = child.stdin.take().unwrap();
    write(&mut input, 0).unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(log.any(|line| line.contains("plan:")));
    // Until the pass waits for the second document: a flag turned before would end the build in order.
    std::thread::sleep(std::time::Duration::from_millis(500));
    interrupt(&child);
    assert!(log.any(|line| line.contains("stopping and cleaning up")));
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fixture.building(), 1);
    assert_eq!(fixture.build().unwrap().manifest.generation, 1);
    assert_eq!(fixture.building(), 0);
}

#[test]
fn kernels_that_no_machine_has_are_refused() {
    let output = dyad_indexer()
        .args(["verify", "--index", "."])
        .env("DYAD_KERNELS", "mmx")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(
        error.contains("no kernels named `mmx`") && error.contains("scalar"),
        "{error}"
    );
}

#[test]
fn the_configuration_of_the_unit_can_be_used() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/config/indexer.toml");
    let output = dyad_indexer()
        .args(["config", "print", "--drain-s", "5", "--config", path])
        .output()
        .unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), &*error), (Some(0), ""));
    assert!(
        out.contains(&format!("index = \"index=/var/lib/dyad/index\" # file {path}\n")),
        "{out}"
    );
    assert!(out.contains("drain-s = 5 # command line\n"), "{out}");
}
