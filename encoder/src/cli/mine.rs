//! `dyad-encoder mine`: examples with hard negatives, found by exact search.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::ensure;
use clap::Args;
use dyad_corpus::examples::{Example, ExampleReader, Passage, to_tevatron};
use dyad_corpus::{CorpusReader, ReadOptions};

use super::examples::{ExampleArguments, report};
use super::model::ModelOptions;
use super::signals::watch_signals;
use crate::bundle::Encoder;
use crate::data::{DataError, Margin, MineOptions, Miner};

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    data: ExampleArguments,
    /// Candidates: a corpus file or a BEIR folder [default: all positives of the examples]
    #[arg(long, value_name = "PATH")]
    corpus: Option<PathBuf>,
    /// Examples with their negatives, in Tevatron's JSON lines with scores
    #[arg(long, value_name = "FILE.jsonl")]
    out: PathBuf,
    /// First rank that is taken, from 0, among candidates not known to answer
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    from: u32,
    /// The rank behind the last
    #[arg(long, value_name = "RANK", default_value_t = 100)]
    to: u32,
    /// Negatives of each question
    #[arg(long, value_name = "N", default_value_t = 5)]
    negatives: u32,
    /// How much lower than the worst positive a negative's cosine must be
    #[arg(long, value_name = "COSINE", default_value_t = 0.0)]
    margin: f32,
    /// Share of the worst positive's cosine that a negative's may reach
    #[arg(long, value_name = "SHARE", default_value_t = 0.95)]
    relative_margin: f32,
    /// Take the best of the window instead of drawing from it
    #[arg(long)]
    best: bool,
    /// Keep the negatives that the examples have
    #[arg(long)]
    keep: bool,
    /// Of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ensure!(
        !options.out.exists(),
        "`{}` is there already. Name a new file, or move the old one away",
        options.out.display()
    );
    ensure!(options.data.data != Path::new("-"), "examples are read twice: save standard input to a file");
    let mining = MineOptions {
        from: options.from as usize,
        to: options.to as usize,
        count: options.negatives as usize,
        margin: Some(Margin { absolute: options.margin, relative: options.relative_margin }),
        sample: !options.best,
        seed: options.seed,
        keep: options.keep,
    };
    mining.check()?;
    let read = options.data.read("train");
    let examples = || ExampleReader::open(&options.data.data, &read);
    let candidates = candidates(options, examples()?)?;
    let interrupted = watch_signals()?;
    let go_on = || !interrupted.load(Ordering::Relaxed);
    let encoder = Encoder::open(&options.model.model, &options.model.compute())?;
    let mut miner = Miner::new(&encoder, options.model.budget(), &candidates, &go_on)?;
    let mut told = examples()?;
    for example in told.by_ref() {
        miner.know(&example?);
    }
    report(told.skipped());

    let mut name = options.out.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = options.out.with_file_name(name);
    let mut out = BufWriter::new(fs_err::File::create(&partial)?);
    let write =
        |example: Example| writeln!(out, "{}", to_tevatron(&example)).map_err(|error| DataError::Source(error.into()));
    let mined = miner.mine(examples()?, &mining, &go_on, write);
    let mined = match mined {
        Ok(mined) => mined,
        Err(error) => {
            fs_err::remove_file(&partial)?;
            return Err(error.into());
        }
    };
    out.flush()?;
    out.get_ref().sync_all()?;
    fs_err::rename(&partial, &options.out)?;
    writeln!(
        std::io::stdout().lock(),
        "mined {} negatives for {} examples among {} candidates; {} have fewer than asked for, {} none; {}",
        mined.negatives,
        mined.examples,
        candidates.len(),
        mined.short,
        mined.without,
        options.out.display()
    )?;
    Ok(())
}

/// The corpus, or every positive once.
fn candidates(options: &Options, examples: ExampleReader) -> anyhow::Result<Vec<Passage>> {
    if let Some(corpus) = &options.corpus {
        let documents = CorpusReader::open(corpus, &ReadOptions::default())?.map(|document| {
            document.map(|document| {
                let document = document.value;
                Passage { key: Some(document.key), title: document.title, text: document.text, score: None }
            })
        });
        return Ok(documents.collect::<Result<_, _>>()?);
    }
    let mut seen = std::collections::HashSet::new();
    let mut passages = Vec::new();
    for example in examples {
        for passage in example?.positives {
            if seen.insert(passage.passage().into_owned()) {
                passages.push(Passage { score: None, ..passage });
            }
        }
    }
    Ok(passages)
}
