//! Embeds the questions; where the tower fails, BM25 alone answers those that it can.

use std::sync::atomic::Ordering;

use super::answer::StageTimings;
use super::batch::{Batch, BatchItem, Vector};
use super::engine::Engine;
use crate::error::{Error, Result};
use crate::plan::Mode;
use crate::question::Embedded;

impl Engine {
    /// Vectors for the questions that have a dense part and came without one, in one call to the tower. When the tower fails,
    /// questions that can be answered without a vector are, and the answer is marked as degraded.
    pub(super) async fn embed(&self, batch: &Batch) -> Result<()> {
        let wants = |item: &BatchItem| item.plan.dense.is_some() && item.vector.is_none();
        let wanting = || batch.items.iter().filter(|item| wants(item));
        let time = wanting().map(|item| item.plan.tower_time).min();
        let embedded = match (time, self.tower()) {
            (Some(time), Some(tower)) => tower.embed(wanting().map(|item| item.query.clone()).collect(), time).await,
            // Not a failure that passes: a question of any mode is refused.
            (Some(_), None) => return Err(Error::NoTower),
            (None, _) => Ok(Embedded::default()),
        };
        if time.is_some() {
            self.note_tower(embedded.as_ref().err());
        }
        let embedded = match embedded {
            Err(error) if wanting().any(|item| item.plan.mode == Mode::Dense) => return Err(error),
            embedded => embedded,
        };
        let (dim, mut numbers) = (batch.snapshot.manifest().model.dim, 0..);
        let vector = |item: &BatchItem| match &embedded {
            _ if !wants(item) => Vector { values: item.vector.clone(), ..Vector::default() },
            Ok(embedded) => nth(embedded, numbers.next().unwrap_or_default(), dim),
            Err(error) => {
                let degraded = Some(format!("no question vector, answered by BM25 alone: {error}"));
                Vector { degraded, ..Vector::default() }
            }
        };
        let vectors = batch.items.iter().map(vector).collect();
        batch.vectors.set(vectors).map_err(|_| Error::Internal)
    }

    /// Logs once that the tower has failed, and once that it is back.
    fn note_tower(&self, error: Option<&Error>) {
        match error {
            // A busy tower has not failed.
            Some(Error::TowerBusy { .. } | Error::TowerLate(_)) => {}
            Some(error) => {
                if !self.tower_is_down.swap(true, Ordering::Relaxed) {
                    tracing::warn!("the question tower returns no vectors, BM25 answers where it can: {error}");
                }
            }
            None => {
                if self.tower_is_down.swap(false, Ordering::Relaxed) {
                    tracing::info!("the question tower returns vectors again");
                }
            }
        }
    }
}

/// What the tower says of one of its questions.
fn nth(embedded: &Embedded, number: u32, dim: usize) -> Vector {
    let Embedded { vectors, tokens, truncated, queue_us, tokenize_us, embed_us } = embedded;
    let (at, times) = (number as usize, StageTimings::default());
    Vector {
        values: vectors.chunks_exact(dim.max(1)).nth(at).map(<[f32]>::to_vec),
        tokens: tokens.get(at).copied().unwrap_or_default(),
        truncated: truncated.contains(&number),
        timings: StageTimings { queue_us: *queue_us, tokenize_us: *tokenize_us, embed_us: *embed_us, ..times },
        degraded: None,
    }
}
