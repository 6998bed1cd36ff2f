//! `points.csv`, `summary.json` and the table.
//!
//! In the summary `ratios` holds, per peer and shape, texts per second of `dyad` over the peer's, medians over the passes;
//! `ratios_of` holds the same for every engine of ours, so `dyad-int8` too.

use serde_json::{Map, Value, json};

use super::measured::Encode;
use crate::harness::{At, Column, Measured, OURS, ShapeRun, median, or, per_second};

const MB: f64 = 1e6;

pub(super) const COLUMNS: &[Column<Encode>] = &[
    ("shape", |at| at.shape.name.clone()),
    ("texts", |at| at.shape.task.texts.to_string()),
    ("tokens", |at| at.shape.task.tokens.to_string()),
    ("engine", |at| at.run.described.engine.clone()),
    ("version", |at| at.run.described.version.clone()),
    ("settings", |at| at.run.described.settings.clone()),
    ("tuned", |at| at.run.point.tuned.clone()),
    ("texts_per_s", |at| format!("{:.2}", at.texts_per_s())),
    ("texts_per_s_lowest", |at| format!("{:.2}", per_second(at.shape.task.texts, at.run.passes.extremes().1))),
    ("texts_per_s_highest", |at| format!("{:.2}", per_second(at.shape.task.texts, at.run.passes.extremes().0))),
    ("tokens_per_s", |at| format!("{:.1}", at.tokens_per_s())),
    ("padding_share", |at| or(at.padding_share(), "", |share| format!("{share:.4}"))),
    ("peak_bytes", |at| at.run.passes.peak_bytes().to_string()),
    ("baseline_bytes", |at| at.run.passes.baseline.rss_bytes.to_string()),
    ("smallest_cosine", |at| format!("{:.8}", at.run.point.smallest_cosine)),
    ("gflops", |at| format!("{:.2}", at.gflops())),
    ("share_of_matmul", |at| or(at.share_of_limit(), "", |share| format!("{share:.4}"))),
    ("repeats", |at| at.run.passes.seconds.len().to_string()),
];

pub(super) const TABLE: &[Column<Encode>] = &[
    ("texts/s", |at| format!("{:.1}", at.texts_per_s())),
    ("tokens/s", |at| format!("{:.0}", at.tokens_per_s())),
    ("padding", |at| or(at.padding_share(), "-", percent)),
    ("peak MB", |at| format!("{:.1}", at.run.passes.peak_bytes() as f64 / MB)),
    ("cosine", |at| format!("{:.6}", at.run.point.smallest_cosine)),
    ("GFLOP/s", |at| format!("{:.1}", at.gflops())),
    ("of limit", |at| or(at.share_of_limit(), "-", percent)),
    ("dyad over", |at| or(at.peer_ratio(), "-", |ratio| format!("{:.2}x", 1.0 / ratio))),
    ("", |at| if at.run.point.tuned.is_empty() { String::new() } else { format!("  ({})", at.run.point.tuned) }),
];

pub(super) const LEGEND: &str = "Tokens and GFLOP/s without padding; peak memory less what the process had before it opened the model; \
    cosine: the smallest to the first engine's vectors; of limit: GFLOP/s over a large matrix product's; dyad over: texts/s, above 1 \
    is faster.";

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Figures of an engine at a shape; times are those of the median pass.
impl At<'_, Encode> {
    fn texts_per_s(&self) -> f64 {
        self.shape.task.texts as f64 / self.run.passes.median_s()
    }

    /// Real tokens.
    fn tokens_per_s(&self) -> f64 {
        self.shape.task.tokens as f64 / self.run.passes.median_s()
    }

    /// Share of padding in what the linear layers saw.
    fn padding_share(&self) -> Option<f64> {
        let tokens = self.shape.task.tokens;
        let computed = self.run.point.computed_tokens.filter(|&computed| computed >= tokens && computed > 0)?;
        Some((computed - tokens) as f64 / computed as f64)
    }

    /// GFLOP/s, counted per real token.
    fn gflops(&self) -> f64 {
        self.shape.task.flops / self.run.passes.median_s() / 1e9
    }

    /// GFLOP/s over the machine's.
    fn share_of_limit(&self) -> Option<f64> {
        let limits = self.shape.task.limits.get(self.run.described.more.limited_by())?;
        Some(self.gflops() / median(limits).filter(|limit| *limit > 0.0)?)
    }
}

/// GFLOP/s of a large matrix product of a number type: the median over all passes.
fn limit(measured: &Measured<Encode>, dtype: &str) -> Option<f64> {
    let of_shape = |shape: &ShapeRun<Encode>| shape.task.limits.get(dtype).cloned();
    let all: Vec<f64> = measured.shapes.iter().filter_map(of_shape).flatten().collect();
    median(&all)
}

pub(super) fn heading(measured: &Measured<Encode>) -> String {
    let of = |dtype: &str| Some(format!(", {dtype} matrix product {:.0} GFLOP/s", limit(measured, dtype)?));
    ["f32", "bf16"].into_iter().filter_map(of).collect()
}

pub(super) fn summary(measured: &Measured<Encode>) -> Value {
    let over = |ours: &str| -> Value {
        let mut ratios = measured.per_peer(|shape, peer| Some(1.0 / shape.time_ratio(ours, peer)?));
        ratios.retain(|_, shapes| shapes.as_object().is_some_and(|shapes| !shapes.is_empty()));
        ratios.into()
    };
    let mut failures = Map::new();
    for shape in &measured.shapes {
        for (engine, error) in &shape.failures {
            failures.entry(engine.clone()).or_insert_with(|| json!({}))[&shape.name] = json!(error);
        }
    }
    let texts = |task: &Encode| {
        json!({
            "texts": task.texts,
            "tokens": task.tokens,
            "max_tokens": task.max_tokens,
            "flops": task.flops,
            "matmul_gflops": task.limits,
        })
    };
    let engine = |name: &String| measured.per_shape(|shape| Some(figures(&measured.at(shape, shape.engine(name)?))));
    json!({
        "ratios": over(OURS),
        "ratios_of": measured.sides().0.into_iter().map(|name| (name.to_owned(), over(name))).collect::<Map<_, _>>(),
        "matmul_gflops": limit(measured, "f32"),
        "matmul_gflops_bf16": limit(measured, "bf16"),
        "model_size": measured.shapes.first().map(|shape| shape.task.size),
        "shapes": measured.per_shape(|shape| Some(texts(&shape.task))),
        "engines": measured.conditions.asked.iter().map(|name| (name.clone(), engine(name).into())).collect::<Map<_, _>>(),
        "failures": failures,
    })
}

fn figures(at: &At<'_, Encode>) -> Value {
    let (described, passes, point) = (&at.run.described, &at.run.passes, &at.run.point);
    json!({
        "texts_per_s": at.texts_per_s(),
        "tokens_per_s": at.tokens_per_s(),
        "padding_share": at.padding_share(),
        "peak_bytes": passes.peak_bytes(),
        "smallest_cosine": point.smallest_cosine,
        "gflops": at.gflops(),
        "share_of_matmul": at.share_of_limit(),
        "seconds": passes.seconds,
        "open_ms": passes.open_ms,
        "tuned": point.tuned,
        "version": described.version,
        "dtype": described.more.dtype,
        "settings": described.settings,
        "baseline": passes.baseline,
        "served": passes.served,
    })
}
