//! Workloads: sweeps by engine, and those of the repository.

use std::path::Path;

use dyad_bench::ann::{AnnMeasurement, AnnWorkload, prepare, run};
use dyad_command::JobCancellation;

use super::Bench;

#[test]
fn a_sweep_is_for_an_engine_of_the_run_or_for_all_that_a_name_stands_for() {
    let Some(mut bench) = Bench::new() else { return };
    bench.workload.sweep = [("family".to_owned(), vec![3, 10]), ("fake-30".to_owned(), vec![4, 10])].into();
    let sweep = |engine: &str, measured: &AnnMeasurement| -> Vec<u32> {
        let run = measured
            .engines
            .iter()
            .find(|run| run.described.engine == engine)
            .unwrap();
        run.points.iter().map(|point| point.value).collect()
    };
    let measured = bench.measure(&["dyad", "family"]);
    assert_eq!(sweep("fake-20", &measured), [3, 10]);
    assert_eq!(sweep("fake-30", &measured), [4, 10], "its own before its family's");
    assert_eq!(sweep("dyad", &measured), [2, 5, 9, 10]);
    let ready = prepare(
        &bench.workload,
        &bench.job(&["dyad"], &JobCancellation::new()).settings.cache,
        &JobCancellation::new(),
        &|_| {},
    )
    .unwrap();
    let swept = |name: &str| {
        let mut job = bench.job(&["dyad", "family"], &JobCancellation::new());
        job.swept = vec![name.to_owned()];
        run(&job, &ready, &|_| {})
    };
    swept("family").unwrap();
    swept("fake-30").unwrap();
    let error = swept("fake-40").unwrap_err().to_string();
    assert_eq!(
        error,
        "--sweep fake-40: not among the engines of this run: dyad, fake-20, fake-30"
    );
}

#[test]
fn every_workload_of_the_repository_can_be_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("workloads");
    // Only whether the files are there is asked, not what is in them.
    let data = tempfile::tempdir().unwrap();
    for (folder, files) in [
        (
            "minilm-vectors",
            &["base.f16.npy", "queries.f32.npy", "neighbors.ibin"][..],
        ),
        ("wikipedia-sentences", &["base", "queries"]),
        ("towers", &["base", "queries"]),
    ] {
        fs_err::create_dir(data.path().join(folder)).unwrap();
        for file in files {
            fs_err::write(data.path().join(folder).join(file), "").unwrap();
        }
    }
    let mut names = Vec::new();
    for entry in fs_err::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "toml") {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap();
            // Those of `dyad-bench encode`, `train-step` and `load` have readers of their own.
            if ["encode-", "train-step-", "load-"]
                .iter()
                .any(|other| stem.starts_with(other))
            {
                continue;
            }
            let workload = AnnWorkload::read(&path, Some(data.path())).unwrap();
            assert_eq!(workload.name, stem);
            names.push(workload.name);
        }
    }
    assert!(names.len() >= 7, "{names:?}");
}
