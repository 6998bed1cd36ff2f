//! `summary.json`: the ratios, and all that is needed to know what they are ratios of.
//!
//! `ratios` holds, per peer and recall, our queries per second over the peer's: the engine's batch call on one thread.
//! `ratios_all_threads` is the same on all threads, `ratios_single_call` the peer's median time of a single call over ours. A recall
//! that one of the two does not reach is `null` there and explained in `unreached`. `build_ratio`, `rss_ratio_served` (after all
//! searches), `rss_ratio_evicted` (after full-precision vectors were evicted and one more pass) and `index_bytes_ratio` are ours over
//! the peer's: below 1 is less; `null` where one of the two ends below the first recall. `build_ratio` is `null` also where an
//! index was kept from an earlier run: times of two days have no ratio.

use serde_json::{Map, Value, json};

use super::measured::{EngineRun, Measured, Point, Ratios, Speed};
use crate::harness::{OURS, median};

/// Everything as JSON.
pub fn summary(measured: &Measured) -> Value {
    let ratios = measured.ratios();
    let per_peer = |value: &dyn Fn(&Ratios) -> Value| -> Value {
        ratios.iter().map(|ratios| (ratios.peer.described.engine.clone(), value(ratios))).collect::<Map<_, _>>().into()
    };
    let at_targets = |value: &dyn Fn(f64) -> Value| -> Value {
        measured.targets.iter().map(|&target| (target.to_string(), value(target))).collect::<Map<_, _>>().into()
    };
    let speeds = |speed| per_peer(&|peer| at_targets(&|target| json!(measured.ratio(peer.peer, speed, target).ok())));
    let unreached = per_peer(&|peer| {
        let reason = |target: &f64| {
            let (whose, why) = measured.ratio(peer.peer, Speed::Batch, *target).err()?;
            Some((target.to_string(), format!("{whose}: {why}").into()))
        };
        measured.targets.iter().filter_map(reason).collect::<Map<_, _>>().into()
    });
    let engines = measured.engines.iter().map(|run| {
        let curve = measured.curve(run, Speed::Batch);
        (run.described.engine.clone(), at_targets(&|target| json!(curve.qps_at(target).ok())))
    });
    let ours = measured.engine(OURS);
    let mut summary = json!({
        "ratios": speeds(Speed::Batch),
        "ratios_all_threads": speeds(Speed::BatchAllThreads),
        "ratios_single_call": speeds(Speed::SingleP50),
        "unreached": unreached,
        "build_ratio": per_peer(&|peer| json!(peer.build)),
        "rss_ratio_served": per_peer(&|peer| json!(peer.rss_served)),
        "rss_ratio_evicted": per_peer(&|peer| json!(peer.rss_evicted)),
        "index_bytes_ratio": per_peer(&|peer| json!(peer.bytes)),
        "open_ms": ours.map(|run| run.open_ms),
        "first_query_ms": ours.map(|run| run.first_query_us / 1e3),
        "qps_at": engines.collect::<Map<_, _>>(),
        "engines": measured.engines.iter().map(|run| engine(measured, run)).collect::<Vec<_>>(),
        "failures": measured.failures.iter().map(|(name, error)| (name.clone(), json!(error))).collect::<Map<_, _>>(),
    });
    if let (Value::Object(summary), Value::Object(run)) = (&mut summary, json!(measured)) {
        summary.extend(run);
    }
    summary
}

fn engine(measured: &Measured, run: &EngineRun) -> Value {
    let point = |point: &Point| {
        let mut value = json!(point);
        value["qps"] = json!(point.qps(measured.queries, Speed::Batch));
        value["qps_all_threads"] = json!(point.qps(measured.queries, Speed::BatchAllThreads));
        value["p50_us"] = json!(median(&point.passes_p50_us));
        value["p99_us"] = json!(median(&point.passes_p99_us));
        value
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
        "served_mb": run.megabytes(|memory| memory.served),
        "evicted_mb": run.megabytes(|memory| memory.evicted_pass),
        "memory": run.memory,
        "points": run.points.iter().map(point).collect::<Vec<_>>(),
    })
}
