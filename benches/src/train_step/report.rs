//! `points.csv`, `summary.json` and the table.
//!
//! In the summary `time_ratios` holds, per peer and shape, the time of a step of `dyad` over the peer's, medians over the passes:
//! below 1 ours is faster. In the record `time_ratio` is the time of our step over this engine's.

use serde_json::{Map, Value, json};

use super::protocol::TrainStep;
use crate::harness::{At, Column, Measured, OURS, ShapeRun, or};

pub(super) const COLUMNS: &[Column<TrainStep>] = &[
    ("shape", |at| at.shape.name.clone()),
    ("batch", |at| at.shape.task.batch.to_string()),
    ("batches", |at| at.shape.task.batches.to_string()),
    ("tokens", |at| at.shape.task.tokens.unwrap_or(0).to_string()),
    ("engine", |at| at.run.described.engine.clone()),
    ("version", |at| at.run.described.version.clone()),
    ("settings", |at| at.run.described.settings.clone()),
    ("step_ms", |at| format!("{:.2}", at.step_ms(at.run.passes.median_s()))),
    ("step_ms_lowest", |at| format!("{:.2}", at.step_ms(at.run.passes.extremes().0))),
    ("step_ms_highest", |at| format!("{:.2}", at.step_ms(at.run.passes.extremes().1))),
    ("pairs_per_s", |at| format!("{:.2}", at.pairs_per_s())),
    ("time_ratio", |at| or(at.shape.time_ratio(OURS, &at.run.described.engine), "", |ratio| format!("{ratio:.4}"))),
    ("padding_share", |at| format!("{:.4}", at.padding_share())),
    ("loss_difference", |at| format!("{:.2e}", at.loss_difference())),
    ("peak_bytes", |at| at.run.passes.peak_bytes().to_string()),
    ("repeats", |at| at.run.passes.seconds.len().to_string()),
    ("machine", |at| at.conditions.machine.cpu.clone()),
];

pub(super) const TABLE: &[Column<TrainStep>] = &[
    ("ms/step", |at| format!("{:.1}", at.step_ms(at.run.passes.median_s()))),
    ("pairs/s", |at| format!("{:.1}", at.pairs_per_s())),
    ("padding", |at| format!("{:.1} %", at.padding_share() * 100.0)),
    ("peak MB", |at| format!("{:.1}", at.run.passes.peak_bytes() as f64 / 1e6)),
    ("loss off", |at| format!("{:.1e}", at.loss_difference())),
    ("dyad's time", |at| or(at.peer_ratio(), "-", |ratio| format!("{ratio:.3}x"))),
];

pub(super) const LEGEND: &str = "A step: forward of both towers, in-batch loss, backward, clipping, AdamW; tokenizing is not timed. \
    Peak memory less what the process had before it opened the model; loss off: largest relative difference to the first engine's \
    losses of the same batches; dyad's time: over this engine's, below 1 is faster.";

impl At<'_, TrainStep> {
    /// Milliseconds of a step in a pass of so many seconds.
    fn step_ms(&self, seconds: f64) -> f64 {
        seconds * 1e3 / self.shape.task.batches.max(1) as f64
    }

    /// Of the median pass.
    fn pairs_per_s(&self) -> f64 {
        (self.shape.task.batch * self.shape.task.batches) as f64 / self.run.passes.median_s()
    }

    /// Share of padding in what the linear layers saw.
    fn padding_share(&self) -> f64 {
        let point = &self.run.point;
        point.computed_tokens.saturating_sub(point.tokens) as f64 / point.computed_tokens.max(1) as f64
    }

    /// The largest difference to the first engine's losses of the same batches, in shares of those.
    fn loss_difference(&self) -> f64 {
        let first = self.shape.engines.first().map_or(&[][..], |first| &first.point.losses);
        let pairs = self.run.point.losses.iter().zip(first);
        pairs.map(|(own, other)| (own - other).abs() / other.abs().max(f64::MIN_POSITIVE)).fold(0.0, f64::max)
    }
}

pub(super) fn summary(measured: &Measured<TrainStep>) -> Value {
    let of_shape = |shape: &ShapeRun<TrainStep>| {
        let engine = |run| figures(&measured.at(shape, run));
        let engines = shape.engines.iter().map(|run| (run.described.engine.clone(), engine(run)));
        json!({
            "batch": shape.task.batch,
            "batches": shape.task.batches,
            "tokens": shape.task.tokens.unwrap_or(0),
            "engines": engines.collect::<Map<_, _>>(),
            "failures": shape.failed(),
        })
    };
    json!({
        "time_ratios": measured.per_peer(|shape, peer| shape.time_ratio(OURS, peer)),
        "shapes": measured.per_shape(|shape| Some(of_shape(shape))),
    })
}

fn figures(at: &At<'_, TrainStep>) -> Value {
    let (described, passes) = (&at.run.described, &at.run.passes);
    json!({
        "step_ms": at.step_ms(passes.median_s()),
        "pairs_per_s": at.pairs_per_s(),
        "padding_share": at.padding_share(),
        "peak_bytes": passes.peak_bytes(),
        "loss_difference": at.loss_difference(),
        "losses": at.run.point.losses,
        "seconds": passes.seconds,
        "open_ms": passes.open_ms,
        "version": described.version,
        "settings": described.settings,
    })
}
