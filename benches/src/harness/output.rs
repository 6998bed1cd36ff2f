//! What is written about a run: columns of comma-separated records, tables for people, medians and other middles.

use std::io::{self, Write};

/// Characters of a figure in a table.
const FIGURE: usize = 12;

/// A field of RFC 4180: quoted where it has to be.
pub(crate) fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

/// Writes a record: headings, then rows of as many fields.
pub(crate) fn write_csv<'a>(
    out: &mut impl Write,
    headings: impl IntoIterator<Item = &'a str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> io::Result<()> {
    let mut line = |fields: Vec<String>| writeln!(out, "{}", fields.join(","));
    line(headings.into_iter().map(str::to_owned).collect())?;
    rows.into_iter().try_for_each(|row| line(row.iter().map(|text| field(text)).collect()))
}

/// Writes rows of a table: a name to the left in `width` characters, figures to the right.
pub(crate) fn write_row(
    out: &mut impl Write,
    width: usize,
    name: &str,
    figures: impl IntoIterator<Item: AsRef<str>>,
) -> io::Result<()> {
    write!(out, "{name:<width$}")?;
    figures.into_iter().try_for_each(|figure| write!(out, "{:>FIGURE$}", figure.as_ref()))?;
    writeln!(out)
}

/// A value with so many decimals, or else the text for none.
pub(crate) fn or<T>(value: Option<T>, none: &str, text: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| none.to_owned(), text)
}

/// The middle value, or the mean of the two middle ones; `None` of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The smallest value that at least `share` of the values do not exceed; 0 of nothing.
pub(crate) fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// The smallest and the largest of values above 0; infinity and 0 of nothing.
pub(crate) fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, 0.0), |(low, high), &value| (value.min(low), value.max(high)))
}

/// What is counted per second, of the seconds; 0 where there are none.
pub(crate) fn per_second(count: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}
