//! Mining from file to file.

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use dyad_corpus::examples::{ExampleReader, Passage, Skipped, TrainingExample, to_tevatron};
use dyad_corpus::{CorpusReader, ReadOptions};
use dyad_files::{AtomicFile, Cancel};
use dyad_proto::client::Credentials;

use super::error::DataError;
use super::mine::{Finder, MiningEncoder, NegativeMiner, mine};
use super::mine_served::ServedMiner;
use super::negatives::{MineOptions, Mined};
use super::texts::halves;

/// Counts of a mining run, and of its input.
#[derive(Debug, Clone, PartialEq)]
pub struct MinedFile {
    /// Counts.
    pub mined: Mined,
    /// Candidates that were searched; nothing where a searcher has them.
    pub candidates: Option<usize>,
    /// Records that were left out.
    pub skipped: Skipped,
}

/// The candidates for negatives.
#[derive(Debug, Clone, Copy)]
pub enum NegativeCandidates<'a> {
    /// The positives of all examples.
    Positives,
    /// The documents of a corpus file or a BEIR folder.
    Corpus(&'a Path),
    /// The documents of a published index, served by the searcher at `http://HOST:PORT`.
    Searcher(&'a str, &'a Credentials),
}

/// Opens the same examples as often as they are read.
pub type OpenExamples<'a> = dyn Fn() -> Result<Vec<ExampleReader>, DataError> + 'a;

/// Finds negatives for all examples among `candidates`, and writes the examples to `out` in Tevatron's form, with keys
/// for what has none. The file appears whole or not at all. `cancel` is polled between batches.
pub fn mine_file(
    encoder: MiningEncoder<'_>,
    examples: &OpenExamples<'_>,
    candidates: NegativeCandidates<'_>,
    options: &MineOptions,
    out: &Path,
    cancel: &dyn Cancel,
) -> Result<MinedFile, DataError> {
    options.check()?;
    let (held, searcher) = match candidates {
        NegativeCandidates::Positives => (positives(examples()?)?, None),
        NegativeCandidates::Corpus(corpus) => (documents(corpus)?, None),
        NegativeCandidates::Searcher(url, credentials) => (Vec::new(), Some((url, credentials))),
    };
    let mut finder: Box<dyn Finder + '_> = match searcher {
        None => Box::new(NegativeMiner::new(encoder, &held, cancel)?),
        Some((url, credentials)) => Box::new(ServedMiner::connect(encoder, url, credentials.clone())?),
    };
    let (mut skipped, mut scored) = (Skipped::default(), 0_u64);
    for mut reader in examples()? {
        for example in reader.by_ref() {
            let example = example?;
            let mut passages = example.positives.iter().chain(&example.negatives);
            scored += u64::from(passages.any(|passage| passage.score.is_some()));
            finder.add_known(&example);
        }
        if reader.skipped().total() > skipped.total() {
            skipped.clone_from(reader.skipped());
        }
    }
    if scored > 0 {
        tracing::warn!(
            examples = scored,
            "they bring scores, in whose place the mined file has this model's cosines: to learn from a teacher, have it score that file"
        );
    }
    let io = |error: std::io::Error| DataError::Source(error.into());
    let mut file = AtomicFile::create(out).map_err(io)?;
    let mut number = 0;
    let write = |mut example: TrainingExample| {
        number += 1;
        give_keys(&mut example, number);
        writeln!(file, "{}", to_tevatron(&example)).map_err(io)
    };
    let mined = mine(&*finder, examples()?.into_iter().flatten(), options, cancel, write);
    let mined = mined?;
    file.commit().map_err(io)?;
    Ok(MinedFile {
        mined,
        candidates: searcher.is_none().then_some(held.len()),
        skipped,
    })
}

/// Keys for a question and for passages that have none, which Tevatron's tools join by: the number of the example, from
/// 1, and a digest of the passage, the same wherever it stands.
pub(super) fn give_keys(example: &mut TrainingExample, number: u64) {
    let lacks = |key: &Option<String>| key.as_deref().is_none_or(str::is_empty);
    if lacks(&example.key) {
        example.key = Some(format!("q{number}"));
    }
    for passage in example
        .positives
        .iter_mut()
        .chain(&mut example.negatives)
        .filter(|passage| lacks(&passage.key))
    {
        let (high, low) = halves(passage.passage().as_bytes());
        passage.key = Some(format!("p{high:016x}{low:016x}"));
    }
}

fn documents(corpus: &Path) -> Result<Vec<Passage>, DataError> {
    let documents = CorpusReader::open(corpus, &ReadOptions::default())?;
    documents
        .map(|document| Ok(Passage::of_document(document?.value)))
        .collect()
}

/// Every positive once.
fn positives(readers: Vec<ExampleReader>) -> Result<Vec<Passage>, DataError> {
    let mut seen = HashSet::new();
    let mut passages = Vec::new();
    for example in readers.into_iter().flatten() {
        for passage in example?.positives {
            if seen.insert(passage.passage().into_owned()) {
                passages.push(Passage { score: None, ..passage });
            }
        }
    }
    Ok(passages)
}
