//! The figures for people: a table per shape.

use std::io::{self, Write};

use super::measured::{EngineAtShape, Measured, ShapeRun};
use crate::harness::{OURS, write_engines};

const MB: f64 = 1e6;

/// Prints every engine at every shape.
pub fn write_table(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    write!(out, "{}", measured.conditions.heading())?;
    for dtype in ["f32", "bf16"] {
        if let Some(limit) = measured.limit(dtype) {
            write!(out, ", {dtype} matrix product {limit:.0} GFLOP/s")?;
        }
    }
    writeln!(out)?;
    let width = measured.conditions.width();
    for shape in &measured.shapes {
        writeln!(
            out,
            "\n{}: {} texts, {:.1} tokens each, at most {}",
            shape.name,
            shape.texts,
            shape.tokens as f64 / shape.texts.max(1) as f64,
            shape.max_tokens
        )?;
        let headings = ["texts/s", "tokens/s", "padding", "peak MB", "cosine", "GFLOP/s", "of limit", "dyad over"];
        write_engines(out, width, headings, shape.engines.iter().map(|run| row(shape, run)), &shape.failures)?;
    }
    writeln!(
        out,
        "\nMedians. Tokens and GFLOP/s without padding; peak memory less what the process had before it opened the model; cosine: \
         the smallest to the first engine's vectors; of limit: GFLOP/s over a large matrix product's; dyad over: texts/s, above 1 is faster."
    )
}

fn row<'a>(shape: &ShapeRun, run: &'a EngineAtShape) -> (&'a str, [String; 8], String) {
    let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let name = &run.described.engine;
    let ratio = shape.ratio(OURS, name).filter(|_| name != OURS);
    let figures = [
        format!("{:.1}", shape.texts_per_s(run)),
        format!("{:.0}", shape.tokens_per_s(run)),
        percent(shape.padding_share(run)),
        format!("{:.1}", run.passes.peak_bytes() as f64 / MB),
        format!("{:.6}", run.smallest_cosine),
        format!("{:.1}", shape.gflops(run)),
        percent(shape.share_of_limit(run)),
        ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x")),
    ];
    (name, figures, if run.tuned.is_empty() { String::new() } else { format!("  ({})", run.tuned) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::fixture;

    #[test]
    fn figures_stand_in_the_row_of_their_engine() {
        let mut out = Vec::new();
        write_table(&mut out, &fixture::measured()).unwrap();
        let table = String::from_utf8(out).unwrap();
        let row = |name: &str| -> Vec<String> {
            let line = table.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(
            row("dyad ")[1..],
            ["50.0", "500", "20.0", "%", "70.0", "0.999900", "4.0", "25.0", "%", "-", "(batch", "32)"]
        );
        assert_eq!(row("sentence-transformers")[8..10], ["%", "2.50x"]);
        assert!(table.contains("onnxruntime failed: onnxruntime: `open`: no"), "{table}");
        assert!(table.contains("f32 matrix product 16 GFLOP/s"), "{table}");
    }
}
