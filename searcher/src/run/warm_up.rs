//! Questions that are answered before clients' are: the first ones after a start find pages, caches and the model's memory as later ones do.

use std::time::{Duration, Instant};

use dyad_index::snapshot::{Shard, Snapshot};
use dyad_proto::limits::MAX_QUERY_BYTES;
use dyad_proto::v1;

use super::engine::{Admission, Engine};

/// Questions of a warm-up.
const QUESTIONS: usize = 24;
/// Words of the shortest and the longest: as questions have.
const WORDS: (usize, usize) = (3, 18);
/// Longest warm-up.
const TIME: Duration = Duration::from_secs(20);

impl Engine {
    /// Answers questions that are made of the index's own documents, by all stages. Failures are logged alone: what fails here also
    /// fails for clients, who are told why.
    pub async fn warm_up(&self) {
        let (started, snapshot) = (Instant::now(), self.snapshot());
        let mode = if self.tower().is_some() { v1::Mode::Hybrid } else { v1::Mode::Bm25 };
        let mut answered = 0;
        for query in questions(&snapshot) {
            let left = TIME.saturating_sub(started.elapsed());
            let request = v1::SearchRequest { query, mode: mode.into(), k: 10, ..v1::SearchRequest::default() };
            match self.search(request, Some(left), Admission::Queued).await {
                Ok(_) => answered += 1,
                Err(error) => {
                    tracing::warn!("the warm-up ends early: {error}");
                    break;
                }
            }
        }
        tracing::info!(questions = answered, ms = started.elapsed().as_millis() as u64, "warmed up");
    }
}

/// The beginnings of documents from all shards.
fn questions(snapshot: &Snapshot) -> Vec<String> {
    let shards: Vec<(usize, &Shard)> =
        snapshot.shards().iter().enumerate().filter(|(_, shard)| !shard.is_empty()).collect();
    let question = |number: usize| {
        let (at, shard) = shards.get(number % shards.len().max(1))?;
        // Spread over the shard.
        let node = (shard.dense.len() as u64 * number as u64 / QUESTIONS as u64) as u32;
        let document = snapshot.document(*at, node).ok()?;
        let words = WORDS.0 + number * (WORDS.1 - WORDS.0) / QUESTIONS;
        let question = document.text.split_whitespace().take(words).collect::<Vec<_>>().join(" ");
        (!question.is_empty() && question.len() <= MAX_QUERY_BYTES).then_some(question)
    };
    (0..QUESTIONS).filter_map(question).collect()
}
