//! The table for people, as a README takes it.

use std::io::{self, Write};

use super::compare::Compared;
use super::run::Reproduced;

/// Below this a p-value is printed as such.
const SMALLEST_P: f64 = 0.001;

/// A table per evaluation, and what they were made by.
pub(crate) fn write_markdown(out: &mut impl Write, reproduced: &Reproduced, compared: &[Compared]) -> io::Result<()> {
    let table = &reproduced.table;
    writeln!(out, "**{}**", table.title)?;
    let any = |found: &dyn Fn(&Compared) -> bool| compared.iter().any(found);
    let (seeds, probed) = (any(&|row| row.seeds > 1), any(&|row| row.separable.is_some()));
    for evaluated in &table.evaluations {
        let rows: Vec<&Compared> = compared.iter().filter(|row| row.evaluation == evaluated.name).collect();
        if rows.is_empty() {
            continue;
        }
        writeln!(out, "\n`{}`:\n", evaluated.name)?;
        let (range, towers) = (if seeds { " range |" } else { "" }, if probed { " separable |" } else { "" });
        writeln!(
            out,
            "| model | MRR |{range} P@1 | R@5 | nDCG@10 | MRR difference (95 %) | p, MRR | p, P@1 | to |{towers}"
        )?;
        let count = 9 + usize::from(seeds) + usize::from(probed);
        writeln!(out, "|{}", "---|".repeat(count))?;
        for row in rows {
            let mean = |place: usize| row.means.get(place).copied().unwrap_or_default();
            write!(out, "| {} | {:.4} |", row.variant, mean(0))?;
            if seeds {
                let (low, high) = row.range;
                if row.seeds > 1 { write!(out, " {low:.4} to {high:.4} |")? } else { write!(out, " |")? }
            }
            write!(out, " {:.4} | {:.4} | {:.4} |", mean(1), mean(3), mean(5))?;
            match &row.against {
                None => write!(out, " | | | |")?,
                Some((name, [mrr, first])) => {
                    let (low, high) = mrr.interval;
                    write!(out, " {:+.4} ({low:+.4} to {high:+.4}) |", mrr.difference)?;
                    write!(out, " {} | {} | {name} |", p(mrr.p_randomisation), p(first.p_randomisation))?;
                }
            }
            if probed {
                write!(out, " {} |", row.separable.map_or_else(String::new, |share| format!("{share:.3}")))?;
            }
            writeln!(out)?;
        }
    }
    let steps: Vec<String> =
        reproduced.table.variants.iter().filter_map(|variant| trials(reproduced, &variant.name)).collect();
    let Reproduced { machine, stamp, command, .. } = reproduced;
    let over = if seeds { ", each question's mean over the seeds" } else { ", one seed" };
    let probe = "; separable: accuracy of a linear classifier between the towers, 0.5 is mixed";
    let (steps, probe) = (steps.join("; "), if probed { probe } else { "" });
    writeln!(out, "\n{steps}. Paired randomisation tests and bootstrap intervals over questions{over}{probe}.")?;
    let (cpu, threads) = (&machine.cpu, machine.threads);
    writeln!(out, "{cpu}, {threads} threads, {}, revision {}.\n`{command}`", stamp.date, stamp.revision)
}

/// What a variant's trials took, in words.
fn trials(reproduced: &Reproduced, variant: &str) -> Option<String> {
    let (trial, _) = reproduced.of(variant).next()?;
    let count = reproduced.of(variant).count();
    if trial.steps == 0 {
        return Some(format!("{variant}: as it is"));
    }
    let seconds: f64 = reproduced.of(variant).map(|(trial, _)| trial.train_s).sum::<f64>() / count as f64;
    Some(format!("{variant}: {} steps in {:.1} min", trial.steps, seconds / 60.0))
}

fn p(value: f64) -> String {
    if value < SMALLEST_P { format!("< {SMALLEST_P}") } else { format!("{value:.3}") }
}
