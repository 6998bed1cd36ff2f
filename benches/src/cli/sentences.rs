//! `dyad-bench sentences`.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;

use crate::dataset::write_sentences;

/// Write the sentences of a corpus as a corpus: real texts in large numbers, to be embedded by `dyad-encoder embed`.
#[derive(Debug, Args)]
pub(super) struct SentencesCommand {
    /// JSONL or TSV file (plain, .gz, .zst), or BEIR folder.
    #[arg(long, value_name = "PATH")]
    corpus: PathBuf,
    /// JSONL file to write.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

impl SentencesCommand {
    pub(super) fn run(&self) -> anyhow::Result<()> {
        let sentences = write_sentences(&self.corpus, &self.out)?;
        Ok(writeln!(
            io::stdout(),
            "{sentences} sentences in {}",
            self.out.display()
        )?)
    }
}
