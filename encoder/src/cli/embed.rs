//! `dyad-encoder embed`: a corpus to an embeddings directory.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use dyad_command::cancel_on_signal;
use dyad_corpus::embeddings::VectorType;
use dyad_corpus::{CorpusFormat, PassageContext, ReadArguments, ReadOptions, UnseenFieldPolicy};
use dyad_files::space::{boundless, free_space};

use super::model::ModelOptions;
use crate::config::{PromptOptions, Tower};
use crate::embed::{EmbedJob, EmbedOutcome};
use crate::model::Model;

#[derive(Debug, Args)]
pub(crate) struct EmbedOptions {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    prompts: PromptOptions,
    /// question or answer: the tower whose prompt is used
    #[arg(long, default_value_t = Tower::Answer)]
    tower: Tower,
    #[arg(long, value_name = "PATH", help = format!("Documents: {}", CorpusFormat::paths_of_corpora()))]
    corpus: PathBuf,
    /// Directory of the embeddings; with those of an earlier run there, only new and changed documents are embedded
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    read: ReadArguments,
    /// What of its document reaches a passage's vector: its `title` before it; its tokens where the model has read all
    /// of the document (`late`, with `--split` or `--documents`; a weight after a colon, 0.5 by default); both
    /// (`title+late`); or `none`
    #[arg(long, value_name = "CONTEXT[:WEIGHT]", default_value_t = PassageContext::default())]
    context: PassageContext,
    /// Data type of the stored vectors
    #[arg(long, value_enum, default_value_t = VectorType::F32)]
    vector_type: VectorType,
    /// Rows per part: at most this many are lost by an interruption
    #[arg(long, value_name = "N", default_value_t = 8192, value_parser = clap::value_parser!(u64).range(1..))]
    part_rows: u64,
    /// Documents that are longer than the model reads: `error` fails and names one, `truncate` embeds their beginnings
    /// and counts them
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Long::Truncate)]
    on_long: Long,
    /// Bad records (malformed, without key or text, or with a duplicate key) to skip; with more the job fails and lists
    /// them
    #[arg(long, value_name = "N", default_value_t = 0)]
    max_bad: u64,
    /// List bad records in this file, one JSON object with file, line and reason per line
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Start even if the disk seems to be too small
    #[arg(long)]
    skip_space_check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Long {
    Error,
    Truncate,
}

pub(crate) fn run(options: &EmbedOptions) -> anyhow::Result<()> {
    let job = EmbedJob {
        corpus: options.corpus.clone(),
        read: ReadOptions {
            max_bad: Some(options.max_bad),
            rejects: options.rejects.clone(),
            unseen_fields: UnseenFieldPolicy::Refused,
            ..options.read.options().map_err(anyhow::Error::msg)?
        },
        tower: options.tower,
        context: options.context,
        budget: options.model.budget(),
        out: options.out.clone(),
        vectors: options.vector_type,
        part_rows: options.part_rows,
        refuse_long: options.on_long == Long::Error,
        free_space: if options.skip_space_check {
            boundless
        } else {
            free_space
        },
    };
    // Before the model is opened, which takes seconds.
    job.check_corpus().context("--corpus")?;
    let cancel = cancel_on_signal()?;
    let encoder = Model::open_with(&options.model.model, &options.model.compute(), &options.prompts)?;
    let outcome = job.run(&encoder, &cancel)?;

    let mut output = std::io::stdout().lock();
    let out = options.out.display();
    match outcome {
        EmbedOutcome::NothingToDo { documents } => {
            writeln!(
                output,
                "nothing to do: {out} holds these {documents} documents, embedded by this model"
            )?;
        }
        EmbedOutcome::Embedded(report) => {
            let seconds = report.elapsed.as_secs_f64();
            let kept = report.documents_kept + report.documents_reused;
            let new = report.summary.rows - kept;
            write!(
                output,
                "embedded {new} documents ({} tokens, {} truncated at {}) in {seconds:.1} s: {:.0} documents/s, {:.0} tokens/s; ",
                report.tokens,
                report.documents_truncated,
                encoder.info().max_tokens,
                new as f64 / seconds,
                report.tokens as f64 / seconds
            )?;
            if kept > 0 {
                write!(output, "{kept} reused; ")?;
            }
            writeln!(output, "{} documents in {out}", report.summary.rows)?;
        }
    }
    Ok(())
}
