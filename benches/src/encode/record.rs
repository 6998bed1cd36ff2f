//! `points.csv`: one run as rows that later runs can be laid beside, one per engine and shape.

use std::io::{self, Write};

use super::measured::Measured;
use crate::harness::{Conditions, extremes, field};

/// One row per engine and shape.
pub fn write_points(out: &mut impl Write, measured: &Measured) -> io::Result<()> {
    writeln!(
        out,
        "{},shape,texts,tokens,engine,version,settings,tuned,texts_per_s,texts_per_s_lowest,texts_per_s_highest,tokens_per_s,padding_share,peak_bytes,baseline_bytes,smallest_cosine,gflops,share_of_matmul,repeats",
        Conditions::HEADINGS
    )?;
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.4}"));
    for shape in &measured.shapes {
        for run in &shape.engines {
            let (fastest, slowest) = extremes(&run.passes.seconds);
            let speed = |seconds: f64| if seconds > 0.0 { shape.texts as f64 / seconds } else { 0.0 };
            writeln!(
                out,
                "{},{},{},{},{},{},{},{},{:.2},{:.2},{:.2},{:.1},{},{},{},{:.8},{:.2},{},{}",
                measured.conditions.columns(),
                shape.name,
                shape.texts,
                shape.tokens,
                field(&run.described.engine),
                field(&run.described.version),
                field(&run.described.settings),
                field(&run.tuned),
                shape.texts_per_s(run),
                speed(slowest),
                speed(fastest),
                shape.tokens_per_s(run),
                optional(shape.padding_share(run)),
                run.passes.peak_bytes(),
                run.passes.baseline.rss_bytes,
                run.smallest_cosine,
                shape.gflops(run),
                optional(shape.share_of_limit(run)),
                run.passes.seconds.len(),
            )?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::fixture;

    #[test]
    fn rows_have_the_fields_of_the_heading() {
        let mut out = Vec::new();
        write_points(&mut out, &fixture::measured()).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let fields = |line: &str| line.replace("\"made up, for tests\"", "settings").split(',').count();
        assert!(lines.iter().all(|line| fields(line) == fields(lines[0])), "{text}");
        assert!(
            lines[1].contains(",dyad,1,\"made up, for tests\",batch 32,50.00,11.11,100.00,500.0,0.2000,70000000,"),
            "{text}"
        );
    }
}
