//! Configuration of an engine.

use std::time::Duration;

use crate::leaves::HeldShards;
use crate::memory::ProcessMemory;
use crate::plan::ServedSearchDefaults;

/// Configuration of an engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Requests in flight at once: half of them single searches, a quarter exact searches and explanations, of which
    /// more are refused; a quarter batches and streams, which queue instead.
    pub max_requests: usize,
    /// Time for a request whose client sets no deadline.
    pub default_time: Duration,
    /// Bytes of the cache of question vectors; 0: none.
    pub question_cache: usize,
    /// Bytes of the cache of the nodes that filters allow; 0: none.
    pub filter_cache: usize,
    /// The generation of the only index to start with; none: the one that `CURRENT` names.
    pub generation: Option<u64>,
    /// Which shards of a generation are opened.
    pub held: HeldShards,
    /// Memory of the process, to which the engine adds its caches and replies. An index that does not fit is not
    /// served.
    pub memory: ProcessMemory,
    /// Share of one core that comparing searches with exact ones may take; 0: none are.
    pub live_recall_share: f64,
    /// What requests mean where they leave parameters open, by index.
    pub search_defaults: ServedSearchDefaults,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            max_requests: 512,
            default_time: Duration::from_secs(10),
            question_cache: 0,
            filter_cache: 0,
            generation: None,
            held: HeldShards::All,
            memory: ProcessMemory::default(),
            live_recall_share: 0.0,
            search_defaults: ServedSearchDefaults::default(),
        }
    }
}
