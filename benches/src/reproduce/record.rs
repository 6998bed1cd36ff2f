//! Rows that later runs can be compared with: one per trial and evaluation.

use dyad_corpus::metrics::Incomparable;
use dyad_encoder::train::METRICS;
use serde_json::json;

use super::compare::{mean, paired};
use super::run::Reproduced;
use crate::harness::{FigureRow, by_name, join_figures};

/// One row per trial and evaluation. `difference` and what follows compare with the baseline's trial of the same seed.
/// Date and revision are those of the trial, which may be older than the report.
pub(crate) fn rows(reproduced: &Reproduced) -> Result<Vec<FigureRow>, Incomparable> {
    let mut rows = Vec::new();
    for (trial, values) in &reproduced.trials {
        let variant = reproduced.table.variant(&trial.variant);
        let baseline = variant.and_then(|variant| reproduced.table.baseline_of(variant));
        let probe = trial.probe.as_ref();
        for (place, (evaluated, own)) in reproduced.table.evaluations.iter().zip(values).enumerate() {
            // A model as it is was measured once.
            let same = baseline.and_then(|name| {
                let same = reproduced.trials_of(name).find(|(other, _)| other.seed == trial.seed);
                same.or_else(|| reproduced.trials_of(name).next())?.1.get(place)
            });
            let tests = same.map(|same| paired(same, own)).transpose()?;
            let mrr = tests.as_ref().map(|[mrr, _]| mrr);
            rows.push(join_figures([
                json!({
                    "date": trial.made.as_ref().map(|made| &made.date),
                    "revision": trial.made.as_ref().map_or("unknown", |made| &made.revision),
                    "table": reproduced.table.name,
                    "variant": trial.variant,
                    "seed": trial.seed,
                    "evaluation": evaluated.name,
                    "questions": own.len(),
                }),
                by_name(
                    METRICS
                        .iter()
                        .enumerate()
                        .map(|(at, metric)| (metric.to_string(), json!(mean(own, at)))),
                ),
                json!({
                    "baseline": baseline,
                    "difference": mrr.map(|mrr| mrr.difference),
                    "difference_low": mrr.map(|mrr| mrr.interval.0),
                    "difference_high": mrr.map(|mrr| mrr.interval.1),
                    "p_mrr": mrr.map(|mrr| mrr.p_randomisation),
                    "p_p1": tests.as_ref().map(|[_, first]| first.p_randomisation),
                    "separable": trial.separable(),
                    "alignment": probe.map(|probe| &probe["alignment"]),
                    "uniformity": probe.map(|probe| &probe["uniformity"]),
                    "centroid_cosine": probe.map(|probe| &probe["centroid_cosine"]),
                    "dim": trial.dim,
                    "steps": trial.steps,
                    "train_s": trial.train_s,
                    "evaluate_s": trial.evaluate_s,
                    "device": trial.device,
                    "threads": trial.threads,
                    "machine": reproduced.machine.cpu,
                    "command": reproduced.command,
                }),
            ]));
        }
    }
    Ok(rows)
}
