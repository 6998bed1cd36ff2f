//! Runs that end without a measurement: by a mistake, or by a signal.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{bench, workload, write_ivecs};
use dyad_bench::dataset::{Matrix, Neighbours, VectorMetric, exact, npy};
use dyad_command::JobCancellation;
use tempfile::tempdir;

#[test]
fn what_cannot_be_measured_ends_with_1_and_names_the_place() {
    let dir = tempdir().unwrap();
    let refused = |text: &str, expected: &str| {
        fs_err::write(dir.path().join("w.toml"), text).unwrap();
        let output = bench(&["ann", "--workload", "w.toml", "--out", "out"], dir.path());
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(
            message.starts_with("error: `w.toml`: ") && message.contains(expected),
            "{expected}: {message}"
        );
    };
    let head = "name = \"w\"\nmetric = \"ip\"\n";
    let synthetic = "[data.synthetic]\nkind = \"clustered\"\nn = 10\ndim = 4\n";
    refused(&format!("{head}speed = 3\n{synthetic}"), "unknown field `speed`");
    refused(&format!("{head}{synthetic}shape = 1\n"), "unknown field `shape`");
    refused(
        &format!("name = \"w\"\nmetric = \"cosine\"\n{synthetic}"),
        "unknown variant `cosine`, expected one of `ip`, `dot`, `l2`",
    );
    refused(&format!("{head}k = 0\n{synthetic}"), "`k`: expected at least 1, got 0");
    refused(
        &format!("name = \"a/b\"\nmetric = \"ip\"\n{synthetic}"),
        "`name`: expected letters",
    );
    refused(
        &format!("{head}targets = [1.5]\n{synthetic}"),
        "`targets`: expected recalls",
    );
    refused(
        &format!("{head}{synthetic}[sweep]\ndyad = [20, 10]\n"),
        "`sweep.dyad`: expected ascending values",
    );
    refused(&format!("{head}[data]\n"), "got 0 of these");
    refused(&format!("{head}[data]\nhdf5 = \"x\"\nbase = \"y\"\n"), "got 2 of these");
    refused(
        &format!("{head}[data]\nbase = \"y\"\n"),
        "expected both `base` and `queries`",
    );
    refused(
        &format!("{head}[data]\nbase = \"no.npy\"\nqueries = \"no.npy\"\n"),
        "no such file: `no.npy`. DYAD_DATA",
    );
    refused(
        &format!("{head}[data.synthetic]\nkind = \"clustered\"\nn = 10\ndim = 0\n"),
        "`dim`: expected 1 to",
    );
    let output = bench(&["ann", "--workload", "none.toml", "--out", "out"], dir.path());
    assert_eq!(output.status.code(), Some(1));
    for sweep in ["dyad", "dyad=", "dyad=3:2", "dyad=0", "dyad=x"] {
        let output = bench(
            &["ann", "--workload", "w.toml", "--out", "out", "--sweep", sweep],
            dir.path(),
        );
        assert_eq!(output.status.code(), Some(2), "{sweep}");
    }
}

#[test]
fn neighbours_of_other_vectors_are_refused() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let rows = |n: usize, step: usize| Matrix::new(2, (0..2 * n).map(|at| ((at * step) % 97) as f32).collect());
    let (base, queries) = (rows(50, 31), rows(5, 17));
    npy::write_vectors(&path("b.npy"), &base).unwrap();
    npy::write_vectors(&path("q.npy"), &queries).unwrap();
    let text =
        "name = \"w\"\nmetric = \"l2\"\n[data]\nbase = \"b.npy\"\nqueries = \"q.npy\"\nneighbours = \"t.ivecs\"\n";
    fs_err::write(path("w.toml"), text).unwrap();
    let (wrong, _) = exact(&rows(50, 13), &queries, 10, VectorMetric::L2, &JobCancellation::new()).unwrap();
    let (few, _) = exact(&base, &rows(4, 17), 10, VectorMetric::L2, &JobCancellation::new()).unwrap();
    let (short, _) = exact(&base, &queries, 9, VectorMetric::L2, &JobCancellation::new()).unwrap();
    let far = Neighbours::new(10, vec![50; 50]);
    for (truth, expected) in [
        (wrong, "are these the neighbours of other vectors?"),
        (few, "n: expected 5 lists, one per query, got 4"),
        (short, "k: expected at least 10 neighbours per query, got 9"),
        (far, "ids: expected rows below 50, got 50"),
    ] {
        write_ivecs(&path("t.ivecs"), &truth);
        let output = bench(
            &["ann", "--workload", "w.toml", "--engines", "hnsw_rs", "--out", "out"],
            dir.path(),
        );
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(
            message.contains("t.ivecs`: ") && message.contains(expected),
            "{message}"
        );
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_signal_ends_with_130_and_leaves_no_worker() {
    let dir = tempdir().unwrap();
    workload(dir.path(), "long", 20_000);
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-bench"));
    command
        .args(["ann", "--workload", "long.toml", "--repeats", "60000", "--out", "out"])
        .current_dir(dir.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let scratch = format!("target/dyad-bench/scratch-{}", child.id());
    let until = Instant::now() + Duration::from_mins(1);
    while Instant::now() < until && !dir.path().join(&scratch).exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let workers = || -> Vec<String> {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        fs_err::read_to_string(children)
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    let mut started = workers();
    while Instant::now() < until && started.is_empty() {
        std::thread::sleep(Duration::from_millis(20));
        started = workers();
    }
    assert!(!started.is_empty(), "no worker within a minute");
    let signalled = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(signalled.success());
    let until = Instant::now() + Duration::from_secs(30);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "still running 30 s after the signal");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!((status.code(), status.signal()), (Some(130), None));
    for worker in started {
        assert!(!Path::new("/proc").join(&worker).exists(), "worker {worker} lives on");
    }
}

#[test]
fn kernels_that_no_machine_has_are_refused() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dyad-bench"));
    let output = command
        .args(["synth", "--n", "1", "--out", "."])
        .env("DYAD_KERNELS", "mmx")
        .output()
        .unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(2) && error.contains("no kernels named `mmx`"),
        "{error}"
    );
}
