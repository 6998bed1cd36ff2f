//! `summary.json`: the ratios, and all that is needed to know what they are ratios of.
//!
//! `ratios` holds, per peer and recall, our queries per second over the peer's on one thread; a recall that one of the two
//! curves does not reach is `null` there and explained in `unreached`. `build_ratio`, `rss_ratio` (vectors cold) and
//! `rss_ratio_served` (after one more pass) are ours over the peer's too: below 1 is less time and less memory.
//! `build_ratio` is `null` where one of the two indexes was kept from an earlier run: times of two days are no ratio.

use serde_json::{Map, Value, json};

use super::measured::{Asked, EngineRun, Measured};
use super::ratios::{Ratios, Side, SpeedRatio};
use crate::harness::OURS;

/// Everything as JSON.
pub fn summary(measured: &Measured) -> Value {
    let ratios = measured.ratios();
    let speed = |value: fn(&SpeedRatio) -> Value| -> Value {
        per_peer(&ratios, |peer| {
            Some(peer.speed.iter().map(|ratio| (ratio.target.to_string(), value(ratio))).collect::<Map<_, _>>().into())
        })
    };
    let ours = measured.engine(OURS);
    json!({
        "ratios": speed(|ratio| json!(ratio.single.ok())),
        "build_ratio": per_peer(&ratios, |peer| Some(json!(peer.build))),
        "rss_ratio": per_peer(&ratios, |peer| peer.rss.map(Value::from)),
        "rss_ratio_served": per_peer(&ratios, |peer| peer.rss_served.map(Value::from)),
        "open_ms": ours.map(|run| run.open_ms),
        "first_query_ms": ours.map(|run| run.first_query_us / 1e3),
        "index_bytes_ratio": per_peer(&ratios, |peer| peer.bytes.map(Value::from)),
        "ratios_all_threads": speed(|ratio| json!(ratio.threaded.ok())),
        "ratios_of_fastest_passes": speed(|ratio| json!(ratio.fastest.ok())),
        "ratios_at_least": speed(|ratio| json!(ratio.at_least)),
        "unreached": unreached(&ratios),
        "compared_member": per_peer(&ratios, |peer| Some(peer.representative.clone().into())),
        "workload": measured.workload,
        "metric": measured.metric,
        "rows": measured.rows,
        "dim": measured.dim,
        "queries": measured.queries,
        "k": measured.k,
        "m": measured.m,
        "ef_construction": measured.ef_construction,
        "threads": measured.threads,
        "repeats": measured.repeats,
        "targets": measured.targets,
        "machine": measured.machine,
        "stamp": measured.stamp,
        "qps_at": qps_at(measured),
        "engines": measured.engines.iter().map(|run| engine(measured, run)).collect::<Vec<_>>(),
        "failures": measured.failures.iter().map(|(name, error)| (name.clone(), json!(error))).collect::<Map<_, _>>(),
    })
}

fn per_peer(ratios: &[Ratios], value: impl Fn(&Ratios) -> Option<Value>) -> Value {
    ratios.iter().filter_map(|peer| Some((peer.peer.name.clone(), value(peer)?))).collect::<Map<_, _>>().into()
}

/// Why a ratio is missing, in words.
fn unreached(ratios: &[Ratios]) -> Value {
    per_peer(ratios, |peer| {
        let reasons: Map<String, Value> = peer
            .speed
            .iter()
            .filter_map(|ratio| {
                let (side, outside) = ratio.single.err()?;
                let whose = if side == Side::Ours { OURS } else { &peer.peer.name };
                Some((ratio.target.to_string(), format!("{whose}: {outside}").into()))
            })
            .collect();
        (!reasons.is_empty()).then(|| reasons.into())
    })
}

/// Queries per second of every name asked for, at each recall.
fn qps_at(measured: &Measured) -> Value {
    let family = |asked: &Asked| {
        let family = measured.family(asked)?;
        let at = measured.targets.iter().map(|&target| (target.to_string(), json!(family.curve.qps_at(target).ok())));
        Some((asked.name.clone(), at.collect::<Map<_, _>>().into()))
    };
    measured.asked.iter().filter_map(family).collect::<Map<_, Value>>().into()
}

fn engine(measured: &Measured, run: &EngineRun) -> Value {
    let points: Vec<Value> = run
        .points
        .iter()
        .map(|point| {
            json!({
                "value": point.value,
                "recall": point.recall,
                "qps": point.qps(measured.queries),
                "qps_all_threads": point.threaded_qps(measured.queries),
                "p50_us": point.p50_us,
                "p99_us": point.p99_us,
                "rounds": point.rounds,
                "seconds": point.seconds,
                "seconds_all_threads": point.threaded_seconds,
            })
        })
        .collect();
    json!({
        "engine": run.described.engine,
        "version": run.described.version,
        "settings": run.described.settings,
        "sweep": run.described.sweep,
        "build_s": run.index.built.build_s,
        "index_bytes": run.index.built.index_bytes,
        "index_reused": run.reused,
        "built_at": run.index.at,
        "open_ms": run.open_ms,
        "first_query_us": run.first_query_us,
        "serving_bytes": run.memory.map(|memory| memory.serving_bytes()),
        "served_bytes": run.memory.map(|memory| memory.served_bytes()),
        "memory": run.memory,
        "points": points,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ann::fixture;

    fn near(value: &Value, expected: f64) -> bool {
        value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9 * expected)
    }

    #[test]
    fn ratios_are_the_ones_worked_out_by_hand() {
        let summary = summary(&fixture::measured());
        let ratios = &summary["ratios"]["hnswlib"];
        // At 0.95 dyad is half way from 10^4 to 10^3: 10^3.5. hnswlib is half way from 10^3 to 10^2: 10^2.5.
        assert!(near(&ratios["0.95"], 10.0), "{ratios}");
        // At 0.97: 10^2.5 over 10^2.
        assert!(near(&ratios["0.97"], 10f64.sqrt()), "{ratios}");
        // dyad ends at 0.98.
        assert!(ratios["0.99"].is_null(), "{ratios}");
        assert_eq!(summary["unreached"]["hnswlib"], json!({ "0.99": "dyad: reaches only 0.9800" }));
        assert!(near(&summary["ratios_all_threads"]["hnswlib"]["0.95"], 10.0));
        assert!(near(&summary["ratios_of_fastest_passes"]["hnswlib"]["0.97"], 10f64.sqrt()));
        // Without interpolation: 1,000 at 0.96 over 100 at 0.97.
        assert!(near(&summary["ratios_at_least"]["hnswlib"]["0.95"], 10.0));
        assert!(near(&summary["build_ratio"]["hnswlib"], 0.5));
        assert!(near(&summary["rss_ratio"]["hnswlib"], 0.25));
        // 12 + 5 - 10 over 12 + 20 - 10.
        assert!(near(&summary["rss_ratio_served"]["hnswlib"], 7.0 / 22.0));
        assert!(near(&summary["open_ms"], 1.5));
        assert!(near(&summary["qps_at"]["dyad"]["0.95"], 10f64.powf(3.5)));
    }

    #[test]
    fn a_family_counts_with_its_best_member_at_each_recall() {
        let mut measured = fixture::measured();
        let members = ["svs-lvq8", "svs-lvq4x8", "svs-lvq4x4"].map(str::to_owned).to_vec();
        measured.asked = vec![Asked::one("dyad"), Asked { name: "svs-lvq".to_owned(), members }];
        measured.engines.truncate(1);
        // One is faster at low recall, the other alone reaches 0.98.
        measured.engines.push(fixture::engine("svs-lvq8", &[(0.94, 0.1), (0.96, 1.0)], 3.0, 9));
        measured.engines.push(fixture::engine("svs-lvq4x8", &[(0.94, 1.0), (0.98, 10.0)], 5.0, 10));
        let summary = summary(&measured);
        assert!(near(&summary["ratios"]["svs-lvq"]["0.95"], 1.0));
        // lvq8 ends at 0.96. lvq4x8 by itself is three quarters of the way from 1,000 to 100; dyad half way.
        assert!(near(&summary["ratios"]["svs-lvq"]["0.97"], 10f64.powf(0.25)));
        // Build and memory are those of the fastest at 0.95.
        assert_eq!(summary["compared_member"]["svs-lvq"], "svs-lvq8");
        assert!(near(&summary["build_ratio"]["svs-lvq"], 2.0 / 3.0));
    }

    #[test]
    fn builds_of_two_days_have_no_ratio() {
        for kept in [0, 1] {
            let mut measured = fixture::measured();
            measured.engines[kept].reused = true;
            let summary = summary(&measured);
            assert!(summary["build_ratio"].as_object().unwrap()["hnswlib"].is_null(), "{kept}");
            assert!(near(&summary["rss_ratio"]["hnswlib"], 0.25));
        }
    }

    #[test]
    fn without_our_engine_there_are_no_ratios_but_all_figures() {
        let mut measured = fixture::measured();
        measured.engines.remove(0);
        measured.failures.push(("dyad".to_owned(), "broken".to_owned()));
        let summary = summary(&measured);
        assert_eq!(summary["ratios"], json!({}));
        assert!(summary["open_ms"].is_null());
        assert_eq!((summary["engines"].as_array().unwrap().len(), &summary["failures"]["dyad"]), (1, &json!("broken")));
    }
}
