//! Figures that can be worked out by hand, and what our worker says.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::task::read_pairs;
use super::{SteppedReply, TrainStep, TrainStepMeasurement, TrainStepShape};
use crate::harness::tests::{self, lines};
use crate::harness::{EngineRun, Measurement as _, write_csv};

fn engine(name: &str, seconds: &[f64], losses: [f64; 2], computed_tokens: u64, megabytes: u64) -> EngineRun<TrainStep> {
    let point = SteppedReply {
        seconds: 1.0,
        losses: losses.to_vec(),
        tokens: 1_000,
        computed_tokens,
    };
    tests::engine(name, (), seconds, megabytes, point)
}

fn shape(pairs: PathBuf, batch: usize) -> TrainStepShape {
    TrainStepShape {
        name: "s".to_owned(),
        pairs,
        batch,
        batches: 2,
        learning_rate: 1.0,
    }
}

/// dyad, sentence-transformers, and another that failed.
fn measured() -> TrainStepMeasurement {
    let shape = shape("pairs.jsonl".into(), 32);
    let task = TrainStep {
        shape,
        tokens: Some(1_000),
        pairs: "pairs.jsonl".into(),
    };
    let engines = vec![
        engine("dyad", &[1.0, 9.0, 0.5], [2.0, 1.0], 1_000, 70),
        engine("sentence-transformers", &[2.0, 2.0, 3.0], [2.0, 1.5], 1_250, 300),
    ];
    tests::measured(["dyad", "sentence-transformers", "other"], "squad-32", task, engines)
}

#[test]
fn rows_have_the_fields_of_the_heading() {
    let lines = lines(|out| write_csv(out, &measured().files()[0].1));
    assert_eq!(lines.len(), 3);
    assert_eq!(
        lines[0],
        "date,revision,workload,model,device,threads,shape,engine,version,settings,batch,batches,tokens,step_ms,step_ms_lowest,\
         step_ms_highest,pairs_per_s,padding_share,loss_difference,dyad_over,peak_bytes,baseline_bytes,open_ms,repeats,machine",
        "as in benches/records"
    );
    let expected =
        ",\"made up, for tests\",32,2,1000,1000.0,1000.0,1500.0,32.0,0.2,0.5,2.0,300000000,30000000,12.0,3,test";
    assert!(lines[2].ends_with(expected), "{lines:?}");
}

#[test]
fn figures_are_the_ones_worked_out_by_hand() {
    let summary = measured().summary();
    let near = |value: &Value, expected: f64| value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9);
    // Two steps in 1 s and in 2 s, medians.
    assert!(
        near(&summary["ratios"]["dyad"]["sentence-transformers"]["squad-32"], 2.0),
        "{summary:#}"
    );
    let of = |engine: &str| &summary["engines"][engine]["squad-32"];
    let (ours, peer) = (of("dyad"), of("sentence-transformers"));
    assert!(near(&ours["step_ms"], 500.0) && near(&ours["pairs_per_s"], 64.0));
    // 1,000 tokens of 1,250 computed ones; losses of 2 and 1, and of 2 and 1.5.
    assert!(near(&peer["padding_share"], 0.2) && near(&ours["padding_share"], 0.0));
    assert!(near(&peer["loss_difference"], 0.5) && near(&ours["loss_difference"], 0.0));
    assert_eq!(ours["peak_bytes"], 70_000_000);
    assert_eq!(summary["failures"]["other"]["squad-32"], "other: `open`: no");
    let mut keys: Vec<&String> = summary.as_object().unwrap().keys().collect();
    keys.sort();
    let expected = [
        "device", "engines", "failures", "machine", "model", "ratios", "repeats", "stamp", "threads", "workload",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn figures_stand_in_the_row_of_their_engine() {
    let table = lines(|out| measured().write_table(out));
    let line = table
        .iter()
        .find(|line| line.starts_with("sentence-transformers"))
        .unwrap();
    let row: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(row[1..], ["1000.0", "32.0", "20.0", "%", "300.0", "5.0e-1", "2.00x"]);
    let all = table.join("\n");
    assert!(
        all.contains("squad-32: steps with 32 pairs, 500 tokens") && all.contains("other failed"),
        "{all}"
    );
}

#[test]
fn pairs_are_spread_and_no_text_stands_twice() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pairs.jsonl");
    // Every third answer is that of its neighbour.
    let line = |at: usize| {
        format!(
            "{{\"question\": \"q{at}\", \"answer\": \"a{}\"}}\n",
            at - usize::from(at % 3 == 2)
        )
    };
    fs_err::write(&path, (0..30).map(line).collect::<String>()).unwrap();
    let mut shape = shape(path, 5);
    let pairs = read_pairs(&shape).unwrap();
    assert_eq!(pairs.len(), 10);
    assert_eq!(pairs[0], ("q0".to_owned(), "a0".to_owned()));
    assert_eq!(pairs[9], ("q27".to_owned(), "a27".to_owned()));
    assert!(pairs.iter().all(|(question, answer)| question[1..] == answer[1..]));
    shape.batches = 5;
    let error = read_pairs(&shape).unwrap_err().to_string();
    assert!(
        error.contains("the 20 different pairs of the file give, got 25 pairs"),
        "{error}"
    );
}

#[cfg(feature = "torch")]
#[test]
fn a_worker_says_who_it_is_and_what_is_wrong() {
    let [described, stepped] = tests::worker("steps", |input, output| super::serve("dyad", input, output));
    assert_eq!(described["engine"], "dyad");
    assert_eq!(stepped, json!({ "error": "nothing is open: `open` comes first" }));
    assert!(
        super::serve("other", &b""[..], Vec::new())
            .unwrap_err()
            .to_string()
            .contains("`other`")
    );
}
