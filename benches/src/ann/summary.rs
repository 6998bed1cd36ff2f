//! `summary.json`: the ratios, and all that is needed to know what they are ratios of.
//!
//! `ratios` holds, per peer and recall, our queries per second over the peer's on one thread; a recall that one of the two
//! curves does not reach is `null` there and explained in `unreached`. `build_ratio`, `rss_ratio` (vectors cold) and
//! `rss_ratio_served` (after one more pass) are ours over the peer's too: below 1 is less time and less memory.
//! `build_ratio` is `null` where one of the two indexes was kept from an earlier run: times of two days are no ratio.

use serde_json::{Map, Value, json};

use super::measured::{Asked, EngineRun, Measured, MemoryOverTime, Point, Ratios, Speed};
use crate::harness::OURS;

/// Everything as JSON.
pub fn summary(measured: &Measured) -> Value {
    let ratios = measured.ratios();
    let at_targets = |value: &dyn Fn(&Asked, f64) -> Option<f64>| -> Value {
        let of_peer = |peer: &Ratios| -> Map<String, Value> {
            measured.targets.iter().map(|&target| (target.to_string(), json!(value(&peer.peer, target)))).collect()
        };
        per_peer(&ratios, |peer| Some(of_peer(peer).into()))
    };
    let speed = |speed: Speed| at_targets(&|peer, target| measured.ratio(peer, speed, target).ok());
    let ours = measured.engine(OURS);
    json!({
        "ratios": speed(Speed::Median),
        "build_ratio": per_peer(&ratios, |peer| Some(json!(peer.build))),
        "rss_ratio": per_peer(&ratios, |peer| peer.rss.map(Value::from)),
        "rss_ratio_served": per_peer(&ratios, |peer| peer.rss_served.map(Value::from)),
        "open_ms": ours.map(|run| run.open_ms),
        "first_query_ms": ours.map(|run| run.first_query_us / 1e3),
        "index_bytes_ratio": per_peer(&ratios, |peer| peer.bytes.map(Value::from)),
        "ratios_all_threads": speed(Speed::AllThreads),
        "ratios_of_fastest_passes": speed(Speed::Fastest),
        "ratios_at_least": at_targets(&|peer, target| measured.ratio_at_least(peer, target)),
        "unreached": unreached(measured, &ratios),
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
fn unreached(measured: &Measured, ratios: &[Ratios]) -> Value {
    per_peer(ratios, |peer| {
        let reason = |target: &f64| {
            let (whose, why) = measured.ratio(&peer.peer, Speed::Median, *target).err()?;
            Some((target.to_string(), format!("{whose}: {why}").into()))
        };
        let reasons: Map<String, Value> = measured.targets.iter().filter_map(reason).collect();
        (!reasons.is_empty()).then(|| reasons.into())
    })
}

/// Queries per second of every name asked for, at each recall.
fn qps_at(measured: &Measured) -> Value {
    let family = |asked: &Asked| {
        let curve = measured.curve(&measured.family(asked)?.members, Speed::Median);
        let at = measured.targets.iter().map(|&target| (target.to_string(), json!(curve.qps_at(target).ok())));
        Some((asked.name.clone(), at.collect::<Map<_, _>>().into()))
    };
    measured.asked.iter().filter_map(family).collect::<Map<_, Value>>().into()
}

fn engine(measured: &Measured, run: &EngineRun) -> Value {
    let point = |point: &Point| {
        json!({
            "value": point.value,
            "recall": point.recall,
            "qps": point.qps(measured.queries, Speed::Median),
            "qps_all_threads": point.qps(measured.queries, Speed::AllThreads),
            "p50_us": point.p50_us,
            "p99_us": point.p99_us,
            "rounds": point.rounds,
            "seconds": point.seconds,
            "seconds_all_threads": point.threaded_seconds,
        })
    };
    json!({
        "engine": run.described.engine,
        "version": run.described.version,
        "settings": run.described.settings,
        "sweep": run.described.more.sweep,
        "build_s": run.index.built.build_s,
        "index_bytes": run.index.built.index_bytes,
        "index_reused": run.reused,
        "built_at": run.index.at,
        "open_ms": run.open_ms,
        "first_query_us": run.first_query_us,
        "serving_bytes": run.memory.as_ref().map(MemoryOverTime::serving_bytes),
        "served_bytes": run.memory.as_ref().map(MemoryOverTime::served_bytes),
        "memory": run.memory,
        "points": run.points.iter().map(point).collect::<Vec<_>>(),
    })
}
