//! Questions, judgements and judged documents of a BEIR folder.
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use super::example::TrainingExample;
use super::judged::PassagesByKey;
use crate::error::Error;
use crate::problem::CorpusProblem;
use crate::qrels::{self, Qrels};
use crate::queries::{self, KeyedQuery};
use crate::read::BeirFolder;

/// The judged questions of one split, in the order of the questions. Questions, judgements and judged documents are
/// held.
#[derive(Debug)]
pub(super) struct BeirExamples {
    folder: PathBuf,
    split: String,
    questions: std::vec::IntoIter<KeyedQuery>,
    /// Judged, and not among the questions.
    unknown: std::vec::IntoIter<String>,
    judgements: Qrels,
    documents: PassagesByKey,
}

impl BeirExamples {
    pub(super) fn open(folder: &Path, split: &str) -> Result<Self, Error> {
        let beir = BeirFolder::open(folder)?;
        let judgements = qrels::read(&beir.qrels(split)?)?;
        let mut questions = queries::read(&beir.queries()?)?;
        questions.retain(|question| judgements.contains_key(&question.key));
        let asked: HashSet<&str> = questions.iter().map(|question| question.key.as_str()).collect();
        let unknown: Vec<String> = judgements
            .keys()
            .filter(|key| !asked.contains(key.as_str()))
            .cloned()
            .collect();
        let wanted: HashSet<String> = judgements.values().flat_map(BTreeMap::keys).cloned().collect();
        let documents = PassagesByKey::read(&beir.corpus()?, &wanted)?;
        let (questions, unknown) = (questions.into_iter(), unknown.into_iter());
        Ok(Self {
            folder: folder.to_owned(),
            split: split.to_owned(),
            questions,
            unknown,
            judgements,
            documents,
        })
    }

    pub(super) fn advance(&mut self) -> Result<Option<TrainingExample>, Error> {
        let (key, found) = if let Some(question) = self.questions.next() {
            (question.key.clone(), self.example(question))
        } else {
            let Some(key) = self.unknown.next() else {
                return Ok(None);
            };
            (key, Err(CorpusProblem::UnknownQuestion))
        };
        found.map(Some).map_err(|problem| Error::Question {
            folder: self.folder.clone(),
            split: self.split.clone(),
            key,
            problem: Box::new(problem),
        })
    }

    fn example(&self, question: KeyedQuery) -> Result<TrainingExample, CorpusProblem> {
        let mut example = TrainingExample {
            question: question.text,
            ..TrainingExample::default()
        };
        for (key, &grade) in self.judgements.get(&question.key).into_iter().flatten() {
            let passage = self.documents.passage(key)?;
            if grade > 0 {
                example.positives.push(passage);
            } else {
                example.negatives.push(passage);
            }
        }
        example.key = Some(question.key);
        example.check()?;
        Ok(example)
    }
}
