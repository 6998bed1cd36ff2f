//! Embeds the questions that were not asked before; where the tower fails, BM25 alone answers those that it can.

use std::sync::Arc;

use dyad_proto::v1;
use dyad_proto::v1::Mode;

use super::engine::Engine;
use super::stages::batch::{BatchItem, QuestionBatch, QuestionVector};
use crate::error::{Error, Result};
use crate::metrics::CacheKind;
use crate::question::{CachedQuestion, EmbeddedQuestions};

impl Engine {
    /// Vectors for the questions that have a dense part and came without one: those that were asked before from the
    /// cache, the others in one call to the tower. When the tower fails, questions that can be answered without a
    /// vector are, and the answer is marked as degraded.
    pub(super) async fn embed(&self, batch: &QuestionBatch) -> Result<()> {
        let wants = |item: &BatchItem| item.plan.dense.is_some() && item.vector.is_none();
        let tower = self.tower_of(&batch.snapshot);
        if tower.is_none() && batch.items.iter().any(wants) {
            // Not a failure that passes: a question of any mode is refused.
            return Err(Error::NoTower);
        }
        let cache = self.questions.as_ref().zip(tower);
        let known = |item: &BatchItem| {
            let (cache, tower) = cache.filter(|_| wants(item))?;
            cache.get(tower.number, &item.query)
        };
        let known: Vec<Option<Arc<CachedQuestion>>> = batch.items.iter().map(known).collect();
        if cache.is_some() {
            for (_, known) in batch.items.iter().zip(&known).filter(|(item, _)| wants(item)) {
                self.metrics().cache(CacheKind::Questions, known.is_some());
            }
        }
        let all = || batch.items.iter().zip(&known);
        let asked = || {
            all()
                .filter(|(item, known)| wants(item) && known.is_none())
                .map(|(item, _)| item)
        };
        let embedded = match (asked().map(|item| item.plan.tower_time).min(), tower) {
            (Some(time), Some(one)) => {
                let time = time.min(batch.cancel.remaining());
                let embedded = one
                    .tower
                    .embed(asked().map(|item| item.query.clone()).collect(), time)
                    .await;
                one.note(embedded.as_ref().err());
                embedded
            }
            _ => Ok(EmbeddedQuestions::default()),
        };
        let embedded = match embedded {
            Err(error) if asked().any(|item| item.plan.mode == Mode::Dense) => return Err(error),
            embedded => embedded,
        };
        let (model, mut numbers) = (&batch.snapshot.manifest().model, 0..);
        let vector = |(item, known): (&BatchItem, &Option<Arc<CachedQuestion>>)| match (known, &embedded) {
            _ if !wants(item) => QuestionVector {
                values: item.vector.clone(),
                ..QuestionVector::default()
            },
            (Some(known), _) => of_cache(known),
            (None, Ok(embedded)) => {
                let vector = nth(embedded, numbers.next().unwrap_or_default(), model.own_dim());
                if let (Some((cache, tower)), Some(values)) = (cache, &vector.values) {
                    let QuestionVector { tokens, truncated, .. } = vector;
                    cache.insert(
                        tower.number,
                        &item.query,
                        CachedQuestion {
                            values: values.clone(),
                            tokens,
                            truncated,
                        },
                    );
                }
                vector
            }
            (None, Err(error)) => without_vector(batch, error),
        };
        let kept = |mut vector: QuestionVector| {
            vector.values.as_mut().map_or(Ok(()), |values| model.cut(values))?;
            Ok(vector)
        };
        let vectors = all().map(vector).map(kept).collect::<Result<_>>()?;
        batch.vectors.set(vectors).map_err(|_| Error::Internal)
    }
}

/// The vector of a question that is answered by BM25 alone, since it could not be embedded.
fn without_vector(batch: &QuestionBatch, error: &Error) -> QuestionVector {
    // The error may name machines; it is in the log.
    let reason = if batch.scope.is_some() {
        String::new()
    } else {
        format!(": {error}")
    };
    QuestionVector {
        degraded: Some(format!("no question vector, answered by BM25 alone{reason}")),
        ..QuestionVector::default()
    }
}

fn of_cache(known: &CachedQuestion) -> QuestionVector {
    let CachedQuestion {
        values,
        tokens,
        truncated,
    } = known;
    QuestionVector {
        values: Some(values.clone()),
        tokens: *tokens,
        truncated: *truncated,
        ..QuestionVector::default()
    }
}

/// What the tower says of one of its questions.
fn nth(embedded: &EmbeddedQuestions, number: u32, dim: usize) -> QuestionVector {
    let EmbeddedQuestions {
        vectors,
        tokens,
        truncated,
        queue_us,
        tokenize_us,
        embed_us,
    } = embedded;
    let (at, times) = (number as usize, v1::Timings::default());
    QuestionVector {
        values: vectors.chunks_exact(dim.max(1)).nth(at).map(<[f32]>::to_vec),
        tokens: tokens.get(at).copied().unwrap_or_default(),
        truncated: truncated.contains(&number),
        timings: v1::Timings {
            queue_us: *queue_us,
            tokenize_us: *tokenize_us,
            embed_us: *embed_us,
            ..times
        },
        degraded: None,
    }
}
