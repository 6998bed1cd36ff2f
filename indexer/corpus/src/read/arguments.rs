//! The arguments of commands that read a corpus. What is embedded has to be what is indexed: both commands take the
//! same ones.
use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use super::format::{CorpusFormat, FORMATS};
use super::options::{FieldNames, ReadOptions, Split};

/// How a corpus is read.
#[derive(Debug, Clone, clap::Args)]
pub struct ReadArguments {
    /// Format of the corpus
    #[arg(long, value_name = "FORMAT", default_value_t = CorpusFormat::Auto, value_parser = format_parser())]
    format: CorpusFormat,
    /// Field of the key in JSON lines, or column in CSV or Parquet [default: _id, id, docid or key]
    #[arg(long, value_name = "NAME")]
    key_field: Option<String>,
    /// Field of the title [default: title]
    #[arg(long, value_name = "NAME")]
    title_field: Option<String>,
    /// Field of the text [default: text or contents]
    #[arg(long, value_name = "NAME")]
    text_field: Option<String>,
    /// Fields that are stored with the metadata, between commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metadata_field: Vec<String>,
    /// Split documents into passages of whole sentences with at most WORDS words. Their keys are KEY#0, KEY#1 and so
    /// on, and their metadata have the key of the document as `document`. In Markdown and HTML a heading begins a
    /// passage, and `heading` has those above it
    #[arg(long, value_name = "WORDS")]
    split: Option<usize>,
    /// Most words, in whole sentences, that a passage repeats from the one before it
    #[arg(long, value_name = "WORDS", default_value_t = 0, requires = "split")]
    overlap: usize,
    /// File of the documents that the passages of the corpus were cut from, each once; passages say by their metadata
    /// where they stand: `document`, and `start` and `end` in characters
    #[arg(long, value_name = "FILE", conflicts_with = "split")]
    documents: Option<PathBuf>,
}

impl ReadArguments {
    /// Whether documents are split into passages.
    pub fn splits(&self) -> bool {
        self.split.is_some()
    }

    /// Whether a file has the documents that passages were cut from.
    pub fn has_documents(&self) -> bool {
        self.documents.is_some()
    }

    /// The options that they stand for.
    pub fn options(&self) -> Result<ReadOptions, String> {
        let split = self.split.map(|words| Split::new(words, self.overlap)).transpose();
        Ok(ReadOptions {
            format: self.format,
            fields: FieldNames {
                key: self.key_field.clone(),
                title: self.title_field.clone(),
                text: self.text_field.clone(),
                metadata: self.metadata_field.clone(),
            },
            documents: self.documents.clone(),
            split: split.map_err(|reason| format!("--split, --overlap: {reason}"))?,
            ..ReadOptions::default()
        })
    }
}

/// Takes the name of a format, and lists all of them in the help text.
fn format_parser() -> impl TypedValueParser<Value = CorpusFormat> {
    let names = FORMATS
        .iter()
        .map(|entry| PossibleValue::new(entry.name).help(entry.summary));
    PossibleValuesParser::new(names).try_map(|name| name.parse::<CorpusFormat>())
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    fn read(arguments: &[&str]) -> Result<ReadArguments, String> {
        let command = ReadArguments::augment_args(Command::new("read"));
        let matches = command.try_get_matches_from(["read"].iter().chain(arguments));
        let matches = matches.map_err(|error| error.to_string())?;
        Ok(ReadArguments::from_arg_matches(&matches).unwrap())
    }

    #[test]
    fn each_format_has_its_name_and_others_are_refused() {
        assert_eq!(read(&[]).unwrap().options().unwrap().format, CorpusFormat::Auto);
        for entry in &FORMATS {
            let found = read(&["--format", entry.name]).unwrap();
            assert_eq!(found.options().unwrap().format, entry.format);
        }
        let refused = read(&["--format", "xml"]).unwrap_err();
        let help = ReadArguments::augment_args(Command::new("read"))
            .render_long_help()
            .to_string();
        for entry in &FORMATS {
            assert!(refused.contains(entry.name), "{refused}");
            assert!(help.contains(&format!("- {}:", entry.name)), "{help}");
        }
    }
}
