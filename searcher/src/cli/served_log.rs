//! What `dyad-searcher serve` logs of the indexes that it has opened.

use std::sync::Arc;

use dyad_proto::v1;

use crate::memory::mib;
use crate::run::{Engine, ServedIndex, no_gain};

/// Indexes that are logged one by one.
const LOGGED: usize = 10;

/// Logs what is served: of a few indexes each.
pub(super) fn log_served(engine: &Engine) {
    for index in engine.indexes().take(LOGGED) {
        let (snapshot, coverage) = (index.snapshot(), index.generation().coverage());
        tracing::info!(
            index = %snapshot.index().display(),
            name = index.name(),
            generation = snapshot.manifest().generation,
            documents = coverage.documents,
            shards = coverage.shards,
            model = %snapshot.manifest().model.name,
            fingerprint = %snapshot.manifest().model.fingerprint,
            "serving"
        );
    }
    if let Some(reranker) = engine.reranker() {
        let v1::ModelInfo { name, fingerprint, .. } = reranker.model();
        tracing::info!(model = %name, %fingerprint, "reranking");
        engine
            .indexes()
            .take(LOGGED)
            .for_each(|index| warn_of_reranker(engine, index));
    }
    let of_index = |index: &Arc<ServedIndex>| index.generation().coverage().documents;
    let documents: u64 = engine.indexes().map(of_index).sum();
    let kernels = dyad_index::kernels::kernels().name;
    tracing::info!(
        indexes = engine.indexes().len(),
        documents,
        kernels,
        "all indexes are open"
    );
    let (limit, need) = engine.memory();
    let told = limit.map_or_else(|| "none".to_owned(), ToString::to_string);
    tracing::info!(limit = told, needed = %need, "memory");
    if let Some(limit) = limit
        && need.total().saturating_add(limit.others) > limit.bytes
    {
        let others = mib(limit.others);
        tracing::warn!(
            "others hold {others} of the memory now: pages of graphs and codes will be read from disk again and again"
        );
    }
}

/// Warns where it is not known that the cross encoder helps, or known that it does not.
fn warn_of_reranker(engine: &Engine, index: &ServedIndex) {
    let snapshot = index.snapshot();
    match engine.reranking(&snapshot) {
        None => tracing::warn!(
            name = index.name(),
            "what the cross encoder brings this index was never measured: `dyad-searcher learn --index {} --reranker ... --data \
             BEIR_DIR` does, by judged questions",
            snapshot.index().display()
        ),
        Some(measured) if measured.gain() <= 0.0 => {
            tracing::warn!(name = index.name(), "{}", no_gain(&measured));
        }
        Some(_) => {}
    }
}
