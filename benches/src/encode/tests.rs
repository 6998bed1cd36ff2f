//! Figures that can be worked out by hand, and what our worker says.

use serde_json::{Value, json};

use super::task::smallest_cosine;
use super::{EncodeDetails, EncodeMeasurement, EncodePoint, EncodeTask};
use crate::dataset::Matrix;
use crate::harness::tests::{self, lines};
use crate::harness::{EngineRun, Measurement as _, write_csv};

fn engine(name: &str, seconds: &[f64], computed_tokens: Option<u64>, megabytes: u64) -> EngineRun<EncodeTask> {
    let point = EncodePoint {
        tuned: "batch 32".to_owned(),
        computed_tokens,
        smallest_cosine: 0.9999,
    };
    tests::engine(
        name,
        EncodeDetails {
            dtype: "f32".to_owned(),
        },
        seconds,
        megabytes,
        point,
    )
}

/// dyad, sentence-transformers, and an onnxruntime that failed.
fn measured() -> EncodeMeasurement {
    let task = EncodeTask {
        texts: 100,
        tokens: 1_000,
        max_tokens: 256,
        flops: 8e9,
        limits: [("f32", vec![15.0, 16.0, 40.0])].into(),
        ..EncodeTask::default()
    };
    let engines = vec![
        engine("dyad", &[2.0, 9.0, 1.0], Some(1_250), 70),
        engine("sentence-transformers", &[5.0, 5.0, 6.0], None, 300),
    ];
    tests::measured(["dyad", "sentence-transformers", "onnxruntime"], "mixed", task, engines)
}

fn near(value: &Value, expected: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|value| (value - expected).abs() < 1e-9 * expected.abs())
}

#[test]
fn the_worst_row_counts() {
    let first = Matrix::new(2, vec![1.0, 0.0, 0.0, 2.0]);
    assert!((smallest_cosine(&first, &first) - 1.0).abs() < 1e-12);
    let turned = Matrix::new(2, vec![3.0, 0.0, 1.0, 1.0]);
    assert!((smallest_cosine(&first, &turned) - 0.5f64.sqrt()).abs() < 1e-9);
    for broken in [0.0, f32::NAN] {
        let broken = Matrix::new(2, vec![1.0, 0.0, broken, broken]);
        assert!((smallest_cosine(&first, &broken) + 1.0).abs() < 1e-12);
    }
}

#[test]
fn rows_have_the_fields_of_the_heading() {
    let lines = lines(|out| write_csv(out, &measured().files()[0].1));
    assert_eq!(lines.len(), 3);
    assert_eq!(
        lines[0],
        "date,revision,workload,model,device,threads,shape,engine,version,settings,texts,tokens,max_tokens,flops,dtype,tuned,texts_per_s,\
         texts_per_s_lowest,texts_per_s_highest,tokens_per_s,padding_share,smallest_cosine,gflops,matmul_gflops,share_of_matmul,dyad_over,\
         peak_bytes,baseline_bytes,open_ms,repeats,machine",
        "as in benches/records"
    );
    let expected = "2026-01-02,abc,fixture,tiny,cpu,2,mixed,dyad,1,\"made up, for tests\",100,1000,256,8000000000.0,f32,batch 32,50.0,\
                    11.11111111111111,100.0,500.0,0.2,0.9999,4.0,16.0,0.25,,70000000,30000000,12.0,3,test";
    assert_eq!(lines[1], expected);
}

#[test]
fn figures_are_the_ones_worked_out_by_hand() {
    let summary = measured().summary();
    // 100 texts in 2 s and in 5 s, medians.
    assert!(
        near(&summary["ratios"]["dyad"]["sentence-transformers"]["mixed"], 2.5),
        "{summary:#}"
    );
    assert!(summary["ratios"]["dyad"].get("onnxruntime").is_none(), "it failed");
    let ours = &summary["engines"]["dyad"]["mixed"];
    assert!(near(&ours["texts_per_s"], 50.0) && near(&ours["tokens_per_s"], 500.0));
    // 1,000 tokens of 1,250 computed ones.
    assert!(near(&ours["padding_share"], 0.2));
    assert!(summary["engines"]["sentence-transformers"]["mixed"]["padding_share"].is_null());
    // 8e9 operations in 2 s are 4 GFLOP/s, of 16.
    assert!(near(&ours["gflops"], 4.0) && near(&ours["share_of_matmul"], 0.25));
    assert!(near(&ours["matmul_gflops"], 16.0) && ours["seconds"] == json!([2.0, 9.0, 1.0]));
    assert_eq!(ours["peak_bytes"], 70_000_000);
    assert_eq!(summary["failures"]["onnxruntime"]["mixed"], "onnxruntime: `open`: no");
    let mut keys: Vec<&String> = summary.as_object().unwrap().keys().collect();
    keys.sort();
    let expected = [
        "device", "engines", "failures", "machine", "model", "ratios", "repeats", "stamp", "threads", "workload",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn every_engine_of_ours_has_its_ratios() {
    let mut measured = measured();
    measured.conditions.asked.insert(1, "dyad-int8".to_owned());
    measured.shapes[0].engines.push(engine("dyad-int8", &[1.0], None, 50));
    let summary = measured.summary();
    assert!(near(
        &summary["ratios"]["dyad-int8"]["sentence-transformers"]["mixed"],
        5.0
    ));
    assert!(
        summary["ratios"]["dyad"].get("dyad-int8").is_none(),
        "our own are no peers"
    );
}

#[test]
fn figures_stand_in_the_row_of_their_engine() {
    let table = lines(|out| measured().write_table(out));
    let row = |name: &str| -> Vec<String> {
        let line = table.iter().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(
        row("dyad ")[1..],
        [
            "50.0", "500", "20.0", "%", "70.0", "0.999900", "4.0", "25.0", "%", "-", "(batch", "32)"
        ]
    );
    assert_eq!(row("sentence-transformers")[8..10], ["%", "2.50x"]);
    assert!(
        table.contains(&"onnxruntime failed: onnxruntime: `open`: no".to_owned()),
        "{table:?}"
    );
}

#[cfg(feature = "torch")]
#[test]
fn a_worker_says_who_it_is_and_what_is_wrong() {
    let [described, encoded] = tests::worker("encode", |input, output| super::serve("dyad-int8", input, output));
    assert_eq!(
        (&described["engine"], &described["dtype"]),
        (&json!("dyad-int8"), &json!("int8"))
    );
    assert_eq!(encoded, json!({ "error": "`encode` before `open`" }));
    assert!(
        super::serve("other", &b""[..], Vec::new())
            .unwrap_err()
            .to_string()
            .contains("`other`")
    );
}
