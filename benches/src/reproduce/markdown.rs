//! The table for people, as a README takes it.

use std::io::{self, Write};

use super::compare::ComparedVariant;
use super::run::Reproduced;
use crate::harness::TextTable;

/// Below this a p-value is printed as such.
const SMALLEST_P: f64 = 0.001;

/// A table per evaluation, and what they were made by.
pub(crate) fn write_markdown(
    out: &mut impl Write,
    reproduced: &Reproduced,
    compared: &[ComparedVariant],
) -> io::Result<()> {
    let table = &reproduced.table;
    writeln!(out, "**{}**", table.title)?;
    let shows_range = compared.iter().any(|row| row.seeds > 1);
    let shows_probe = compared.iter().any(|row| row.separable.is_some());
    for evaluated in &table.evaluations {
        let rows = || compared.iter().filter(|row| row.evaluation == evaluated.name);
        let Some(first) = rows().next() else { continue };
        writeln!(out, "\n`{}`:\n", evaluated.name)?;
        let is_shown = |heading: &str| match heading {
            "range" => shows_range,
            "separable" => shows_probe,
            _ => true,
        };
        let cells = |row| cells(row).into_iter().filter(|(heading, _)| is_shown(heading));
        let mut lines = TextTable::new("model", cells(first).map(|(heading, _)| heading));
        for row in rows() {
            lines.push(&row.variant, cells(row).map(|(_, text)| text));
        }
        lines.write_markdown(out)?;
    }
    let steps: Vec<String> = reproduced
        .table
        .variants
        .iter()
        .filter_map(|variant| trials(reproduced, &variant.name))
        .collect();
    let Reproduced {
        machine,
        stamp,
        command,
        ..
    } = reproduced;
    let over = if shows_range {
        ", each question's mean over the seeds"
    } else {
        ", one seed"
    };
    let probe = "; separable: accuracy of a linear classifier between the towers, 0.5 is mixed";
    let (steps, probe) = (steps.join("; "), if shows_probe { probe } else { "" });
    writeln!(
        out,
        "\n{steps}. Paired randomisation tests and bootstrap intervals over questions{over}{probe}."
    )?;
    let (cpu, threads) = (&machine.cpu, machine.threads);
    writeln!(
        out,
        "{cpu}, {threads} threads, {}, revision {}.\n`{command}`",
        stamp.date, stamp.revision
    )
}

/// What a variant's trials took, in words.
fn trials(reproduced: &Reproduced, variant: &str) -> Option<String> {
    let (trial, _) = reproduced.trials_of(variant).next()?;
    let count = reproduced.trials_of(variant).count();
    if trial.steps == 0 {
        return Some(format!("{variant}: as it is"));
    }
    let seconds: f64 = reproduced
        .trials_of(variant)
        .map(|(trial, _)| trial.train_s)
        .sum::<f64>()
        / count as f64;
    Some(format!("{variant}: {} steps in {:.1} min", trial.steps, seconds / 60.0))
}

/// Headings and texts of a variant.
fn cells(row: &ComparedVariant) -> [(&'static str, String); 10] {
    let mean = |place: usize| format!("{:.4}", row.means.get(place).copied().unwrap_or_default());
    let (low, high) = row.range;
    let range = if row.seeds > 1 {
        format!("{low:.4} to {high:.4}")
    } else {
        String::new()
    };
    let [difference, p_mrr, p_first, baseline] = match &row.against {
        None => Default::default(),
        Some((baseline, [mrr, first])) => {
            let (low, high) = mrr.interval;
            [
                format!("{:+.4} ({low:+.4} to {high:+.4})", mrr.difference),
                p_text(mrr.p_randomisation),
                p_text(first.p_randomisation),
                baseline.clone(),
            ]
        }
    };
    [
        ("MRR", mean(0)),
        ("range", range),
        ("P@1", mean(1)),
        ("R@5", mean(3)),
        ("nDCG@10", mean(5)),
        ("MRR difference (95 %)", difference),
        ("p, MRR", p_mrr),
        ("p, P@1", p_first),
        ("to", baseline),
        (
            "separable",
            row.separable.map_or_else(String::new, |share| format!("{share:.3}")),
        ),
    ]
}

fn p_text(value: f64) -> String {
    if value < SMALLEST_P {
        format!("< {SMALLEST_P}")
    } else {
        format!("{value:.3}")
    }
}
