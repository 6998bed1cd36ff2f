//! Whether the searcher can answer: question towers that embed as they did at the start, and indexes whose directories are there. Looked
//! at again and again in the background, so that probes cost nothing.

use std::sync::Arc;
use std::time::Duration;

use dyad_index::manifest;
use tokio::sync::watch;

use super::engine::Engine;
use crate::error::Error;
use crate::question::ModelTower;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(5);
/// Longest time for a tower to embed the golden question.
const GOLDEN_TIME: Duration = Duration::from_secs(5);
/// The golden question of towers.
const GOLDEN: &str = "which river is the longest of the world?";
/// Least cosine of its vector with that of the start.
const LEAST_COSINE: f32 = 0.99;

/// Ready, or why not.
pub type Readiness = std::result::Result<(), Arc<str>>;

impl Engine {
    /// As it was at the last look.
    pub fn readiness(&self) -> Readiness {
        self.readiness.borrow().clone()
    }

    /// Changes of readiness.
    pub fn readiness_changes(&self) -> watch::Receiver<Readiness> {
        self.readiness.subscribe()
    }

    /// Looks now.
    pub async fn check_readiness(self: &Arc<Self>) -> Readiness {
        let now = self.look().await.map_err(Arc::from);
        self.readiness.send_if_modified(|before| {
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

    /// Looks again and again, until the future is dropped.
    pub async fn follow_readiness(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(PAUSE).await;
            _ = self.check_readiness().await;
        }
    }

    async fn look(self: &Arc<Self>) -> std::result::Result<(), String> {
        for one in self.towers.iter() {
            check_tower(one).await?;
        }
        let engine = Arc::clone(self);
        let gone = tokio::task::spawn_blocking(move || {
            let gone = |index: &Arc<super::served_index::ServedIndex>| {
                let reason = match manifest::current_generation(&index.path) {
                    Ok(Some(_)) => return None,
                    Ok(None) => format!("`{}` is no index any more", index.path.display()),
                    Err(error) => error.to_string(),
                };
                Some(format!("index `{}`: {reason}", index.name))
            };
            engine.indexes.iter().find_map(gone)
        });
        match gone.await {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(reason),
            Err(_) => Err("the look at the indexes was interrupted".to_owned()),
        }
    }
}

/// A tower of this process must live; a service that does not answer is no reason, for BM25 answers in its place, and it comes back.
/// Neither may embed the golden question otherwise than at the start.
async fn check_tower(ModelTower { tower, golden, .. }: &ModelTower) -> std::result::Result<(), String> {
    let model = &tower.model().name;
    match tower.check().await {
        Err(Error::Tower { transient: true, .. }) if tower.is_remote() => return Ok(()),
        Err(error) => return Err(format!("question tower `{model}`: {error}")),
        Ok(()) => {}
    }
    // A tower that is busy has not failed.
    let Ok(embedded) = tower.embed(vec![GOLDEN.to_owned()], GOLDEN_TIME).await else { return Ok(()) };
    let first = golden.get_or_init(|| embedded.vectors.clone());
    let cosine: f32 = first.iter().zip(&embedded.vectors).map(|(a, b)| a * b).sum();
    if cosine >= LEAST_COSINE {
        return Ok(());
    }
    Err(format!(
        "question tower `{model}`: the golden question's vector has changed: cosine {cosine}, expected {LEAST_COSINE}"
    ))
}
