//! `dyad-bench ann` and `synth` as commands, with our own engines on tiny data.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use dyad_bench::dataset::{Matrix, Neighbours, VectorMetric, exact, npy, read_neighbours, read_vectors};
use dyad_command::JobCancellation;
use serde_json::Value;
use tempfile::tempdir;

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

#[test]
fn ann_writes_everything_and_prints_the_table() {
    let dir = tempdir().unwrap();
    workload(dir.path(), "tiny", 800);
    let arguments = [
        "ann",
        "--workload",
        "tiny.toml",
        "--out",
        "out",
        "--hdf5",
        "--record",
        "records",
    ];
    let output = bench(&arguments, dir.path());
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.contains("batch QPS") && table.contains("p50 us") && table.contains("dyad over"),
        "{table}"
    );

    let out = dir.path().join("out");
    let summary = json(&out.join("summary.json"));
    for key in [
        "ratios",
        "ratios_single_call",
        "build_ratio",
        "rss_ratio_served",
        "rss_ratio_evicted",
    ] {
        assert!(
            summary[key]["hnsw_rs"].is_object() || summary[key]["hnsw_rs"].is_f64(),
            "{key}: {summary:#}"
        );
    }
    let engines = summary["engines"].as_object().unwrap();
    assert_eq!(engines.len(), 2);
    for engine in engines.values() {
        assert!(engine["open_ms"].as_f64().unwrap() > 0.0);
        let points = engine["points"].as_array().unwrap();
        let last = points.last().unwrap();
        assert!(last["recall"].as_f64().unwrap() > 0.95, "{last}");
        assert!(
            points
                .iter()
                .all(|point| point["seconds"].as_array().unwrap().len() == 2)
        );
        assert!(
            points
                .iter()
                .all(|point| point["passes_p50_us"].as_array().unwrap().len() == 2)
        );
        assert!(engine["served_bytes"].as_u64().unwrap() > engine["baseline_bytes"].as_u64().unwrap());
    }
    let points = fs_err::read_to_string(out.join("points.csv")).unwrap();
    let rows: usize = engines
        .values()
        .map(|engine| engine["points"].as_array().unwrap().len())
        .sum();
    assert_eq!(points.lines().count(), rows + 1);
    let columns = points.lines().next().unwrap().split(',').count();
    assert!(
        points.lines().all(|line| line.split(',').count() == columns),
        "{points}"
    );
    assert_eq!(
        fs_err::read_to_string(out.join("engines.csv")).unwrap().lines().count(),
        3
    );
    for plot in ["recall-qps.svg", "recall-qps-all-threads.svg"] {
        assert!(out.join(plot).exists(), "{plot}");
    }
    let hdf5 = fs_err::read_dir(out.join("results/tiny/10/dyad")).unwrap().count();
    assert_eq!(hdf5, engines["dyad"]["points"].as_array().unwrap().len());
    let records = fs_err::read_dir(dir.path().join("records")).unwrap();
    let names: Vec<String> = records
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.len() == 2 && names.iter().all(|name| name.starts_with("tiny-20")),
        "{names:?}"
    );
    for kind in ["-points.csv", "-engines.csv"] {
        assert!(names.iter().any(|name| name.ends_with(kind)), "{names:?}");
    }
}

#[test]
fn synth_writes_what_ann_reads() {
    let dir = tempdir().unwrap();
    let arguments = [
        "synth",
        "--n",
        "500",
        "--dim",
        "32",
        "--queries",
        "20",
        "--clusters",
        "5",
        "--intrinsic",
        "4",
    ];
    let more = [
        "--kind",
        "sift-like",
        "--format",
        "fbin",
        "--neighbours",
        "10",
        "--out",
        "made",
    ];
    let output = bench(&[&arguments[..], &more].concat(), dir.path());
    assert!(output.status.success(), "{output:?}");
    let made = dir.path().join("made");
    let (base, queries) = (
        read_vectors(&made.join("base.fbin")).unwrap(),
        read_vectors(&made.join("queries.fbin")).unwrap(),
    );
    assert_eq!((base.len(), base.dim(), queries.len()), (500, 32, 20));
    let truth = read_neighbours(&made.join("neighbours.ibin")).unwrap();
    assert_eq!(
        truth,
        exact(&base, &queries, 10, VectorMetric::L2, &JobCancellation::new())
            .unwrap()
            .0
    );
    let text = "name = \"made\"\nmetric = \"l2\"\nm = 8\nrepeats = 1\nleast_ms = 0\nengines = [\"hnsw_rs\"]\n\
                [data]\nbase = \"made/base.fbin\"\nqueries = \"made/queries.fbin\"\nneighbours = \"made/neighbours.ibin\"\n";
    fs_err::write(dir.path().join("made.toml"), text).unwrap();
    let output = bench(&["ann", "--workload", "made.toml", "--out", "out"], dir.path());
    assert!(output.status.success(), "{output:?}");
    let summary = json(&dir.path().join("out/summary.json"));
    assert_eq!(summary["ratios"], serde_json::json!({}));
    let points = summary["engines"]["hnsw_rs"]["points"].as_array().unwrap();
    assert!(points.last().unwrap()["recall"].as_f64().unwrap() > 0.99);
}

/// Every format of the same vectors ends in the same prepared data, and so in the same kept index.
#[test]
fn formats_of_the_same_vectors_share_an_index() {
    let dir = tempdir().unwrap();
    let value = |at: usize| ((at * 7_919 + 13) % 1_000) as f32 / 500.0 - 1.0;
    let unit = |n: usize, skip: usize| {
        let mut matrix = Matrix::new(16, (skip..skip + n * 16).map(value).collect());
        dyad_bench::dataset::make_unit(Path::new("made"), &mut matrix, true).unwrap();
        matrix
    };
    let (base, queries) = (unit(300, 0), unit(10, 9_000));
    let path = |name: &str| dir.path().join(name);
    npy::write_vectors(&path("b.npy"), &base).unwrap();
    npy::write_vectors(&path("q.npy"), &queries).unwrap();
    fs_err::write(
        path("b.fbin"),
        bytes(&[base.len() as u32, 16], base.values(), f32::to_le_bytes),
    )
    .unwrap();
    let rows = queries.rows().map(|row| bytes(&[16], row, f32::to_le_bytes));
    fs_err::write(path("q.fvecs"), rows.collect::<Vec<_>>().concat()).unwrap();
    let (truth, _) = exact(&base, &queries, 10, VectorMetric::Ip, &JobCancellation::new()).unwrap();
    write_ivecs(&path("t.ivecs"), &truth);
    let mut reused = Vec::new();
    for (name, files) in [
        ("one", "base = \"b.npy\"\nqueries = \"q.npy\""),
        (
            "two",
            "base = \"b.fbin\"\nqueries = \"q.fvecs\"\nneighbours = \"t.ivecs\"",
        ),
    ] {
        let text = format!(
            "name = \"{name}\"\nmetric = \"ip\"\nm = 4\nrepeats = 1\nleast_ms = 0\nengines = [\"dyad\"]\n[data]\n{files}\n"
        );
        fs_err::write(path(&format!("{name}.toml")), text).unwrap();
        let output = bench(
            &[
                "ann",
                "--workload",
                &format!("{name}.toml"),
                "--keep-indexes",
                "--out",
                name,
            ],
            dir.path(),
        );
        assert!(output.status.success(), "{output:?}");
        reused.push(json(&path(name).join("summary.json"))["engines"]["dyad"]["index_reused"].clone());
    }
    assert_eq!(reused, [false, true]);
}

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

/// `churn` with a whole index of ours: recall stays where a fresh index has it, and no deleted row is ever returned.
#[test]
fn churn_follows_an_index_through_its_changes() {
    let dir = tempdir().unwrap();
    workload(dir.path(), "tiny", 1000);
    let arguments = [
        "churn",
        "--workload",
        "tiny.toml",
        "--engines",
        "dyad-index",
        "--cycles",
        "3",
        "--out",
        "out",
    ];
    let output = bench(&[&arguments[..], &["--record", "records"]].concat(), dir.path());
    assert!(output.status.success(), "{output:?}");
    let summary = json(&dir.path().join("out/summary.json"));
    let moments = summary["moments"].as_array().unwrap();
    let stages: Vec<&str> = moments.iter().map(|moment| moment["stage"].as_str().unwrap()).collect();
    let cycle = ["changed", "merged"];
    assert_eq!(
        stages,
        [&["fresh"], &cycle[..], &cycle[..], &cycle[..], &["all merged", "fresh"]].concat()
    );
    for moment in moments {
        assert!(
            moment["recall"].as_f64().unwrap() > 0.95 && moment["qps"].as_f64().unwrap() > 0.0,
            "{moment}"
        );
        assert!(moment["seconds"].as_f64().unwrap() > 0.0, "{moment}");
    }
    assert_eq!(
        fs_err::read_to_string(dir.path().join("out/churn.csv"))
            .unwrap()
            .lines()
            .count(),
        moments.len() + 1
    );
    assert_eq!(fs_err::read_dir(dir.path().join("records")).unwrap().count(), 1);
    let refused = bench(&[&arguments[..], &["--cycles", "11"]].concat(), dir.path());
    assert_eq!(refused.status.code(), Some(2));
    let fixed = [
        "churn",
        "--workload",
        "tiny.toml",
        "--engines",
        "dyad",
        "--cycles",
        "1",
        "--out",
        "out",
    ];
    let output = bench(&fixed, dir.path());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(1) && said.contains("cannot be changed"),
        "{said}"
    );
}
