//! `dyad-encoder reqa`: SQuAD to a BEIR folder of answer sentences.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use dyad_corpus::examples::write_reqa;

use super::examples::report;

#[derive(Debug, Args)]
pub(crate) struct ReqaOptions {
    /// SQuAD 1.1 or 2.0 (plain, .gz, .zst)
    #[arg(long, value_name = "FILE.json")]
    squad: PathBuf,
    /// New BEIR folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Name of its judgements
    #[arg(long, value_name = "NAME", default_value = "test", value_parser = name)]
    split: String,
}

/// A name that is no path.
fn name(text: &str) -> Result<String, String> {
    let plain = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if plain {
        Ok(text.to_owned())
    } else {
        Err("a split has a name of letters, digits, - and _".to_owned())
    }
}

pub(crate) fn run(options: &ReqaOptions) -> anyhow::Result<()> {
    let summary = write_reqa(&options.squad, &options.out, &options.split)?;
    report(&summary.skipped);
    writeln!(
        std::io::stdout().lock(),
        "{} candidates, {} questions, {} judgements; skipped: {} unanswerable, {} whose answer crosses sentences; {}",
        summary.candidates,
        summary.questions,
        summary.judgements,
        summary.skipped.unanswerable,
        summary.skipped.crossing,
        options.out.display()
    )?;
    Ok(())
}
