//! `summary.json`: the ratios, and all that is needed to know what they are ratios of.
//!
//! `ratios` holds, per peer and shape, texts per second of `dyad` over the peer's, medians over the passes; `ratios_of` holds
//! the same for every engine of ours, so `dyad-int8` too.

use serde_json::{Map, Value, json};

use super::measured::{EngineAtShape, Measured, ShapeRun};
use crate::harness::OURS;

/// Everything as JSON.
pub fn summary(measured: &Measured) -> Value {
    let Measured { conditions, size, shapes } = measured;
    let (ours, peers) = measured.sides();
    let over = |ours: &str| -> Value {
        let ratios = |peer: &str| -> Map<String, Value> {
            let ratio = |shape: &ShapeRun| Some((shape.name.clone(), json!(shape.ratio(ours, peer)?)));
            shapes.iter().filter_map(ratio).collect()
        };
        let found = peers.iter().map(|peer| ((*peer).to_owned(), ratios(peer)));
        found
            .filter(|(_, ratios)| !ratios.is_empty())
            .map(|(peer, ratios)| (peer, ratios.into()))
            .collect::<Map<_, Value>>()
            .into()
    };
    json!({
        "ratios": over(OURS),
        "ratios_of": ours.iter().map(|name| ((*name).to_owned(), over(name))).collect::<Map<_, _>>(),
        "matmul_gflops": measured.limit("f32"),
        "matmul_gflops_bf16": measured.limit("bf16"),
        "workload": conditions.workload,
        "model": conditions.model,
        "model_size": size,
        "device": conditions.device,
        "threads": conditions.threads,
        "repeats": conditions.repeats,
        "shapes": shapes.iter().map(|shape| (shape.name.clone(), texts(shape))).collect::<Map<_, _>>(),
        "engines": conditions.asked.iter().map(|name| (name.clone(), engine(measured, name))).collect::<Map<_, _>>(),
        "failures": failures(measured),
        "machine": conditions.machine,
        "stamp": conditions.stamp,
    })
}

fn texts(shape: &ShapeRun) -> Value {
    json!({
        "texts": shape.texts,
        "tokens": shape.tokens,
        "max_tokens": shape.max_tokens,
        "flops": shape.flops,
        "matmul_gflops": shape.limits,
    })
}

/// One engine at every shape where it was measured.
fn engine(measured: &Measured, name: &str) -> Value {
    let at = |shape: &ShapeRun| Some((shape.name.clone(), figures(shape, shape.engine(name)?)));
    measured.shapes.iter().filter_map(at).collect::<Map<_, _>>().into()
}

fn figures(shape: &ShapeRun, run: &EngineAtShape) -> Value {
    json!({
        "texts_per_s": shape.texts_per_s(run),
        "tokens_per_s": shape.tokens_per_s(run),
        "padding_share": shape.padding_share(run),
        "peak_bytes": run.passes.peak_bytes(),
        "smallest_cosine": run.smallest_cosine,
        "gflops": shape.gflops(run),
        "share_of_matmul": shape.share_of_limit(run),
        "seconds": run.passes.seconds,
        "open_ms": run.passes.open_ms,
        "tuned": run.tuned,
        "version": run.described.version,
        "dtype": run.described.dtype,
        "settings": run.described.settings,
        "baseline": run.passes.baseline,
        "served": run.passes.served,
    })
}

/// Per engine and shape.
fn failures(measured: &Measured) -> Value {
    let mut all = Map::new();
    for shape in &measured.shapes {
        for (engine, error) in &shape.failures {
            let entry = all.entry(engine.clone()).or_insert_with(|| json!({}));
            if let Value::Object(shapes) = entry {
                shapes.insert(shape.name.clone(), json!(error));
            }
        }
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::fixture;

    fn near(value: &Value, expected: f64) -> bool {
        value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9 * expected.abs())
    }

    #[test]
    fn figures_are_the_ones_worked_out_by_hand() {
        let summary = summary(&fixture::measured());
        // 100 texts in 2 s and in 5 s, medians.
        assert!(near(&summary["ratios"]["sentence-transformers"]["mixed"], 2.5), "{summary:#}");
        assert_eq!(summary["ratios"]["onnxruntime"], Value::Null, "it failed");
        let ours = &summary["engines"]["dyad"]["mixed"];
        assert!(near(&ours["texts_per_s"], 50.0) && near(&ours["tokens_per_s"], 500.0));
        // 1,000 tokens of 1,250 computed ones.
        assert!(near(&ours["padding_share"], 0.2));
        assert!(summary["engines"]["sentence-transformers"]["mixed"]["padding_share"].is_null());
        // 8e9 operations in 2 s are 4 GFLOP/s, of 16.
        assert!(near(&ours["gflops"], 4.0) && near(&ours["share_of_matmul"], 0.25));
        assert!(near(&summary["matmul_gflops"], 16.0) && summary["matmul_gflops_bf16"].is_null());
        assert_eq!(ours["peak_bytes"], 70_000_000);
        assert_eq!(summary["failures"]["onnxruntime"]["mixed"], "onnxruntime: `open`: no");
    }

    #[test]
    fn every_engine_of_ours_has_its_ratios() {
        let mut measured = fixture::measured();
        measured.conditions.asked.insert(1, "dyad-int8".to_owned());
        measured.shapes[0].engines.push(fixture::engine("dyad-int8", &[1.0], None, 50));
        let summary = summary(&measured);
        assert!(near(&summary["ratios_of"]["dyad-int8"]["sentence-transformers"]["mixed"], 5.0));
        assert_eq!(summary["ratios"], summary["ratios_of"]["dyad"]);
        assert!(summary["ratios"].get("dyad-int8").is_none(), "our own are no peers");
    }
}
