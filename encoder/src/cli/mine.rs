//! `dyad-encoder mine`: examples with hard negatives, found by exact search or by a searcher over a published index.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use clap::Args;
use dyad_command::cancel_on_signal;
use dyad_corpus::CorpusFormat;
use dyad_corpus::examples::ExampleReader;
use dyad_proto::client::{CredentialOptions, Credentials};

use super::examples::{ExampleArguments, report};
use super::model::ModelOptions;
use crate::config::PromptOptions;
use crate::data::{Margin, MineOptions, MiningEncoder, NegativeCandidates, mine_file};
use crate::model::Model;

#[derive(Debug, Args)]
pub(crate) struct MineArguments {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    prompts: PromptOptions,
    #[command(flatten)]
    data: ExampleArguments,
    #[arg(
        long,
        value_name = "PATH",
        help = format!(
            "Candidates: {} [default: all positives of the examples]",
            CorpusFormat::paths_of_corpora()
        )
    )]
    corpus: Option<PathBuf>,
    /// Searcher whose index has the candidates, http://HOST:PORT; the index must be of this model
    #[arg(long, value_name = "URL", conflicts_with = "corpus")]
    searcher: Option<String>,
    /// Examples with their negatives, in Tevatron's JSON lines. Scores are this model's cosines, also where the
    /// examples bring others; questions without an id get the number of their example, passages a digest of their text
    #[arg(long, value_name = "FILE.jsonl")]
    out: PathBuf,
    /// First rank (from 0) among candidates that are not known to answer
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    rank_start: u32,
    /// End rank (exclusive)
    #[arg(long, value_name = "RANK", default_value_t = 100)]
    rank_end: u32,
    /// Negatives of each question
    #[arg(long, value_name = "N", default_value_t = 5)]
    negatives: u32,
    /// Least distance of a negative's cosine below the worst positive's
    #[arg(long, value_name = "COSINE", default_value_t = 0.0)]
    margin: f32,
    /// Largest cosine of a negative, as a share of the worst positive's
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    relative_margin: f32,
    /// Take the best of the window instead of sampling from it
    #[arg(long)]
    best: bool,
    /// Keep the negatives of the examples, without their scores
    #[arg(long)]
    keep: bool,
    /// Seed of the sampling
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// For `--searcher`
    #[command(flatten)]
    credentials: CredentialOptions,
}

pub(crate) fn run(options: &MineArguments) -> anyhow::Result<()> {
    ensure!(
        !options.out.exists(),
        "`{}` already exists. Name a new file, or move the old one away",
        options.out.display()
    );
    ensure!(
        options.data.data != Path::new("-"),
        "examples are read twice: save standard input to a file"
    );
    let mining = MineOptions {
        rank_start: options.rank_start as usize,
        rank_end: options.rank_end as usize,
        count: options.negatives as usize,
        margin: Some(Margin {
            absolute: options.margin,
            relative: options.relative_margin,
        }),
        sample: !options.best,
        seed: options.seed,
        keep: options.keep,
    };
    mining.check()?;
    let read = options.data.read("train");
    let examples = || Ok(vec![ExampleReader::open(&options.data.data, &read)?]);
    let cancel = cancel_on_signal()?;
    let encoder = Model::open_with(&options.model.model, &options.model.compute(), &options.prompts)?;
    let encoder = MiningEncoder {
        model: &encoder,
        budget: options.model.budget(),
        titles: true,
        context: None,
    };
    let credentials = Credentials::open(&options.credentials)?;
    let candidates = match (&options.searcher, &options.corpus) {
        (Some(url), _) => NegativeCandidates::Searcher(url, &credentials),
        (None, Some(corpus)) => NegativeCandidates::Corpus(corpus),
        (None, None) => NegativeCandidates::Positives,
    };
    let found = mine_file(encoder, &examples, candidates, &mining, &options.out, &cancel)?;
    report(&found.skipped);
    let mined = found.mined;
    let among = match &options.searcher {
        Some(url) => format!("the documents of the index at {url}"),
        None => format!("{} candidates", found.candidates.unwrap_or_default()),
    };
    writeln!(
        std::io::stdout().lock(),
        "mined {} negatives for {} examples among {}; {} have fewer than asked for, {} none; {}",
        mined.negatives,
        mined.examples,
        among,
        mined.short,
        mined.without,
        options.out.display()
    )?;
    Ok(())
}
