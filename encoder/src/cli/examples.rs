//! Options of every command that reads training examples.

use std::path::PathBuf;

use clap::Args;
use dyad_corpus::examples::{ExampleFormat, ExampleOptions, Flawed, Skipped};

#[derive(Debug, Clone, Args)]
pub(crate) struct ExampleArguments {
    /// BEIR folder, or a file (plain, .gz, .zst) of Tevatron, DPR, sentence-transformers, SQuAD or tab-separated
    /// examples
    #[arg(long, value_name = "PATH")]
    pub(crate) data: PathBuf,
    /// Format of the examples: auto (by name and content), beir, tevatron, dpr, pairs, squad or tsv
    #[arg(long, value_name = "FORM", default_value = "auto")]
    format: ExampleFormat,
    /// Split of a BEIR folder
    #[arg(long, value_name = "NAME")]
    split: Option<String>,
    /// Corpus of Tevatron records that name their passages by key
    #[arg(long, value_name = "PATH")]
    data_corpus: Option<PathBuf>,
    /// Skip and count bad records (malformed, without a question, without an answer) instead of ending at the first
    #[arg(long)]
    skip_bad: bool,
}

impl ExampleArguments {
    /// How to read; `split` where none was named.
    pub(crate) fn read(&self, split: &str) -> ExampleOptions {
        ExampleOptions {
            format: self.format,
            flawed: if self.skip_bad { Flawed::Skip } else { Flawed::Refuse },
            split: self.split.clone().unwrap_or_else(|| split.to_owned()),
            corpus: self.data_corpus.clone(),
        }
    }
}

/// Logs the skipped records.
pub(crate) fn report(skipped: &Skipped) {
    if skipped.total() > 0 {
        let first = skipped.first.as_deref().unwrap_or("by design of the format");
        tracing::warn!(
            records = skipped.total(),
            first,
            "skipped records that cannot be trained on"
        );
    }
}
