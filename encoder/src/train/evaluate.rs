//! Exact search over a BEIR folder: every question against every document.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dyad_corpus::metrics::{Average, Evaluation, Metric, drop_identical, evaluate};
use dyad_corpus::qrels::{self, Qrels};
use dyad_corpus::queries;
use dyad_corpus::run::Run;
use dyad_corpus::{BeirFolder, CorpusReader, ReadOptions};
use rayon::prelude::*;
use tch::Device;

use super::TrainError;
use crate::config::Tower;
use crate::data::best_answers;
use crate::error::Error;
use crate::tokenize::{Tokenizer, Tokens};

/// The metrics, in the order of reports.
pub const METRICS: [Metric; 6] = [
    Metric::ReciprocalRank,
    Metric::Precision(1),
    Metric::Recall(1),
    Metric::Recall(5),
    Metric::Recall(100),
    Metric::Ndcg(10),
];

/// Hits of a question, as in the figures that are published for BEIR.
const DEPTH: usize = 100;

/// Embeds texts of a tower, row-major; nothing when it was told to stop.
pub type Embed<'a> = dyn Fn(Tower, &[Tokens]) -> Result<Option<Vec<f32>>, Error> + 'a;

/// Judged questions and a corpus, tokenized.
#[derive(Debug)]
pub struct Evaluator {
    path: PathBuf,
    questions: (Vec<String>, Vec<Tokens>),
    documents: (Vec<String>, Vec<Tokens>),
    qrels: Qrels,
}

impl Evaluator {
    /// Reads a BEIR folder: the questions that a split has judged, and all documents with their titles, as they are indexed.
    pub fn open(folder: &Path, split: &str, tokenizer: &Tokenizer) -> Result<Self, TrainError> {
        if !folder.is_dir() {
            return Err(TrainError::NoFolder { path: folder.to_owned(), split: split.to_owned() });
        }
        let beir = BeirFolder::open(folder)?;
        let qrels = qrels::read(&beir.qrels(split)?)?;
        let (keys, texts): (Vec<String>, Vec<String>) = queries::read(&beir.queries()?)?
            .into_iter()
            .filter(|query| qrels.contains_key(&query.key))
            .map(|query| (query.key, query.text))
            .unzip();
        let refuse = |reason: String| Err(TrainError::Evaluation { path: folder.to_owned(), reason });
        let asked: HashSet<&String> = keys.iter().collect();
        if let Some(key) = qrels.keys().find(|key| !asked.contains(key)) {
            return refuse(format!("split `{split}` judges question `{key}`, which `queries.jsonl` lacks"));
        }
        let encode = |tower: Tower, texts: &[String]| -> Result<Vec<Tokens>, Error> {
            texts.par_iter().map(|text| tokenizer.encode(tower, text)).collect()
        };
        let questions = encode(Tower::Question, &texts)?;
        let (mut documents, mut passages) = (Vec::new(), Vec::new());
        for document in CorpusReader::open(&beir.corpus()?, &ReadOptions::default())? {
            let document = document?.value;
            passages.push(document.passage().into_owned());
            documents.push(document.key);
        }
        let tokens = encode(Tower::Answer, &passages)?;
        Ok(Self { path: folder.to_owned(), questions: (keys, questions), documents: (documents, tokens), qrels })
    }

    /// How many questions and documents there are.
    pub fn size(&self) -> (usize, usize) {
        (self.questions.0.len(), self.documents.0.len())
    }

    /// The best documents of each question by inner product; nothing when embedding was told to stop.
    pub fn search(&self, embed: &Embed<'_>, dim: usize, device: Device) -> Result<Option<Run>, TrainError> {
        let Some(questions) = embed(Tower::Question, &self.questions.1)? else { return Ok(None) };
        let Some(documents) = embed(Tower::Answer, &self.documents.1)? else { return Ok(None) };
        let best = best_answers(&questions, &documents, dim, DEPTH, device)?;
        let hits = best.into_iter().map(|ranked| {
            let key = |row: u32| self.documents.0.get(row as usize).cloned().unwrap_or_default();
            ranked.into_iter().map(|hit| (key(hit.answer), hit.score)).collect()
        });
        let mut run: Run = self.questions.0.iter().cloned().zip(hits).collect();
        drop_identical(&mut run);
        Ok(Some(run))
    }

    /// Each of [`METRICS`] over all judged questions.
    pub fn measure(&self, run: &Run) -> Evaluation {
        evaluate(run, &self.qrels, &METRICS, Average::Complete)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
