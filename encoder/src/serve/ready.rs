//! Readiness: a real forward pass whose result is checked: vectors of both towers, or the score of a pair.
//!
//! A probe goes before everything that waits, so that a busy service is not taken for a broken one. Callers share a
//! probe for a moment, so that frequent probes do not delay other callers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::error::{EncodeError, NotReady, late};
use super::handle::Handle;
use super::queue::QueuedRequest;
use super::reply::{PendingReply, Receiver, ReplyOutcome};
use super::submit::blank;
use crate::config::Tower;
use crate::error::Error;
use crate::model::{ModelKind, least_cosine};
use crate::tokenize::Tokens;

/// How long an answer holds.
const FRESH: Duration = Duration::from_secs(1);

/// The text of a probe where the model has no golden text.
const PROBE: &str = "Does the model answer?";

/// How far the length of a unit vector may be from 1, in half precision too.
const LENGTH_TOLERANCE: f64 = 1e-2;

impl Handle {
    /// Embeds a probe with both towers, within this time, and judges its vectors. An answer holds for a second.
    pub async fn ready(&self, within: Duration) -> Result<(), NotReady> {
        let (came, deadline) = (Instant::now(), Instant::now() + within);
        let Ok(mut last) = tokio::time::timeout_at(deadline.into(), self.running.last_probe.lock()).await else {
            return Err(NotReady::Failed {
                tower: Tower::Question,
                source: late(came),
            });
        };
        if let Some((given, answer)) = &*last
            && given.elapsed() < FRESH
        {
            return answer.clone();
        }
        let answer = match self.info().kind {
            ModelKind::CrossEncoder => self.try_pair(deadline).await,
            ModelKind::DualEncoder => {
                let question = self.try_tower(Tower::Question, deadline);
                let (question, answer) =
                    futures_util::future::join(question, self.try_tower(Tower::Answer, deadline)).await;
                question.and(answer)
            }
        };
        *last = Some((Instant::now(), answer.clone()));
        answer
    }

    async fn try_tower(&self, tower: Tower, deadline: Instant) -> Result<(), NotReady> {
        let golden = self
            .running
            .opened
            .golden
            .iter()
            .find(|golden| golden.tower == tower.name());
        let probe = golden.map_or(PROBE, |golden| golden.text.as_str());
        let tokens = self.running.opened.tokenizer().encode(tower, probe);
        let encoded = self
            .probe(tower, tokens, deadline)
            .await
            .map_err(|source| NotReady::Failed { tower, source })?;
        judge(tower, &encoded.vectors)?;
        let Some(golden) = golden else { return Ok(()) };
        let (cosine, least) = (golden.cosine(&encoded.vectors), least_cosine(self.info().dtype));
        if cosine >= least {
            Ok(())
        } else {
            Err(NotReady::Drifted { tower, cosine, least })
        }
    }

    async fn try_pair(&self, deadline: Instant) -> Result<(), NotReady> {
        let (tower, tokens) = (Tower::Answer, self.running.opened.tokenizer().encode_pair(PROBE, PROBE));
        let scored = self
            .probe(tower, tokens, deadline)
            .await
            .map_err(|source| NotReady::Failed { tower, source })?;
        match scored.vectors[..] {
            [score] if score.is_finite() => Ok(()),
            _ => Err(NotReady::NotFinite {
                score: scored.vectors.first().copied().unwrap_or(f32::NAN),
            }),
        }
    }

    /// Runs the probe before everything that waits.
    async fn probe(&self, tower: Tower, tokens: Result<Tokens, Error>, deadline: Instant) -> ReplyOutcome {
        let came = Instant::now();
        let texts = vec![tokens.map_err(|error| EncodeError::Model(Arc::new(error)))?];
        let (sender, receiver) = oneshot::channel();
        let reply = PendingReply::new(
            blank(&texts, &[], self.info().dim),
            None,
            came,
            Receiver::Task(sender),
            None,
        );
        self.running.backend.push_first(QueuedRequest {
            tower,
            skipped: self.running.opened.prompts.own().skipped_tokens(tower),
            texts,
            contexts: Vec::new(),
            deadline,
            reply: Arc::new(reply),
        });
        match tokio::time::timeout_at(deadline.into(), receiver).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(EncodeError::Stopped),
            Err(_) => Err(late(came)),
        }
    }
}

/// Whether a probe's vector is valid: finite and of unit length.
fn judge(tower: Tower, vector: &[f32]) -> Result<(), NotReady> {
    let length = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    // Also where the length is NaN.
    if (length - 1.0).abs() <= LENGTH_TOLERANCE {
        Ok(())
    } else {
        Err(NotReady::Wrong { tower, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unit_vectors_are_sound() {
        assert!(judge(Tower::Answer, &[0.6, 0.8]).is_ok());
        for wrong in [
            &[][..],
            &[0.0, 0.0],
            &[0.6, 0.9],
            &[f32::NAN, 1.0],
            &[f32::INFINITY, 0.0],
        ] {
            assert!(
                matches!(judge(Tower::Answer, wrong), Err(NotReady::Wrong { .. })),
                "{wrong:?}"
            );
        }
    }
}
