//! Rows that later runs can be compared with: one per trial and evaluation.

use std::io::{self, Write};

use dyad_encoder::train::METRICS;

use super::compare::paired;
use super::run::Reproduced;
use super::values::mean;
use crate::harness::field;

/// One row per trial and evaluation. `difference` and what follows compare with the baseline's trial of the same seed.
/// Date and revision are those of the trial, which may be older than the report.
pub(crate) fn write_rows(out: &mut impl Write, reproduced: &Reproduced) -> io::Result<()> {
    let metrics: Vec<String> = METRICS.iter().map(ToString::to_string).collect();
    writeln!(
        out,
        "date,revision,table,variant,seed,evaluation,questions,{},baseline,difference,difference_low,difference_high,p_mrr,p_p1,separable,alignment,uniformity,centroid_cosine,dim,steps,train_s,evaluate_s,device,threads,machine,command",
        metrics.join(",")
    )?;
    let none = String::new;
    for (trial, values) in &reproduced.trials {
        let made = trial.made.as_ref();
        let variant = reproduced.table.variant(&trial.variant);
        let baseline = variant.and_then(|variant| reproduced.table.baseline_of(variant));
        for (place, (evaluated, own)) in reproduced.table.evaluations.iter().zip(values).enumerate() {
            let means = (0..METRICS.len()).map(|metric| format!("{:.6}", mean(own, metric)));
            // A model as it is was measured once.
            let beside = baseline.and_then(|name| {
                let mut trials = reproduced.of(name);
                let first = trials.next()?;
                let same = std::iter::once(first).chain(trials).find(|(other, _)| other.seed == trial.seed);
                same.unwrap_or(first).1.get(place)
            });
            let tests = beside.map(|beside| paired(beside, own)).transpose().map_err(io::Error::other)?;
            let against = tests.map_or_else(
                || ",,,,".to_owned(),
                |[mrr, first]| {
                    let (low, high) = mrr.interval;
                    let (difference, p) = (mrr.difference, mrr.p_randomisation);
                    format!("{difference:.6},{low:.6},{high:.6},{p:.5},{:.5}", first.p_randomisation)
                },
            );
            let probe = trial.probe.map_or_else(
                || ",,,".to_owned(),
                |probe| {
                    let (separable, alignment, uniformity) = (probe.accuracy, probe.alignment, probe.uniformity);
                    format!("{separable:.4},{alignment:.4},{uniformity:.4},{:.4}", probe.centroid_cosine)
                },
            );
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},{},{against},{probe},{},{},{:.0},{:.0},{},{},{},{}",
                made.map_or("", |made| &made.date),
                made.map_or("unknown", |made| &made.revision),
                reproduced.table.name,
                trial.variant,
                trial.seed,
                evaluated.name,
                own.len(),
                means.collect::<Vec<_>>().join(","),
                baseline.map_or_else(none, str::to_owned),
                trial.dim,
                trial.steps,
                trial.train_s,
                trial.evaluate_s,
                trial.device,
                trial.threads,
                field(&reproduced.machine.cpu),
                field(&reproduced.command),
            )?;
        }
    }
    Ok(())
}
