//! Curves, exactness and old certificates.

use super::*;

fn certificate() -> Certificate {
    let point = |ef, recall_at_10, recall_at_100| RecallPoint {
        ef,
        recall_at_10,
        recall_at_100,
        distance_computations: 0.0,
        scored: 0.0,
    };
    let scores = [(1, 0.9), (10, 0.7), (100, 0.5), (1000, 0.4)];
    Certificate {
        recall: vec![
            point(16, 0.9, None),
            point(128, 0.97, Some(0.8)),
            point(256, 0.99, Some(0.96)),
        ],
        calibration: scores
            .map(|(rank, score)| RankScore {
                rank,
                score,
                low: score - 0.3,
            })
            .into(),
        ..Certificate::default()
    }
}

#[test]
fn margins_are_for_searches_that_they_make_no_worse() {
    let measured = certificate();
    let worse = |by: f64| -> Vec<RecallPoint> {
        let less = |point: &RecallPoint| RecallPoint {
            recall_at_10: point.recall_at_10 - by,
            recall_at_100: point.recall_at_100.map(|recall| recall - by),
            ..point.clone()
        };
        measured.recall.iter().map(less).collect()
    };
    let [same, lower] = [0.001, 0.01].map(|by| Certificate {
        adaptive: worse(by),
        ..measured.clone()
    });
    for (k, ef, wider) in [
        (10, 16, Some(32)),
        (10, 4_000, None),
        (1, 128, Some(256)),
        (100, 128, None),
    ] {
        let widths = [&same, &lower].map(|certificate| certificate.adaptive_width(k, ef));
        assert_eq!(widths, [Some(ef), wider], "{k} {ef}");
    }
    let shallow = |points: &[RecallPoint]| -> Vec<RecallPoint> {
        points
            .iter()
            .map(|point| RecallPoint {
                recall_at_100: None,
                ..point.clone()
            })
            .collect()
    };
    let unknown = Certificate {
        adaptive: shallow(&same.adaptive),
        recall: shallow(&same.recall),
        ..same
    };
    assert_eq!([10, 11].map(|k| unknown.adaptive_width(k, 16)), [Some(16), None]);
    assert_eq!(measured.adaptive_width(100, 16), Some(16), "not measured yet");
}

#[test]
fn a_wider_margin_takes_the_place_of_a_beam_that_costs_more() {
    let scored = |point: &RecallPoint, by: f64, scored: f64| RecallPoint {
        recall_at_10: point.recall_at_10 - by,
        recall_at_100: point.recall_at_100.map(|recall| recall - by),
        distance_computations: 10.0 * point.ef as f64,
        scored: scored * point.ef as f64,
        ..point.clone()
    };
    let measured = certificate();
    let [beams, adaptive] = [(0.0, 6.0), (0.01, 1.0)].map(|(by, per)| {
        measured
            .recall
            .iter()
            .map(|point| scored(point, by, per))
            .collect::<Vec<_>>()
    });
    let both = Certificate {
        recall: beams.clone(),
        adaptive: adaptive.clone(),
        ..measured.clone()
    };
    // At 128 the beam finds .97 for 128 * (10 + 2 * 6) = 2,816, and a margin at 256 .98 for 256 * (10 + 2) = 3,072.
    assert_eq!(both.adaptive_width(10, 128), None);
    let costly = Certificate {
        recall: beams.iter().map(|point| scored(point, 0.0, 8.0)).collect(),
        ..both.clone()
    };
    assert_eq!(
        [64, 100, 128, 129].map(|ef| costly.adaptive_width(10, ef)),
        [Some(128), Some(200), Some(256), None]
    );
    assert_eq!(costly.adaptive_width(10, 256), None, "none was measured that is wider");
    assert_eq!(costly.adaptive_width(11, 128), None, "its time is not known");
    // At 256 a margin finds as much as the beam: widths below it are no narrower than those further below.
    let mut best = costly;
    best.adaptive[2].recall_at_10 = 0.99;
    assert_eq!(
        [64, 128, 129, 256, 400].map(|ef| best.adaptive_width(10, ef)),
        [128, 256, 256, 256, 400].map(Some)
    );
}

#[test]
fn a_margin_is_the_fall_of_the_mean_score_between_two_ranks() {
    let certificate = certificate();
    assert!((certificate.margin(10, 100).unwrap() - 0.2).abs() < 1e-6);
    // Half way between 10 and 1000 by logarithm is 100; between 10 and 100 it is 31.6.
    assert!((certificate.margin(10, 32).unwrap() - 0.1).abs() < 2e-3);
    assert!(certificate.margin(100, 10).unwrap().abs() < 1e-9);
    assert_eq!(certificate.margin(10, 1001), None);
    assert_eq!(Certificate::default().margin(1, 2), None);
}

#[test]
fn a_bound_is_what_nearly_all_questions_need() {
    let point = |(ef, p90)| ExpansionPoint {
        ef,
        p50: p90 / 2,
        p90,
        p95: 2 * p90,
        p99: 3 * p90,
    };
    let expansions = [(16, 20), (64, 80), (128, 320)].map(point).into();
    let certificate = Certificate {
        expansions,
        ..certificate()
    };
    let bounds = [1, 16, 32, 64, 90, 128, 129].map(|ef| certificate.expansion_bound(10, ef));
    assert_eq!(
        bounds,
        [Some(20), Some(20), Some(40), Some(80), Some(159), Some(320), None]
    );
    assert_eq!(
        (certificate.expansion_bound(1, 64), certificate.expansion_bound(11, 64)),
        (Some(80), None)
    );
    assert_eq!(Certificate::default().expansion_bound(10, 64), None);
}

#[test]
fn a_target_picks_the_smallest_width_that_reached_it() {
    let points = certificate().recall;
    assert_eq!(ef_for(&points, 0.95, 10), Some(128));
    assert_eq!(ef_for(&points, 0.95, 100), Some(256));
    assert_eq!(ef_for(&points, 0.9, 10), Some(16));
    assert_eq!(ef_for(&points, 0.995, 10), None);
}

#[test]
fn certificates_of_earlier_releases_are_read_and_measured_nothing_through_filters() {
    let certificate = Certificate {
        filtered: Some(Vec::new()),
        ..certificate()
    };
    let written = serde_json::to_string(&certificate).unwrap();
    assert_eq!(serde_json::from_str::<Certificate>(&written).unwrap(), certificate);
    let earlier = written.replace(r#","filtered":[]"#, "");
    assert_ne!(earlier, written);
    let expected = Certificate {
        filtered: None,
        ..certificate
    };
    assert_eq!(serde_json::from_str::<Certificate>(&earlier).unwrap(), expected);
}

#[test]
fn numbers_that_json_does_not_know_are_found_in_every_part() {
    let whole = certificate();
    let recall = whole.recall.clone();
    let filtered = |share, recall| Some(vec![FilteredRecall { share, recall }]);
    assert!(
        Certificate {
            filtered: filtered(0.5, recall.clone()),
            ..whole.clone()
        }
        .is_finite()
    );
    assert!(
        !Certificate {
            filtered: filtered(f64::NAN, recall.clone()),
            ..whole.clone()
        }
        .is_finite()
    );
    let infinite: Vec<_> = recall
        .into_iter()
        .map(|point| RecallPoint {
            scored: f64::INFINITY,
            ..point
        })
        .collect();
    assert!(
        !Certificate {
            filtered: filtered(0.5, infinite.clone()),
            ..whole.clone()
        }
        .is_finite()
    );
    assert!(
        !Certificate {
            recall: infinite,
            ..whole
        }
        .is_finite()
    );
}
