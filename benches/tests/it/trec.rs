//! Our metrics against trec_eval's, on random runs full of ties. A fixed run is tested next to the metrics, in
//! dyad-corpus.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use dyad_bench::cli::TREC_METRICS;
use dyad_corpus::metrics::{Average, evaluate};
use dyad_corpus::{qrels, run};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;
use serde_json::Value;
use tempfile::tempdir;

fn benches() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Compares every query's values and the means with what `trec_metrics.py` printed.
fn assert_agrees(qrels_path: &Path, run_path: &Path, expected: &Value) {
    let (qrels, run) = (qrels::read(qrels_path).unwrap(), run::read(run_path).unwrap());
    let got = evaluate(&run, &qrels, &TREC_METRICS, Average::Complete);
    let queries: BTreeMap<&str, &Value> = expected["per_query"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(query, values)| (query.as_str(), values))
        .collect();
    assert!(
        got.queries.keys().map(String::as_str).eq(queries.keys().copied()),
        "the same queries count"
    );
    for (index, metric) in TREC_METRICS.iter().enumerate() {
        let name = metric.to_string();
        for (query, values) in &got.queries {
            let expected = queries[query.as_str()][&name].as_f64().unwrap();
            assert!(
                (values[index] - expected).abs() < 1e-6,
                "{query} {name}: {} != {expected}",
                values[index]
            );
        }
        let expected = expected["metrics"][&name].as_f64().unwrap();
        assert!(
            (got.means[index] - expected).abs() < 1e-6,
            "mean {name}: {} != {expected}",
            got.means[index]
        );
    }
}

/// Writes judgements and a run whose scores come from few values.
fn write_random(folder: &Path, seed: u64) -> (PathBuf, PathBuf) {
    use std::fmt::Write as _;
    let mut random = SplitMix64::seed_from_u64(seed);
    let mut qrels = "query-id\tcorpus-id\tscore\n".to_owned();
    let mut results = run::TrecRun::new();
    let distinct_scores = 1 + random.random_range(0..12u64);
    for query in 0..60 {
        for document in 0..150 {
            if random.random_range(0..20u64) == 0 || document == query {
                writeln!(
                    qrels,
                    "q{query}\td{document}\t{}",
                    random.random_range(0..5u64) as i64 - 1
                )
                .unwrap();
            }
        }
        if random.random_range(0..10u64) == 0 {
            continue;
        }
        let share = 1 + random.random_range(0..10u64);
        for document in 0..150 {
            if random.random_range(0..10u64) < share {
                let score = (random.random_range(0..distinct_scores) as f32 - 3.0) / 7.0;
                results
                    .entry(format!("q{query}"))
                    .or_default()
                    .push((format!("d{document}"), score));
            }
        }
    }
    let (qrels_path, run_path) = (folder.join("qrels.tsv"), folder.join("random.run"));
    fs_err::write(&qrels_path, qrels).unwrap();
    run::write(&run_path, &results, "random").unwrap();
    (qrels_path, run_path)
}

#[test]
fn random_runs_agree_with_trec_eval() {
    let Some(python) = std::env::var_os("DYAD_PYTHON") else {
        println!("skipped: DYAD_PYTHON names no interpreter with pytrec_eval-terrier 0.5.11");
        return;
    };
    let folder = tempdir().unwrap();
    for seed in 1..=8 {
        let (qrels, run) = write_random(folder.path(), seed);
        let script = benches().join("peers/trec_metrics.py");
        let output = Command::new(&python)
            .arg(script)
            .arg("--per-query")
            .arg("--qrels")
            .arg(&qrels)
            .arg("--run")
            .arg(&run)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_agrees(&qrels, &run, &printed[run.to_str().unwrap()]);
    }
}
