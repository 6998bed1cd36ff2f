//! Generations that were served before the one that is: roots may still ask a leaf for them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dyad_proto::v1;

use super::generation::ServedGeneration;

/// How long a generation is kept after it was asked for last, or was no longer served.
const KEPT: Duration = Duration::from_mins(1);

/// Kept generations.
#[derive(Debug, Default)]
pub(in crate::run) struct EarlierGenerations(Mutex<Vec<EarlierGeneration>>);

#[derive(Debug)]
struct EarlierGeneration {
    generation: Arc<ServedGeneration>,
    asked: Instant,
}

impl EarlierGenerations {
    /// Keeps a generation, which is not served any more.
    pub(in crate::run) fn keep(&self, generation: Arc<ServedGeneration>) {
        let asked = Instant::now();
        self.lock().push(EarlierGeneration { generation, asked });
    }

    /// One of them, which is kept for longer.
    pub(in crate::run) fn find(&self, name: &v1::GenerationName) -> Option<Arc<ServedGeneration>> {
        let mut kept = self.lock();
        let found = kept.iter_mut().find(|kept| kept.generation.name() == name)?;
        found.asked = Instant::now();
        Some(Arc::clone(&found.generation))
    }

    /// All of them.
    pub(in crate::run) fn all(&self) -> Vec<Arc<ServedGeneration>> {
        self.lock().iter().map(|kept| Arc::clone(&kept.generation)).collect()
    }

    /// Takes out those that nobody has asked for in a while, and one of this name, which is served again.
    pub(in crate::run) fn take_old(&self, served: &v1::GenerationName, now: Instant) -> Vec<Arc<ServedGeneration>> {
        let mut kept = self.lock();
        let is_old = |kept: &mut EarlierGeneration| {
            kept.generation.name() == served || now.saturating_duration_since(kept.asked) >= KEPT
        };
        kept.extract_if(.., is_old).map(|old| old.generation).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<EarlierGeneration>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
