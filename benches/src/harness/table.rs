//! What is written about a run: rows of figures by name, as CSV; and tables for people, in a terminal or a README.

use std::io::{self, Write};

use serde_json::{Map, Value};

/// Figures by name, in order: a row of a record, and an object of `summary.json`.
pub(crate) type FigureRow = Map<String, Value>;

/// The figures of several JSON objects, in order; what is no object has none.
pub(crate) fn join_figures<const N: usize>(objects: [Value; N]) -> FigureRow {
    let mut row = FigureRow::new();
    for object in objects {
        if let Value::Object(figures) = object {
            row.extend(figures);
        }
    }
    row
}

/// A JSON object of values by name.
pub(crate) fn by_name(values: impl IntoIterator<Item = (String, Value)>) -> Value {
    values.into_iter().collect::<FigureRow>().into()
}

/// Names with a text each, such as engines that failed with their errors, as a JSON object.
pub(crate) fn texts_by_name(texts: &[(String, String)]) -> Value {
    by_name(texts.iter().map(|(name, text)| (name.clone(), text.as_str().into())))
}

/// Writes rows of the same figures as comma-separated values (RFC 4180), unrounded; lists are left out.
pub(crate) fn write_csv(out: &mut dyn Write, rows: &[FigureRow]) -> io::Result<()> {
    for (number, row) in rows.iter().enumerate() {
        let columns = row.iter().filter(|(_, value)| !value.is_array());
        let (names, fields): (Vec<&str>, Vec<String>) =
            columns.map(|(name, value)| (name.as_str(), csv_field(value))).unzip();
        if number == 0 {
            writeln!(out, "{}", names.join(","))?;
        }
        writeln!(out, "{}", fields.join(","))?;
    }
    Ok(())
}

fn csv_field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains([',', '"', '\n', '\r']) => format!("\"{}\"", text.replace('"', "\"\"")),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// How a figure is shown to people; `-` where there is none, and a text as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureFormat {
    /// A number with this many decimals.
    Decimals(usize),
    /// A difference with this many decimals, and its sign.
    Signed(usize),
    /// A number of bytes, in units of 10^6.
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

impl FigureFormat {
    /// The text of a figure.
    pub(crate) fn text(self, value: &Value) -> String {
        let figure = match (self, value.as_str(), value.as_f64()) {
            (Self::Note, None | Some(""), _) => return String::new(),
            (Self::Note, Some(text), _) => return format!("({text})"),
            (_, Some(text), _) => return text.to_owned(),
            (_, None, None) => return "-".to_owned(),
            (_, None, Some(figure)) => figure,
        };
        match self {
            Self::Decimals(decimals) => format!("{figure:.decimals$}"),
            Self::Signed(decimals) => format!("{:+.decimals$}", without_sign_of_nothing(figure, decimals)),
            Self::Megabytes => format!("{:.1}", figure / 1e6),
            Self::Percent => format!("{:.1} %", figure * 100.0),
            Self::Power => format!("{figure:.1e}"),
            Self::Times => format!("{figure:.2}x"),
            Self::Note => figure.to_string(),
        }
    }
}

/// What rounds to 0 is 0, and not -0.
fn without_sign_of_nothing(figure: f64, decimals: usize) -> f64 {
    let unit = 10f64.powi(decimals as i32);
    (figure * unit).round() / unit + 0.0
}

/// A column of a table for people.
#[derive(Debug, Clone, Copy)]
pub struct ShownColumn<'a> {
    /// The figure's name in rows.
    pub(crate) name: &'a str,
    /// What stands above it.
    pub(crate) heading: &'a str,
    /// How it is shown.
    pub(crate) show: FigureFormat,
}

impl<'a> ShownColumn<'a> {
    /// A figure of rows under a heading.
    pub(crate) const fn new(name: &'a str, heading: &'a str, show: FigureFormat) -> Self {
        Self { name, heading, show }
    }
}

/// A table for people: a line of headings, then a line for each row, which begins with its name.
#[derive(Debug)]
pub(crate) struct TextTable {
    lines: Vec<Vec<String>>,
}

impl TextTable {
    /// A table without rows; `title` stands above their names.
    pub(crate) fn new(title: &str, headings: impl IntoIterator<Item: Into<String>>) -> Self {
        let mut table = Self { lines: Vec::new() };
        table.push(title, headings);
        table
    }

    /// A table of these columns, without rows.
    pub(crate) fn of_columns(title: &str, columns: &[ShownColumn<'_>]) -> Self {
        Self::new(title, columns.iter().map(|column| column.heading))
    }

    /// Adds a line of texts.
    pub(crate) fn push(&mut self, name: &str, texts: impl IntoIterator<Item: Into<String>>) {
        let mut line = vec![name.to_owned()];
        line.extend(texts.into_iter().map(Into::into));
        self.lines.push(line);
    }

    /// Adds the figures of a row.
    pub(crate) fn push_row(&mut self, name: &str, columns: &[ShownColumn<'_>], row: &FigureRow) {
        let text = |column: &ShownColumn<'_>| column.show.text(row.get(column.name).unwrap_or(&Value::Null));
        self.push(name, columns.iter().map(text));
    }

    /// Writes it for a terminal: names to the left, each column as wide as its longest text.
    pub(crate) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let texts = self.lines.iter().filter_map(|line| line.get(column));
            texts.map(|text| text.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for line in &self.lines {
            let texts = line.iter().zip(&widths).enumerate();
            let padded = texts.map(|(column, (text, &width))| match column {
                0 => format!("{text:<width$}"),
                _ => format!("  {text:>width$}"),
            });
            writeln!(out, "{}", padded.collect::<String>().trim_end())?;
        }
        Ok(())
    }

    /// Writes it for a README.
    pub(crate) fn write_markdown(&self, out: &mut dyn Write) -> io::Result<()> {
        for (number, line) in self.lines.iter().enumerate() {
            writeln!(out, "| {} |", line.join(" | "))?;
            if number == 0 {
                writeln!(out, "|{}", "---|".repeat(line.len()))?;
            }
        }
        Ok(())
    }
}
