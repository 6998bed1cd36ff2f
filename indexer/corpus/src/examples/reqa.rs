//! The ReQA construction (Ahmad, Constant, Yang and Cer 2019, arXiv 1907.04780): SQuAD to questions and answer
//! sentences.
//!
//! Paragraphs are split into sentences. All distinct sentences are the candidates; the sentence that contains an
//! answer's span is the question's answer. Answers that cross the end of a sentence are dropped, and questions without
//! any other answer are skipped, as are SQuAD 2's unanswerable questions.
use std::collections::{HashMap, VecDeque};
use std::io::{BufWriter, Write};
use std::path::Path;

use dyad_files::AtomicDir;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::example::{Passage, TrainingExample};
use super::format::Arrangement;
use super::records::ExampleRecords;
use super::sentences::sentences;
use super::skipped::Skipped;
use super::squad::{Article, Paragraph, SquadQuestion, read};
use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::read::InputStream;

/// Examples of a SQuAD file; an article is held at a time, and 128 bits per sentence.
#[derive(Debug)]
pub(super) struct Reqa {
    records: ExampleRecords,
    pool: SentencePool,
    waiting: VecDeque<Result<TrainingExample, CorpusProblem>>,
    /// New sentences by key: of the last article, or of all since they were last taken.
    fresh: Vec<(String, String)>,
    keep_fresh: bool,
}

/// The sentences seen so far, and the number of each.
#[derive(Debug, Default)]
struct SentencePool(HashMap<(u64, u64), usize>);

impl SentencePool {
    /// The key of a sentence, and whether it is new.
    fn key(&mut self, sentence: &str) -> (String, bool) {
        let (hash, next) = (xxh3_128(sentence.as_bytes()), self.0.len());
        let number = *self.0.entry(((hash >> 64) as u64, hash as u64)).or_insert(next);
        (format!("a{number}"), number == next)
    }
}

impl Reqa {
    pub(super) fn from_records(records: ExampleRecords) -> Self {
        Self {
            records,
            pool: SentencePool::default(),
            waiting: VecDeque::new(),
            fresh: Vec::new(),
            keep_fresh: false,
        }
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.records.bytes_read()
    }

    pub(super) fn total_bytes(&self) -> Option<u64> {
        self.records.total_bytes()
    }

    /// The next example, whose passages have the keys of the pool.
    pub(super) fn advance(&mut self, skipped: &mut Skipped) -> Result<Option<TrainingExample>, Error> {
        loop {
            match self.waiting.pop_front() {
                Some(Ok(example)) => return Ok(Some(example)),
                Some(Err(problem)) => return Err(self.records.refuse(problem)),
                None => {}
            }
            if !self.keep_fresh {
                self.fresh.clear();
            }
            let Some(article) = self.records.advance(read::<Article>)? else {
                return Ok(None);
            };
            for paragraph in article.paragraphs {
                self.paragraph(paragraph, skipped);
            }
        }
    }

    fn paragraph(&mut self, paragraph: Paragraph, skipped: &mut Skipped) {
        let context = paragraph.context;
        let ranges = sentences(&context);
        let keys: Vec<String> = ranges
            .iter()
            .map(|range| self.admit(context.get(range.clone()).unwrap_or("")))
            .collect();
        for value in paragraph.qas {
            let key = value
                .get("id")
                .and_then(Value::as_str)
                .unwrap_or("without id")
                .to_owned();
            let found = read::<SquadQuestion>(value).and_then(|question| {
                if question.is_impossible {
                    skipped.unanswerable += 1;
                    return Ok(None);
                }
                let mut example = TrainingExample {
                    key: question.id,
                    question: question.text,
                    ..TrainingExample::default()
                };
                for span in &question.answers {
                    let bytes = span.bytes(&context)?;
                    let holds = |range: &std::ops::Range<usize>| range.start <= bytes.start && bytes.end <= range.end;
                    let Some(at) = ranges.iter().position(holds) else {
                        continue;
                    };
                    let (Some(range), Some(key)) = (ranges.get(at), keys.get(at)) else {
                        continue;
                    };
                    if !example
                        .positives
                        .iter()
                        .any(|positive| positive.key.as_ref() == Some(key))
                    {
                        let text = context.get(range.clone()).unwrap_or_default().to_owned();
                        example.positives.push(Passage {
                            key: Some(key.clone()),
                            text,
                            ..Passage::default()
                        });
                    }
                }
                if example.positives.is_empty() && !question.answers.is_empty() {
                    skipped.crossing += 1;
                    return Ok(None);
                }
                example.check().map(|()| Some(example))
            });
            let found = found.map_err(|problem| CorpusProblem::InQuestion {
                key,
                problem: Box::new(problem),
            });
            self.waiting.extend(found.transpose());
        }
    }

    /// The key of a sentence; new sentences are kept for the writer of the candidates.
    fn admit(&mut self, sentence: &str) -> String {
        let (key, new) = self.pool.key(sentence);
        if new {
            self.fresh.push((key.clone(), sentence.to_owned()));
        }
        key
    }
}

/// Summary of a ReQA folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReqaSummary {
    /// Sentences.
    pub candidates: u64,
    /// Questions that a sentence answers.
    pub questions: u64,
    /// Pairs of question and answer.
    pub judgements: u64,
    /// Questions that were skipped.
    pub skipped: Skipped,
}

/// Writes a SQuAD file as a BEIR folder of sentences: `corpus.jsonl`, `queries.jsonl`, `qrels/SPLIT.tsv`. It
/// is written atomically; an existing folder is refused. Questions without an id are numbered.
pub fn write_reqa(squad: &Path, folder: &Path, split: &str) -> Result<ReqaSummary, Error> {
    if folder.exists() {
        return Err(Error::Exists {
            path: folder.to_owned(),
        });
    }
    let partial = AtomicDir::create(folder)?;
    fs_err::create_dir(partial.path().join("qrels"))?;
    let summary = write(squad, partial.path(), split)?;
    partial.commit()?;
    Ok(summary)
}

fn write(squad: &Path, folder: &Path, split: &str) -> Result<ReqaSummary, Error> {
    let create = |name: &str| fs_err::File::create(folder.join(name)).map(BufWriter::new);
    let (mut corpus, mut queries) = (create("corpus.jsonl")?, create("queries.jsonl")?);
    let mut qrels = create(&format!("qrels/{split}.tsv"))?;
    writeln!(qrels, "query-id\tcorpus-id\tscore")?;
    let mut reqa = Reqa::from_records(ExampleRecords::from_stream(
        InputStream::open(squad)?,
        Arrangement::Data,
    ));
    reqa.keep_fresh = true;
    let mut summary = ReqaSummary::default();
    loop {
        let next = reqa.advance(&mut summary.skipped)?;
        for (key, text) in reqa.fresh.drain(..) {
            writeln!(corpus, "{}", json!({"_id": key, "title": "", "text": text}))?;
            summary.candidates += 1;
        }
        let Some(example) = next else { break };
        let key = example.key.unwrap_or_else(|| format!("q{}", summary.questions));
        writeln!(queries, "{}", json!({"_id": key, "text": example.question.trim()}))?;
        for answer in example.positives.iter().filter_map(|positive| positive.key.as_ref()) {
            writeln!(qrels, "{key}\t{answer}\t1")?;
            summary.judgements += 1;
        }
        summary.questions += 1;
    }
    if summary.questions == 0 {
        return Err(Error::Empty {
            path: squad.to_owned(),
            expected: "answered questions",
        });
    }
    for file in [&mut corpus, &mut queries, &mut qrels] {
        file.flush()?;
    }
    Ok(summary)
}
