//! The figures for people: a table per shape.

use std::io::{self, Write};

use super::measured::Measured;
use crate::harness::{OURS, write_engines};

/// Prints every engine at every shape.
pub fn write_table(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(out, "{}", measured.conditions.heading())?;
    let width = measured.conditions.width();
    for shape in &measured.shapes {
        let of_step = shape.tokens as f64 / shape.batches.max(1) as f64;
        writeln!(out, "\n{}: steps with {} pairs, {of_step:.0} tokens", shape.name, shape.batch)?;
        let rows = shape.engines.iter().map(|run| {
            let name = &run.described.engine;
            let ratio = Measured::time_ratio(shape, name).filter(|_| name != OURS);
            let figures = [
                format!("{:.1}", shape.step_ms(run)),
                format!("{:.1}", shape.pairs_per_s(run)),
                format!("{:.1} %", run.padding_share() * 100.0),
                format!("{:.1}", run.passes.peak_bytes() as f64 / 1e6),
                format!("{:.1e}", shape.loss_difference(run)),
                ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}x")),
            ];
            (name.as_str(), figures, String::new())
        });
        let headings = ["ms/step", "pairs/s", "padding", "peak MB", "loss off", "dyad's time"];
        write_engines(out, width, headings, rows, &shape.failures)?;
    }
    writeln!(
        out,
        "\nMedians. A step: forward of both towers, in-batch loss, backward, clipping, AdamW; tokenizing is not timed. Peak memory \
         less what the process had before it opened the model; loss off: largest relative difference to the first engine's losses of \
         the same batches; dyad's time: over this engine's, below 1 is faster."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train_step::fixture;

    #[test]
    fn figures_stand_in_the_row_of_their_engine() {
        let mut out = Vec::new();
        write_table(&mut out, &fixture::measured()).unwrap();
        let table = String::from_utf8(out).unwrap();
        let line = table.lines().find(|line| line.starts_with("sentence-transformers")).unwrap();
        let row: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(row[1..], ["1000.0", "32.0", "20.0", "%", "300.0", "5.0e-1", "0.500x"]);
        assert!(
            table.contains("squad-32: steps with 32 pairs, 500 tokens") && table.contains("other failed"),
            "{table}"
        );
    }
}
