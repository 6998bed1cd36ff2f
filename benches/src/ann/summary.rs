//! `summary.json`: the ratios, and all that is needed to know what they are ratios of.
//!
//! `ratios` holds, per peer and recall, our queries per second over the peer's on one thread; a recall that one of the two
//! curves does not reach is `null` there and explained in `unreached`. `build_ratio` and `rss_ratio` are ours over the
//! peer's too: below 1 is less time and less memory.

use serde_json::{Map, Value, json};

use super::engines::OURS;
use super::measured::{EngineRun, Measured};
use super::ratios::{Ratios, Side, SpeedRatio};

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
        "build_ratio": per_peer(&ratios, |peer| peer.build.map(Value::from)),
        "rss_ratio": per_peer(&ratios, |peer| peer.rss.map(Value::from)),
        "open_ms": ours.map(|run| run.open_ms),
        "first_query_ms": ours.map(|run| run.first_query_us / 1e3),
        "index_bytes_ratio": per_peer(&ratios, |peer| peer.bytes.map(Value::from)),
        "ratios_all_threads": speed(|ratio| json!(ratio.threaded.ok())),
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
    let family = |name: &String| {
        let family = measured.family(name)?;
        let at = measured.targets.iter().map(|&target| (target.to_string(), json!(family.curve.qps_at(target).ok())));
        Some((name.clone(), at.collect::<Map<_, _>>().into()))
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
        "memory": run.memory,
        "points": points,
    })
}
