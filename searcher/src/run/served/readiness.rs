//! Whether the searcher can answer: question towers that embed as they did at the start, and indexes whose directories
//! are there. Looked at again and again in the background, so that probes cost nothing.

use std::sync::Arc;
use std::time::Duration;

use dyad_index::manifest;
use tokio::sync::watch;

use super::served_index::ServedIndex;
use crate::error::Error;
use crate::question::{GOLDEN, ModelTower, QuestionTowers};

/// Between two looks.
pub(in crate::run) const PAUSE: Duration = Duration::from_secs(5);
/// Longest time for a tower to embed the golden question.
const GOLDEN_TIME: Duration = Duration::from_secs(5);
/// Least cosine of the golden question's vector with that of the start.
const LEAST_COSINE: f32 = 0.99;

/// Ready, or why not.
pub type Readiness = std::result::Result<(), Arc<str>>;

/// Whether the searcher is ready, and who wants to know.
#[derive(Debug)]
pub(in crate::run) struct ReadinessState(watch::Sender<Readiness>);

impl Default for ReadinessState {
    fn default() -> Self {
        Self(watch::Sender::new(Ok(())))
    }
}

impl ReadinessState {
    /// As it was at the last look.
    pub(in crate::run) fn now(&self) -> Readiness {
        self.0.borrow().clone()
    }

    pub(in crate::run) fn changes(&self) -> watch::Receiver<Readiness> {
        self.0.subscribe()
    }

    /// Looks.
    pub(in crate::run) async fn check(&self, towers: &QuestionTowers, indexes: Vec<Arc<ServedIndex>>) -> Readiness {
        let now = look(towers, indexes).await.map_err(Arc::from);
        self.0.send_if_modified(|before| {
            let changed = *before != now;
            match (&now, changed) {
                (Ok(()), true) => tracing::info!("ready"),
                (Err(reason), true) => tracing::error!(%reason, "not ready"),
                (_, false) => {}
            }
            before.clone_from(&now);
            changed
        });
        now
    }
}

/// Why a generation of an index cannot be found on the disk; none where one can.
fn missing(index: &ServedIndex) -> Option<String> {
    let reason = match manifest::current_generation(&index.path) {
        Ok(Some(_)) => return None,
        Ok(None) => format!("`{}` is no index any more", index.path.display()),
        Err(error) => error.to_string(),
    };
    Some(format!("index `{}`: {reason}", index.name))
}

async fn look(towers: &QuestionTowers, indexes: Vec<Arc<ServedIndex>>) -> std::result::Result<(), String> {
    for one in towers.iter() {
        check_tower(one).await?;
    }
    match tokio::task::spawn_blocking(move || indexes.iter().find_map(|index| missing(index))).await {
        Ok(None) => Ok(()),
        Ok(Some(reason)) => Err(reason),
        Err(_) => Err("the look at the indexes was interrupted".to_owned()),
    }
}

/// A tower of this process must live; a service that does not answer is no reason, for BM25 answers in its place, and
/// it comes back. Neither may embed the golden question otherwise than at the start.
async fn check_tower(one: &ModelTower) -> std::result::Result<(), String> {
    let ModelTower { tower, golden, .. } = one;
    let model = &tower.model().name;
    match tower.check().await {
        Err(error @ Error::Tower { transient: true, .. }) if tower.is_remote() => {
            one.note(Some(&error));
            return Ok(());
        }
        // The golden question probes it.
        Ok(()) | Err(Error::TowerSilent { .. }) => {}
        Err(error) => return Err(format!("question tower `{model}`: {error}")),
    }
    // A tower that is busy has not failed.
    let embedded = tower.embed(vec![GOLDEN.to_owned()], GOLDEN_TIME).await;
    one.note(embedded.as_ref().err());
    let Ok(embedded) = embedded else { return Ok(()) };
    let first = golden.get_or_init(|| embedded.vectors.clone());
    let cosine: f32 = first.iter().zip(&embedded.vectors).map(|(a, b)| a * b).sum();
    if cosine >= LEAST_COSINE {
        return Ok(());
    }
    Err(format!(
        "question tower `{model}`: the golden question's vector has changed: cosine {cosine}, expected {LEAST_COSINE}"
    ))
}
