//! Ratios that can be worked out by hand.

use serde_json::{Value, json};

use super::fixture;
use crate::ann::measured::EngineFamily;
use crate::harness::Measurement as _;
use crate::harness::tests::lines;

fn near(value: &Value, expected: f64) -> bool {
    value
        .as_f64()
        .is_some_and(|value| (value - expected).abs() < 1e-9 * expected)
}

#[test]
fn ratios_are_the_ones_worked_out_by_hand() {
    let summary = fixture::measured().summary();
    let ratios = &summary["ratios"]["hnswlib"];
    // At 0.95 dyad is half way from 10^4 to 10^3: 10^3.5. hnswlib is half way from 10^3 to 10^2: 10^2.5.
    assert!(near(&ratios["0.95"], 10.0), "{ratios}");
    // At 0.97: 10^2.5 over 10^2.
    assert!(near(&ratios["0.97"], 10f64.sqrt()), "{ratios}");
    // dyad ends at 0.98.
    assert!(ratios["0.99"].is_null(), "{ratios}");
    assert_eq!(
        summary["unreached"]["hnswlib"],
        json!({ "0.99": "dyad: reaches only 0.9800" })
    );
    assert!(near(&summary["ratios_all_threads"]["hnswlib"]["0.95"], 10.0));
    // The median pass of single calls takes as long per query as the batch.
    assert!(near(&summary["ratios_single_call"]["hnswlib"]["0.97"], 10f64.sqrt()));
    assert!(near(&summary["build_ratio"]["hnswlib"], 0.5));
    assert!(near(&summary["index_bytes_ratio"]["hnswlib"], 0.25));
    // 30 + 5 - 10 over 30 + 20 - 10, and 12 + 5 - 10 over 12 + 20 - 10.
    assert!(near(&summary["rss_ratio_served"]["hnswlib"], 25.0 / 40.0));
    assert!(near(&summary["rss_ratio_evicted"]["hnswlib"], 7.0 / 22.0));
    let ours = &summary["engines"]["dyad"];
    assert!(
        near(&ours["open_ms"], 1.5) && near(&ours["qps_at"]["0.95"], 10f64.powf(3.5)),
        "{ours}"
    );
    assert_eq!(ours["points"][2]["seconds"], json!([10.0, 10.0, 10.0]));
    assert_eq!(
        (&summary["workload"]["name"], &summary["rows"]),
        (&json!("fixture"), &json!(1_000))
    );
}

#[test]
fn builds_of_two_days_have_no_ratio() {
    for kept in [0, 1] {
        let mut measured = fixture::measured();
        measured.engines[kept].index.reused = true;
        let summary = measured.summary();
        assert!(
            summary["build_ratio"].as_object().unwrap()["hnswlib"].is_null(),
            "{kept}"
        );
        assert!(near(&summary["rss_ratio_served"]["hnswlib"], 25.0 / 40.0));
    }
}

#[test]
fn without_our_engine_there_are_no_ratios_but_all_figures() {
    let mut measured = fixture::measured();
    measured.engines.remove(0);
    measured.failures.push(("dyad".to_owned(), "broken".to_owned()));
    let summary = measured.summary();
    assert_eq!(summary["ratios"], json!({}));
    assert_eq!(
        (
            summary["engines"].as_object().unwrap().len(),
            &summary["failures"]["dyad"]
        ),
        (1, &json!("broken"))
    );
}

#[test]
fn an_engine_that_ends_below_the_first_recall_has_no_ratio() {
    let mut measured = fixture::measured();
    measured.engines[1] = fixture::engine("hnswlib", &[(0.90, 1.0), (0.94, 10.0)], 4.0, 20);
    let summary = measured.summary();
    assert_eq!(summary["unreached"]["hnswlib"]["0.95"], "hnswlib: reaches only 0.9400");
    for key in ["ratios", "ratios_all_threads", "ratios_single_call"] {
        assert!(summary[key]["hnswlib"].as_object().unwrap()["0.95"].is_null(), "{key}");
    }
    for key in [
        "build_ratio",
        "rss_ratio_served",
        "rss_ratio_evicted",
        "index_bytes_ratio",
    ] {
        assert!(summary[key].as_object().unwrap()["hnswlib"].is_null(), "{key}");
    }
}

#[test]
fn the_best_of_a_family_counts_at_each_recall() {
    let mut measured = fixture::measured();
    // Next to hnswlib one that is ten times as fast and ends at 0.96, and one that was never measured.
    measured.engines.push(fixture::engine(
        "quick",
        &[(0.93, 0.1), (0.96, 10f64.powf(-0.25))],
        4.0,
        20,
    ));
    let members = ["hnswlib", "quick", "broken"].map(str::to_owned).to_vec();
    measured.families.push(EngineFamily {
        name: "family".to_owned(),
        members,
    });
    measured
        .skipped
        .push(("broken".to_owned(), "ended by SIGILL".to_owned()));
    let summary = measured.summary();
    let family = &summary["families"]["family"];
    assert_eq!(
        family["best"],
        json!({ "0.95": "quick", "0.97": "hnswlib", "0.99": null })
    );
    // At 0.95 dyad has 10^3.5, hnswlib 10^2.5, and the quick one is two thirds of the way from 10^4 to 10^3.25: 10^3.5.
    assert!(
        near(&family["ratios"]["0.95"], 1.0) && near(&family["ratios"]["0.97"], 10f64.sqrt()),
        "{family}"
    );
    assert!(near(&family["ratios_all_threads"]["0.95"], 1.0), "{family}");
    assert!(family["ratios"]["0.99"].is_null(), "{family}");
    assert_eq!(
        (&summary["skipped"]["broken"], &summary["failures"]),
        (&json!("ended by SIGILL"), &json!({}))
    );
    let table = lines(|out| measured.write_table(out)).join("\n");
    let best = table.lines().find(|line| line.starts_with("best of family")).unwrap();
    assert_eq!(
        best.split_whitespace().collect::<Vec<_>>()[3..5],
        ["1.00x", "3.16x"],
        "{table}"
    );
    assert!(table.contains("\nbroken skipped: ended by SIGILL"), "{table}");
}
