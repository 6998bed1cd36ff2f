//! Figures that can be worked out by hand, and what our worker says.

use serde_json::{Value, json};

use super::protocol::{More, Point};
use super::{Measured, TrainStep};
use crate::harness::tests::{self, lines};
use crate::harness::{EngineRun, summary, write_points, write_table};

fn engine(name: &str, seconds: &[f64], losses: [f64; 2], computed_tokens: u64, megabytes: u64) -> EngineRun<TrainStep> {
    let point = Point { losses: losses.to_vec(), tokens: 1_000, computed_tokens };
    tests::engine(name, More {}, seconds, megabytes, point)
}

/// dyad, sentence-transformers, and another that failed.
fn measured() -> Measured {
    let task = TrainStep { batch: 32, batches: 2, tokens: Some(1_000), ..TrainStep::default() };
    let engines = vec![
        engine("dyad", &[1.0, 9.0, 0.5], [2.0, 1.0], 1_000, 70),
        engine("sentence-transformers", &[2.0, 2.0, 3.0], [2.0, 1.5], 1_250, 300),
    ];
    tests::measured(["dyad", "sentence-transformers", "other"], ("squad-32", task), engines)
}

#[test]
fn rows_have_the_fields_of_the_heading() {
    let lines = lines(|out| write_points(out, &measured()));
    assert_eq!(lines.len(), 3);
    assert_eq!(
        lines[0],
        "date,revision,workload,model,device,threads,shape,batch,batches,tokens,engine,version,settings,step_ms,step_ms_lowest,\
         step_ms_highest,pairs_per_s,time_ratio,padding_share,loss_difference,peak_bytes,repeats,machine",
        "as in benches/records"
    );
    let fields = |line: &String| line.replace("\"made up, for tests\"", "settings").split(',').count();
    assert!(lines.iter().all(|line| fields(line) == fields(&lines[0])), "{lines:?}");
    assert!(lines[2].contains(",1000.00,1000.00,1500.00,32.00,0.5000,0.2000,5.00e-1,"), "{lines:?}");
}

#[test]
fn figures_are_the_ones_worked_out_by_hand() {
    let summary = summary(&measured());
    let near = |value: &Value, expected: f64| value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9);
    // Two steps in 1 s and in 2 s, medians.
    assert!(near(&summary["time_ratios"]["sentence-transformers"]["squad-32"], 0.5), "{summary:#}");
    let engines = &summary["shapes"]["squad-32"]["engines"];
    let (ours, peer) = (&engines["dyad"], &engines["sentence-transformers"]);
    assert!(near(&ours["step_ms"], 500.0) && near(&ours["pairs_per_s"], 64.0));
    // 1,000 tokens of 1,250 computed ones; losses of 2 and 1, and of 2 and 1.5.
    assert!(near(&peer["padding_share"], 0.2) && near(&ours["padding_share"], 0.0));
    assert!(near(&peer["loss_difference"], 0.5) && near(&ours["loss_difference"], 0.0));
    assert_eq!(ours["peak_bytes"], 70_000_000);
    assert_eq!(summary["shapes"]["squad-32"]["failures"]["other"], "other: `open`: no");
    let mut keys: Vec<&String> = summary.as_object().unwrap().keys().collect();
    keys.sort();
    let expected = ["device", "machine", "model", "repeats", "shapes", "stamp", "threads", "time_ratios", "workload"];
    assert_eq!(keys, expected);
}

#[test]
fn figures_stand_in_the_row_of_their_engine() {
    let table = lines(|out| write_table(out, &measured()));
    let line = table.iter().find(|line| line.starts_with("sentence-transformers")).unwrap();
    let row: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(row[1..], ["1000.0", "32.0", "20.0", "%", "300.0", "5.0e-1", "0.500x"]);
    let all = table.join("\n");
    assert!(all.contains("squad-32: steps with 32 pairs, 500 tokens") && all.contains("other failed"), "{all}");
}

#[cfg(feature = "torch")]
#[test]
fn a_worker_says_who_it_is_and_what_is_wrong() {
    let [described, stepped] = tests::worker("steps", |input, output| super::serve("dyad", input, output));
    assert_eq!(described["engine"], "dyad");
    assert_eq!(stepped, json!({ "error": "nothing is open: `open` comes first" }));
    assert!(super::serve("other", &b""[..], Vec::new()).unwrap_err().to_string().contains("`other`"));
}
