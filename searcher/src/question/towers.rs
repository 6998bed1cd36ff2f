//! The question towers of a searcher: one for each model of its indexes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use dyad_index::ModelRecord;

use super::QuestionTower;
use crate::error::{Error, Result};

/// A tower, and whether it has failed for the last question, so that this is logged once.
#[derive(Debug)]
pub struct ModelTower {
    /// The tower.
    pub tower: QuestionTower,
    /// Among the towers, from 0.
    pub number: usize,
    /// The vector of the golden question at the start.
    pub(crate) golden: OnceLock<Vec<f32>>,
    is_down: AtomicBool,
}

impl ModelTower {
    /// Its model, for errors.
    fn describe(&self) -> String {
        let ModelRecord {
            name, fingerprint, dim, ..
        } = self.tower.model();
        format!("`{name}` (fingerprint {fingerprint}, {dim} values)")
    }

    fn new(tower: QuestionTower, number: usize) -> Self {
        Self {
            tower,
            number,
            golden: OnceLock::new(),
            is_down: AtomicBool::new(false),
        }
    }

    /// Whether the tower has failed for the last question.
    pub fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Logs once that the tower has failed, and once that it is back.
    pub fn note(&self, error: Option<&Error>) {
        let model = &self.tower.model().name;
        match error {
            // A busy tower has not failed.
            Some(Error::TowerBusy { .. } | Error::TowerLate(_)) => {}
            Some(error) => {
                if !self.is_down.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        model,
                        "the question tower returns no vectors, BM25 answers where it can: {error}"
                    );
                }
            }
            None => {
                if self.is_down.swap(false, Ordering::Relaxed) {
                    tracing::info!(model, "the question tower returns vectors again");
                }
            }
        }
    }
}

/// The towers, each of another model.
#[derive(Debug, Default)]
pub struct QuestionTowers {
    all: Vec<ModelTower>,
    /// Whether an index that none of them fits is served without one.
    or_none: bool,
}

impl QuestionTowers {
    /// An index that none of the towers fits is refused, except with `or_none`, or where there is no tower at all: its
    /// questions then come with their vectors, or are answered by BM25.
    pub fn new(towers: Vec<QuestionTower>, or_none: bool) -> Result<Self> {
        let mut all: Vec<ModelTower> = Vec::with_capacity(towers.len());
        for (number, tower) in towers.into_iter().enumerate() {
            if let Some(same) = all.iter().find(|one| fits(&one.tower, tower.model())) {
                return Err(Error::SameModel(Box::new(same.tower.model().clone())));
            }
            all.push(ModelTower::new(tower, number));
        }
        Ok(Self { all, or_none })
    }

    /// All of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &ModelTower> {
        self.all.iter()
    }

    /// The tower of a model.
    pub fn find(&self, model: &ModelRecord) -> Option<&ModelTower> {
        self.all.iter().find(|one| fits(&one.tower, model))
    }

    /// Refuses an index of a model that no tower is of, even at the same dimension. `before` is the model of the
    /// generation that is served now, where there is one: an index that has a tower keeps one.
    pub fn check(&self, model: &ModelRecord, before: Option<&ModelRecord>) -> Result<()> {
        let has_one = before.is_some_and(|before| self.find(before).is_some());
        if self.find(model).is_some() || ((self.or_none || self.all.is_empty()) && !has_one) {
            return Ok(());
        }
        let index = Box::new(model.clone());
        Err(match self.all.as_slice() {
            [one] => Error::Model {
                index,
                tower: Box::new(one.tower.model().clone()),
            },
            all => Error::NoModel {
                index,
                towers: all.iter().map(ModelTower::describe).collect::<Vec<_>>().join(", "),
            },
        })
    }
}

impl From<Option<QuestionTower>> for QuestionTowers {
    fn from(tower: Option<QuestionTower>) -> Self {
        Self {
            all: tower.into_iter().map(|tower| ModelTower::new(tower, 0)).collect(),
            or_none: false,
        }
    }
}

/// Whether it is the model of the index, which may keep fewer values of its vectors.
fn fits(tower: &QuestionTower, model: &ModelRecord) -> bool {
    let tower = tower.model();
    (&tower.fingerprint, tower.dim) == (&model.fingerprint, model.own_dim())
}
