//! Questions that are answered before clients' are: the first ones after a start find pages, caches and the model's
//! memory as later ones do.

use std::time::{Duration, Instant};

use dyad_index::snapshot::{Shard, Snapshot};
use dyad_proto::access::Caller;
use dyad_proto::limits::MAX_QUERY_BYTES;
use dyad_proto::v1;

use super::engine::{Engine, QueuePolicy};

/// Questions of a warm-up: of several indexes together, and at least one of each.
const QUESTIONS: usize = 24;
/// Words of the shortest and the longest: as questions have.
const WORDS: (usize, usize) = (3, 18);
/// Longest warm-up.
const TIME: Duration = Duration::from_secs(20);
/// Longest warm-up of more indexes than there are questions: clients of the first wait for those of the last.
const TIME_OF_MANY: Duration = Duration::from_secs(3);

impl Engine {
    /// Answers questions that are made of the indexes' own documents, by all stages: of several indexes fewer for each,
    /// as many as there is time for. Failures are logged alone: what fails here also fails for clients, who are told
    /// why.
    pub async fn warm_up(&self) {
        let (started, count) = (Instant::now(), self.indexes.iter().len());
        let time = if count > QUESTIONS { TIME_OF_MANY } else { TIME };
        let (mut answered, mut warmed) = (0, 0);
        for index in self.indexes.iter().take_while(|_| started.elapsed() < time) {
            warmed += 1;
            let snapshot = index.snapshot();
            let mode = if self.tower_of(&snapshot).is_some() {
                v1::Mode::Hybrid
            } else {
                v1::Mode::Bm25
            };
            for query in questions(&snapshot, QUESTIONS.div_ceil(count)) {
                let left = time.saturating_sub(started.elapsed());
                if left.is_zero() {
                    break;
                }
                let request = v1::SearchRequest {
                    query,
                    mode: mode.into(),
                    k: 10,
                    index: index.name.to_string(),
                    ..v1::SearchRequest::default()
                };
                match self
                    .search(request, &Caller::default(), Some(left), QueuePolicy::Refused)
                    .await
                {
                    Ok(_) => answered += 1,
                    Err(error) => {
                        tracing::warn!(index = &*index.name, "the warm-up ends early: {error}");
                        break;
                    }
                }
            }
        }
        let ms = started.elapsed().as_millis() as u64;
        tracing::info!(indexes = warmed, questions = answered, ms, "warmed up");
    }
}

/// The beginnings of `count` documents from all shards.
fn questions(snapshot: &Snapshot, count: usize) -> Vec<String> {
    let shards: Vec<(usize, &Shard)> = snapshot
        .shards()
        .iter()
        .enumerate()
        .filter(|(_, shard)| !shard.is_empty())
        .collect();
    let question = |number: usize| {
        let (at, shard) = shards.get(number % shards.len().max(1))?;
        // Spread over the shard.
        let node = (shard.dense.len() as u64 * number as u64 / count as u64) as u32;
        let document = snapshot.document(*at, node).ok()?;
        let words = WORDS.0 + number * (WORDS.1 - WORDS.0) / count;
        let question = document
            .text
            .split_whitespace()
            .take(words)
            .collect::<Vec<_>>()
            .join(" ");
        (!question.is_empty() && question.len() <= MAX_QUERY_BYTES).then_some(question)
    };
    (0..count).filter_map(question).collect()
}
