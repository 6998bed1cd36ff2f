//! Exact search over a BEIR folder: every question against every document; and a cross encoder's order of the best of
//! them.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use dyad_corpus::metrics::{Average, Evaluation, RankingMetric, drop_identical, evaluate};
use dyad_corpus::qrels::{self, Qrels};
use dyad_corpus::queries;
use dyad_corpus::run::TrecRun;
use dyad_corpus::{BeirFolder, CorpusReader, PassageContext, PassagePlace, ReadOptions};
use rayon::prelude::*;
use tch::Device;

use super::TrainError;
use crate::config::Tower;
use crate::data::best_answers;
use crate::error::Error;
use crate::loss::Similarity;
use crate::model::Model;
use crate::tokenize::{ContextTokens, Tokenizer, Tokens, add_contexts};

/// The metrics, in the order of reports.
pub const METRICS: [RankingMetric; 6] = [
    RankingMetric::ReciprocalRank,
    RankingMetric::Precision(1),
    RankingMetric::Recall(1),
    RankingMetric::Recall(5),
    RankingMetric::Recall(100),
    RankingMetric::Ndcg(10),
];

/// Hits of a question, as in the figures that are published for BEIR.
pub const DEPTH: usize = 100;

/// Below this length a vector counts as zero, as in `torch.nn.functional.normalize`.
const SMALLEST_NORM: f64 = 1e-12;

/// Questions that are reranked together, in batches of like length.
const WINDOW: usize = 128;

/// Embeds texts of a tower, row-major; nothing when it was told to stop.
pub type Embed<'a> = dyn Fn(Tower, &[Tokens]) -> Result<Option<Vec<f32>>, Error> + 'a;

/// A cross encoder's logits of tokenized pairs, in their order; nothing when it was told to stop.
pub type Score<'a> = dyn Fn(&[Tokens]) -> Result<Option<Vec<f32>>, Error> + 'a;

/// What of its document reaches the vector of a passage that is searched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EvaluatedContext {
    /// Title, and tokens in the document.
    pub context: PassageContext,
    /// File of the documents that the passages of the corpus were cut from; needed where a context reads these.
    pub documents: Option<PathBuf>,
}

/// Judged questions and a corpus, tokenized.
#[derive(Debug)]
pub struct Evaluator {
    path: PathBuf,
    questions: EvaluatedTexts,
    documents: EvaluatedTexts,
    /// The documents in which the passages of the corpus stand, and the weight of their tokens in these.
    late: Option<(ContextTokens, f32)>,
    qrels: Qrels,
}

/// The vectors of judged questions and of a corpus, row-major.
#[derive(Debug, Clone)]
pub struct EvaluatedVectors {
    dim: usize,
    questions: Vec<f32>,
    documents: Vec<f32>,
}

impl EvaluatedVectors {
    /// The first `dim` values of each vector, of unit length where `similarity` is the cosine; refuses more than there
    /// are.
    pub fn cut(&self, dim: usize, similarity: Similarity) -> Result<Self, Error> {
        if dim == 0 || dim > self.dim {
            return Err(Error::Setting {
                setting: "dimensions",
                expected: format!("from 1 to {}, the values of the model's vectors", self.dim),
                got: dim.to_string(),
            });
        }
        let cut = |rows: &[f32]| -> Vec<f32> {
            let rows = rows.chunks_exact(self.dim);
            rows.flat_map(|row| cut_row(row.get(..dim).unwrap_or_default(), similarity))
                .collect()
        };
        Ok(Self {
            dim,
            questions: cut(&self.questions),
            documents: cut(&self.documents),
        })
    }
}

/// The beginning of a vector as it is compared.
fn cut_row(row: &[f32], similarity: Similarity) -> impl Iterator<Item = f32> {
    let squares: f64 = row.iter().map(|value| f64::from(*value).powi(2)).sum();
    let length = match similarity {
        Similarity::Cosine => squares.sqrt().max(SMALLEST_NORM),
        Similarity::InnerProduct => 1.0,
    };
    row.iter().map(move |value| (f64::from(*value) / length) as f32)
}

/// Questions, or documents.
#[derive(Debug)]
struct EvaluatedTexts {
    keys: Vec<String>,
    texts: Vec<String>,
    tokens: Vec<Tokens>,
}

impl EvaluatedTexts {
    /// Texts by key.
    fn by_key(&self) -> HashMap<&str, &str> {
        self.keys
            .iter()
            .map(String::as_str)
            .zip(self.texts.iter().map(String::as_str))
            .collect()
    }
}

impl Evaluator {
    /// Reads a BEIR folder: the questions that a split has judged, and all documents with their titles, as they are
    /// indexed.
    pub fn open(folder: &Path, split: &str, encoder: &Model) -> Result<Self, TrainError> {
        Self::open_in(&EvaluatedContext::default(), folder, split, encoder)
    }

    /// The same of passages whose vectors have another context.
    pub fn open_in(
        EvaluatedContext { context, documents }: &EvaluatedContext,
        folder: &Path,
        split: &str,
        encoder: &Model,
    ) -> Result<Self, TrainError> {
        let tokenizer = encoder.tokenizer();
        if !folder.is_dir() {
            return Err(TrainError::NoFolder {
                path: folder.to_owned(),
                split: split.to_owned(),
            });
        }
        let beir = BeirFolder::open(folder)?;
        let qrels = qrels::read(&beir.qrels(split)?)?;
        let (keys, texts): (Vec<String>, Vec<String>) = queries::read(&beir.queries()?)?
            .into_iter()
            .filter(|query| qrels.contains_key(&query.key))
            .map(|query| (query.key, query.text))
            .unzip();
        let refuse = |reason: String| {
            Err(TrainError::Evaluation {
                path: folder.to_owned(),
                reason,
            })
        };
        if context.late_weight().is_some() && !encoder.pools_means(Tower::Answer) {
            return refuse(format!(
                "context `{context}`: expected a model whose vectors are the means of its token vectors, of which passages have some. Use `title`"
            ));
        }
        let asked: HashSet<&String> = keys.iter().collect();
        if let Some(key) = qrels.keys().find(|key| !asked.contains(key)) {
            return refuse(format!(
                "split `{split}` judges question `{key}`, which `queries.jsonl` lacks"
            ));
        }
        let encode = |tower: Tower, texts: &[String]| -> Result<Vec<Tokens>, Error> {
            texts.par_iter().map(|text| tokenizer.encode(tower, text)).collect()
        };
        let questions = EvaluatedTexts {
            tokens: encode(Tower::Question, &texts)?,
            keys,
            texts,
        };
        let read = ReadOptions {
            documents: documents.clone(),
            ..ReadOptions::default()
        };
        let (mut keys, mut texts, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        let mut places: Vec<PassagePlace> = Vec::new();
        for document in CorpusReader::open(&beir.corpus()?, &read)? {
            let document = document?.value;
            texts.push(document.passage().into_owned());
            tokens.push(document.passage_in(*context).into_owned());
            if context.late_weight().is_some() {
                let Some(place) = document.place else {
                    let key = document.key;
                    return refuse(format!(
                        "context `{context}`: document `{key}` is no passage of another one. Name the file of the documents that the passages were cut from"
                    ));
                };
                places.push(place);
            }
            keys.push(document.key);
        }
        check_judged(folder, split, &qrels, &keys)?;
        let documents = EvaluatedTexts {
            tokens: encode(Tower::Answer, &tokens)?,
            keys,
            texts,
        };
        let contexts = |weight| {
            let places: Vec<&PassagePlace> = places.iter().collect();
            tokenizer
                .contexts_of_passages(Tower::Answer, &places)
                .map(|tokens| (tokens, weight))
        };
        let late = context.late_weight().map(contexts).transpose()?;
        Ok(Self {
            path: folder.to_owned(),
            questions,
            documents,
            late,
            qrels,
        })
    }

    /// How many questions and documents there are.
    pub fn size(&self) -> (usize, usize) {
        (self.questions.keys.len(), self.documents.keys.len())
    }

    /// The best documents of each question by inner product; nothing when embedding was told to stop. With a context
    /// that reads documents `embed` has to give vectors of unit length.
    pub fn search(&self, embed: &Embed<'_>, dim: usize, device: Device) -> Result<Option<TrecRun>, TrainError> {
        let vectors = self.embed(embed, dim)?;
        vectors.map(|vectors| self.search_vectors(&vectors, device)).transpose()
    }

    /// The vectors of questions and documents, of `dim` values, as [`Self::search`] compares them; nothing when
    /// embedding was told to stop.
    pub fn embed(&self, embed: &Embed<'_>, dim: usize) -> Result<Option<EvaluatedVectors>, TrainError> {
        let Some(questions) = embed(Tower::Question, &self.questions.tokens)? else {
            return Ok(None);
        };
        let Some(mut documents) = embed(Tower::Answer, &self.documents.tokens)? else {
            return Ok(None);
        };
        if let Some((tokens, weight)) = &self.late {
            let Some(late) = embed(Tower::Answer, &tokens.contexts)? else {
                return Ok(None);
            };
            add_contexts(&mut documents, &late, &tokens.rows, dim, *weight);
        }
        Ok(Some(EvaluatedVectors {
            dim,
            questions,
            documents,
        }))
    }

    /// The best documents of each question by inner product.
    pub fn search_vectors(&self, vectors: &EvaluatedVectors, device: Device) -> Result<TrecRun, TrainError> {
        let EvaluatedVectors {
            dim,
            questions,
            documents,
        } = vectors;
        let best = best_answers(questions, documents, *dim, DEPTH, device)?;
        let hits = best.into_iter().map(|ranked| {
            let key = |row: u32| self.documents.keys.get(row as usize).cloned().unwrap_or_default();
            ranked.into_iter().map(|hit| (key(hit.answer), hit.score)).collect()
        });
        let mut run: TrecRun = self.questions.keys.iter().cloned().zip(hits).collect();
        drop_identical(&mut run);
        Ok(run)
    }

    /// The best `depth` hits of each question in the order of the logits that a cross encoder gives them, the others
    /// after them in the order that they had; nothing when scoring was told to stop. Equal logits leave the order, too.
    /// A hit's score is its logit; after those they fall by one from hit to hit.
    pub fn rerank(
        &self,
        run: &TrecRun,
        depth: usize,
        tokenizer: &Tokenizer,
        score: &Score<'_>,
    ) -> Result<Option<TrecRun>, TrainError> {
        let (questions, documents) = (self.questions.by_key(), self.documents.by_key());
        let refuse = |what: &str, key: &str| TrainError::Evaluation {
            path: self.path.clone(),
            reason: format!("the run to be reranked has {what} `{key}`, which the folder lacks"),
        };
        let mut reranked = TrecRun::new();
        let run: Vec<(&String, &Vec<(String, f32)>)> = run.iter().collect();
        for window in run.chunks(WINDOW) {
            let mut pairs: Vec<(&str, &str)> = Vec::new();
            for (key, hits) in window {
                let question = questions.get(key.as_str()).ok_or_else(|| refuse("question", key))?;
                for (key, _) in hits.iter().take(depth) {
                    pairs.push((
                        question,
                        documents.get(key.as_str()).ok_or_else(|| refuse("document", key))?,
                    ));
                }
            }
            let tokens = pairs
                .par_iter()
                .map(|(question, text)| tokenizer.encode_pair(question, text));
            let tokens = tokens.collect::<Result<Vec<Tokens>, Error>>()?;
            let Some(logits) = score(&tokens)? else { return Ok(None) };
            let mut logits = logits.into_iter();
            for (question, hits) in window {
                let (scored, rest) = hits.split_at(hits.len().min(depth));
                let scored = scored.iter().zip(logits.by_ref());
                let mut order: Vec<(String, f32)> = scored.map(|((key, _), logit)| (key.clone(), logit)).collect();
                order.sort_by(|left, right| right.1.total_cmp(&left.1));
                let least = order.last().map_or(0.0, |(_, logit)| *logit);
                let after = |(place, (key, _)): (usize, &(String, f32))| (key.clone(), least - (place + 1) as f32);
                order.extend(rest.iter().enumerate().map(after));
                reranked.insert((*question).clone(), order);
            }
        }
        Ok(Some(reranked))
    }

    /// Each of [`METRICS`] over all judged questions.
    pub fn measure(&self, run: &TrecRun) -> Evaluation {
        evaluate(run, &self.qrels, &METRICS, Average::Complete)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Refuses judgements by which every model would have 0, and tells of those that no model can meet.
fn check_judged(folder: &Path, split: &str, qrels: &Qrels, keys: &[String]) -> Result<(), TrainError> {
    let known: HashSet<&str> = keys.iter().map(String::as_str).collect();
    let relevant = qrels::relevant(qrels);
    let missing: Vec<&str> = relevant.iter().copied().filter(|key| !known.contains(key)).collect();
    match qrels::check_missing(&relevant, &missing, |key| known.contains(key)) {
        Ok(None) => Ok(()),
        Ok(Some(note)) => {
            tracing::warn!(folder = %folder.display(), "split `{split}`: {note}");
            Ok(())
        }
        Err(reason) => {
            let held = keys.first().map(String::as_str).unwrap_or_default();
            let reason = format!("split `{split}`: {reason}. A key of the corpus is `{held}`");
            Err(TrainError::Evaluation {
                path: folder.to_owned(),
                reason,
            })
        }
    }
}
