//! `summary.json`: the ratios, and all that is needed to know what they are ratios of.
//!
//! `time_ratios` holds, per peer and shape, the time of a step of `dyad` over the peer's, medians over the passes: below 1 ours is
//! faster.

use serde_json::{Map, Value, json};

use super::measured::{EngineAtShape, Measured, ShapeRun};

/// Everything as JSON.
pub fn summary(measured: &Measured) -> Value {
    let Measured { conditions, shapes } = measured;
    let of_peer = |peer: &str| -> Value {
        let ratio = |shape: &ShapeRun| Some((shape.name.clone(), json!(Measured::time_ratio(shape, peer)?)));
        shapes.iter().filter_map(ratio).collect::<Map<_, _>>().into()
    };
    json!({
        "time_ratios": measured.peers().map(|peer| (peer.to_owned(), of_peer(peer))).collect::<Map<_, _>>(),
        "workload": conditions.workload,
        "model": conditions.model,
        "device": conditions.device,
        "threads": conditions.threads,
        "repeats": conditions.repeats,
        "shapes": shapes.iter().map(|shape| (shape.name.clone(), of_shape(shape))).collect::<Map<_, _>>(),
        "machine": conditions.machine,
        "stamp": conditions.stamp,
    })
}

fn of_shape(shape: &ShapeRun) -> Value {
    let engines = shape.engines.iter().map(|run| (run.described.engine.clone(), figures(shape, run)));
    json!({
        "batch": shape.batch,
        "batches": shape.batches,
        "tokens": shape.tokens,
        "engines": engines.collect::<Map<_, _>>(),
        "failures": shape.failures.iter().map(|(name, error)| (name.clone(), json!(error))).collect::<Map<_, _>>(),
    })
}

fn figures(shape: &ShapeRun, run: &EngineAtShape) -> Value {
    json!({
        "step_ms": shape.step_ms(run),
        "pairs_per_s": shape.pairs_per_s(run),
        "padding_share": run.padding_share(),
        "peak_bytes": run.passes.peak_bytes(),
        "loss_difference": shape.loss_difference(run),
        "losses": run.losses,
        "seconds": run.passes.seconds,
        "open_ms": run.passes.open_ms,
        "version": run.described.version,
        "settings": run.described.settings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train_step::fixture;

    #[test]
    fn figures_are_the_ones_worked_out_by_hand() {
        let summary = summary(&fixture::measured());
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
    }
}
