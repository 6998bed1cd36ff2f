//! The documents that exist for the caller of a batch, their statistics and their coverage.

use dyad_index::lexical::CorpusStatistics;
use dyad_index::snapshot::Coverage;
use dyad_proto::v1;

use super::batch::QuestionBatch;
use crate::error::Result;
use crate::run::served::filter_cache::AllowedNodes;

impl QuestionBatch {
    /// The caller's documents, where they are not all.
    pub(in crate::run) fn allowed_to_caller(&self) -> Result<Option<&AllowedNodes>> {
        match &self.scope {
            Some(scope) => scope
                .allowed(&self.snapshot, self.filters.as_deref(), &self.cancel)
                .map(Some),
            None => Ok(None),
        }
    }

    /// BM25's statistics.
    pub(in crate::run) fn statistics(&self) -> Result<&CorpusStatistics> {
        match self.allowed_to_caller()? {
            Some(allowed) => allowed.statistics(&self.snapshot),
            None => Ok(self.snapshot.statistics()),
        }
    }

    /// What was searched, of the caller's documents.
    pub(in crate::run) fn coverage(&self) -> Result<v1::Coverage> {
        let Coverage {
            documents,
            shards,
            damaged_shards,
            intact_documents,
        } = self.snapshot.coverage();
        let mut coverage = v1::Coverage {
            documents,
            shards,
            damaged_shards,
            intact_documents,
            missing_shards: Vec::new(),
        };
        if let Some(allowed) = self.allowed_to_caller()? {
            let counts = self.snapshot.shards().iter().zip(&*allowed.shards);
            let intact = counts.filter(|(shard, _)| shard.dense.damage().is_none());
            coverage.documents = allowed.len();
            coverage.intact_documents = intact.map(|(_, nodes)| nodes.len() as u64).sum();
        }
        Ok(coverage)
    }
}
