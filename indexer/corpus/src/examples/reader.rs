//! A streaming iterator over examples of every format.
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::beir::BeirExamples;
use super::columns::Roles;
use super::example::TrainingExample;
use super::format::{Arrangement, ExampleFormat, detect, is_json, is_tsv};
use super::judged::PassagesByKey;
use super::records::ExampleRecords;
use super::reqa::Reqa;
use super::skipped::Skipped;
use super::{dpr, pairs, tevatron};
use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::{InputLines, InputStream};

/// Bytes in which the first record shows its format.
const HEAD_BYTES: usize = 1 << 20;

/// Handling of records that cannot be learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flawed {
    /// The first one is an error.
    #[default]
    Refuse,
    /// They are counted in [`Skipped`].
    Skip,
}

/// How to read examples.
#[derive(Debug, Clone)]
pub struct ExampleOptions {
    /// The form.
    pub format: ExampleFormat,
    /// Handling of malformed records, empty questions and records without positives.
    pub flawed: Flawed,
    /// Split of a BEIR folder; `train` by default.
    pub split: String,
    /// Corpus of records that name their passages by key.
    pub corpus: Option<PathBuf>,
}

impl Default for ExampleOptions {
    fn default() -> Self {
        Self {
            format: ExampleFormat::Auto,
            flawed: Flawed::Refuse,
            split: "train".into(),
            corpus: None,
        }
    }
}

/// Streams examples in the order of their source: plain, gzip or Zstandard.
///
/// One record is held at a time; of a BEIR folder also questions, judgements and judged documents. Refused, or skipped
/// where the options say so: broken records, blank questions, records without a positive, blank passages, passages that
/// the corpus lacks. A truncated stream, a malformed array and a source without examples are always errors. After an
/// error the reader is at its end.
#[derive(Debug)]
pub struct ExampleReader {
    path: PathBuf,
    source: ExampleSource,
    flawed: Flawed,
    skipped: Skipped,
    examples: u64,
    finished: bool,
}

#[derive(Debug)]
enum ExampleSource {
    Tevatron(ExampleRecords, Option<PassagesByKey>),
    Dpr(ExampleRecords),
    Pairs(ExampleRecords),
    Squad(Box<Reqa>),
    /// `None` until the first line was seen.
    Tsv(InputLines, Option<Roles>),
    Beir(BeirExamples),
}

impl ExampleReader {
    /// Opens a file, a BEIR folder, or `-` for standard input.
    pub fn open(path: &Path, options: &ExampleOptions) -> Result<Self, Error> {
        let (skipped, flawed) = (Skipped::default(), options.flawed);
        let source = ExampleSource::open(path, options)?;
        Ok(Self {
            path: path.to_owned(),
            source,
            flawed,
            skipped,
            examples: 0,
            finished: false,
        })
    }

    /// Records skipped so far.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Bytes read of the file on disk (compressed where it is), for progress; 0 for a folder.
    pub fn bytes_read(&self) -> u64 {
        match &self.source {
            ExampleSource::Tevatron(records, _) | ExampleSource::Dpr(records) | ExampleSource::Pairs(records) => {
                records.bytes_read()
            }
            ExampleSource::Squad(reqa) => reqa.bytes_read(),
            ExampleSource::Tsv(lines, _) => lines.bytes_read(),
            ExampleSource::Beir(_) => 0,
        }
    }

    /// Size of the file on disk; `None` for standard input and folders.
    pub fn total_bytes(&self) -> Option<u64> {
        match &self.source {
            ExampleSource::Tevatron(records, _) | ExampleSource::Dpr(records) | ExampleSource::Pairs(records) => {
                records.total_bytes()
            }
            ExampleSource::Squad(reqa) => reqa.total_bytes(),
            ExampleSource::Tsv(lines, _) => lines.total_bytes(),
            ExampleSource::Beir(_) => None,
        }
    }

    fn read(&mut self) -> Result<Option<TrainingExample>, Error> {
        loop {
            let refused = match self.source.advance(&mut self.skipped) {
                Ok(Some(example)) => {
                    self.examples += 1;
                    return Ok(Some(example));
                }
                Ok(None) if self.examples == 0 => {
                    return Err(Error::Empty {
                        path: self.path.clone(),
                        expected: "examples",
                    });
                }
                Ok(None) => return Ok(None),
                Err(error) => error,
            };
            if self.flawed == Flawed::Refuse || !self.skipped.count(&refused) {
                return Err(refused);
            }
        }
    }
}

impl Iterator for ExampleReader {
    type Item = Result<TrainingExample, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.finished {
            return None;
        }
        let next = self.read().transpose();
        self.finished = !matches!(next, Some(Ok(_)));
        next
    }
}

impl ExampleSource {
    fn open(path: &Path, options: &ExampleOptions) -> Result<Self, Error> {
        let auto = options.format == ExampleFormat::Auto;
        if options.format == ExampleFormat::Beir || (auto && path.is_dir()) {
            return Ok(Self::Beir(BeirExamples::open(path, &options.split)?));
        }
        if options.format == ExampleFormat::Tsv || (auto && is_tsv(path)) {
            return Ok(Self::Tsv(InputLines::open(path, MAX_COLUMN_BYTES)?, None));
        }
        let mut input = InputStream::open(path)?;
        let detected = detect(&input.peek(HEAD_BYTES)?);
        let format = match (options.format, detected.format) {
            (ExampleFormat::Auto, Some(format)) => format,
            // Broken from the start, or empty: the record's parser or its end says so.
            (ExampleFormat::Auto, None) if is_json(path) => ExampleFormat::Pairs,
            (ExampleFormat::Auto, None) => {
                return Err(Error::UnknownFormat {
                    path: path.to_owned(),
                    expected: "training examples: JSON, or columns in a file whose name ends in .tsv or .txt \
                               (with .gz or .zst after it where compressed). Name the format, or rename the file"
                        .to_owned(),
                });
            }
            (given, _) => given,
        };
        Ok(match format {
            ExampleFormat::Squad => Self::Squad(Box::new(Reqa::from_records(ExampleRecords::from_stream(
                input,
                Arrangement::Data,
            )))),
            ExampleFormat::Dpr => Self::Dpr(ExampleRecords::from_stream(input, detected.arrangement)),
            ExampleFormat::Tevatron if detected.by_key => {
                let corpus = options
                    .corpus
                    .as_ref()
                    .ok_or_else(|| Error::NoCorpus { path: path.to_owned() })?;
                if path == Path::new("-") {
                    let reason =
                        "records that name their passages by key are read twice: save standard input to a file";
                    return Err(std::io::Error::other(reason).into());
                }
                let wanted = named(ExampleRecords::from_stream(input, detected.arrangement))?;
                let documents = PassagesByKey::read(corpus, &wanted)?;
                Self::Tevatron(
                    ExampleRecords::from_stream(InputStream::open(path)?, detected.arrangement),
                    Some(documents),
                )
            }
            ExampleFormat::Tevatron => Self::Tevatron(ExampleRecords::from_stream(input, detected.arrangement), None),
            _ => Self::Pairs(ExampleRecords::from_stream(input, detected.arrangement)),
        })
    }

    fn advance(&mut self, skipped: &mut Skipped) -> Result<Option<TrainingExample>, Error> {
        match self {
            Self::Beir(examples) => examples.advance(),
            Self::Squad(reqa) => reqa.advance(skipped),
            Self::Pairs(records) => records.advance(|value| checked(pairs::example(value))),
            Self::Dpr(records) => records.advance(|value| checked(dpr::example(value))),
            Self::Tevatron(records, corpus) => {
                records.advance(|value| checked(tevatron::example(value, corpus.as_ref())))
            }
            Self::Tsv(lines, roles) => columns(lines, roles),
        }
    }
}

/// Longest text of a column.
const MAX_COLUMN_BYTES: usize = 2 << 20;

fn checked(example: Result<TrainingExample, CorpusProblem>) -> Result<TrainingExample, CorpusProblem> {
    example.and_then(|example| example.check().map(|()| example))
}

fn columns(lines: &mut InputLines, roles: &mut Option<Roles>) -> Result<Option<TrainingExample>, Error> {
    loop {
        let Some((_, line)) = lines.advance()? else {
            return Ok(None);
        };
        let roles = match roles {
            Some(roles) => roles,
            None => match Roles::from_header(line) {
                Some(header) => {
                    *roles = Some(header);
                    continue;
                }
                None => roles.insert(Roles::Plain),
            },
        };
        return checked(roles.example(line))
            .map(Some)
            .map_err(|problem| lines.refuse(problem));
    }
}

/// Keys of all documents that records name. Flaws are reported when the record is read as an example.
fn named(mut records: ExampleRecords) -> Result<HashSet<String>, Error> {
    let mut wanted = HashSet::new();
    loop {
        match records.advance(tevatron::named) {
            Ok(Some(keys)) => wanted.extend(keys),
            Ok(None) => return Ok(wanted),
            Err(error) if Skipped::default().count(&error) => {}
            Err(error) => return Err(error),
        }
    }
}
