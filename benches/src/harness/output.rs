//! What is written about a run: rows of records, tables for people, medians and other middles.

use std::io::{self, Write};

use serde_json::{Map, Value};

/// Characters of a figure in a table.
const FIGURE: usize = 12;

/// Figures by name, in order: a row of a record, and an object of `summary.json`.
pub(crate) type Row = Map<String, Value>;

/// A figure of something: its name, and its value.
pub(crate) type Figure<A> = (&'static str, fn(&A) -> Value);

/// The row that columns make.
pub(crate) fn row<A>(columns: &[Figure<A>], of: &A) -> Row {
    columns.iter().map(|(name, value)| ((*name).to_owned(), value(of))).collect()
}

/// Writes rows of the same columns as comma-separated values (RFC 4180), unrounded; lists are left out.
pub(crate) fn write_csv(out: &mut impl Write, rows: &[Row]) -> io::Result<()> {
    let field = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    for (number, row) in rows.iter().enumerate() {
        let (names, fields): (Vec<&str>, Vec<String>) = row
            .iter()
            .filter(|(_, value)| !value.is_array())
            .map(|(name, value)| (name.as_str(), field(value)))
            .unzip();
        if number == 0 {
            writeln!(out, "{}", names.join(","))?;
        }
        writeln!(out, "{}", fields.join(","))?;
    }
    Ok(())
}

/// How a figure is shown to people; `-` where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Show {
    /// With this number of decimals.
    Decimals(usize),
    /// Bytes, in units of 10^6.
    Megabytes,
    /// A share.
    Percent,
    /// A small number as a power of ten.
    Power,
    /// A ratio.
    Times,
    /// Words, at the end of a line.
    Note,
}

impl Show {
    pub(crate) fn text(self, value: &Value) -> String {
        let figure = value.as_f64();
        match (self, figure) {
            (Self::Note, _) => {
                value.as_str().filter(|text| !text.is_empty()).map_or_else(String::new, |text| format!("  ({text})"))
            }
            (_, None) => "-".to_owned(),
            (Self::Decimals(decimals), Some(figure)) => format!("{figure:.decimals$}"),
            (Self::Megabytes, Some(figure)) => format!("{:.1}", figure / 1e6),
            (Self::Percent, Some(figure)) => format!("{:.1} %", figure * 100.0),
            (Self::Power, Some(figure)) => format!("{figure:.1e}"),
            (Self::Times, Some(figure)) => format!("{figure:.2}x"),
        }
    }
}

/// Writes a line of a table: a name to the left in `width` characters, figures to the right.
pub(crate) fn write_line(
    out: &mut impl Write,
    width: usize,
    name: &str,
    figures: impl IntoIterator<Item: AsRef<str>>,
) -> io::Result<()> {
    let figures: Vec<String> = figures.into_iter().map(|figure| format!("{:>FIGURE$}", figure.as_ref())).collect();
    writeln!(out, "{}", format!("{name:<width$}{}", figures.concat()).trim_end())
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
