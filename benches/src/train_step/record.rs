//! `points.csv`: one run as rows that later runs can be laid beside, one per engine and shape.

use std::io::{self, Write};

use super::measured::Measured;
use crate::harness::{Conditions, extremes, field};

/// One row per engine and shape. `time_ratio` is the time of our step over this engine's.
pub fn write_points(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        out,
        "{},shape,batch,batches,tokens,engine,version,settings,step_ms,step_ms_lowest,step_ms_highest,pairs_per_s,time_ratio,padding_share,loss_difference,peak_bytes,repeats,machine",
        Conditions::HEADINGS
    )?;
    for shape in &measured.shapes {
        for run in &shape.engines {
            let (fastest, slowest) = extremes(&run.passes.seconds);
            let each = |seconds: f64| seconds * 1e3 / shape.batches.max(1) as f64;
            let ratio = Measured::time_ratio(shape, &run.described.engine);
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},{:.2},{:.2},{:.2},{:.2},{},{:.4},{:.2e},{},{},{}",
                measured.conditions.columns(),
                shape.name,
                shape.batch,
                shape.batches,
                shape.tokens,
                field(&run.described.engine),
                field(&run.described.version),
                field(&run.described.settings),
                shape.step_ms(run),
                each(fastest),
                each(slowest),
                shape.pairs_per_s(run),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.4}")),
                run.padding_share(),
                shape.loss_difference(run),
                run.passes.peak_bytes(),
                run.passes.seconds.len(),
                field(&measured.conditions.machine.cpu),
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train_step::fixture;

    #[test]
    fn rows_have_the_fields_of_the_heading() {
        let mut out = Vec::new();
        write_points(&mut out, &fixture::measured()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.split(',').count() == lines[0].split(',').count()), "{text}");
        assert!(lines[2].contains(",1000.00,1000.00,1500.00,32.00,0.5000,0.2000,5.00e-1,"), "{text}");
    }
}
