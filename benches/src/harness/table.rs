//! The part of a table for people that holds the engines.

use std::io::{self, Write};

/// Characters of a figure.
const FIGURE: usize = 12;

/// Writes headings, a row per engine, then who failed. A row is a name to the left in `width` characters, figures to the right,
/// and words behind them.
pub fn write_engines<'a, const N: usize>(
    out: &mut impl Write,
    width: usize,
    headings: [&str; N],
    rows: impl Iterator<Item = (&'a str, [String; N], String)>,
    failures: &[(String, String)],
) -> io::Result<()> {
    let headings = ("", headings.map(str::to_owned), String::new());
    for (name, figures, words) in std::iter::once(headings).chain(rows) {
        write!(out, "{name:<width$}")?;
        figures.iter().try_for_each(|figure| write!(out, "{figure:>FIGURE$}"))?;
        writeln!(out, "{words}")?;
    }
    failures.iter().try_for_each(|(engine, error)| writeln!(out, "{engine} failed: {error}"))
}
