//! Runs that measure: `ann`, `synth` and `churn`.

use std::path::Path;

use super::{bench, bytes, json, workload, write_ivecs};
use dyad_bench::dataset::{Matrix, VectorMetric, exact, npy, read_neighbours, read_vectors};
use dyad_command::JobCancellation;
use tempfile::tempdir;

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
