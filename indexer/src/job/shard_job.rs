//! The shards that one job writes: documents and vectors in, complete shard directories out.
//!
//! Every write of an index is made of it: a build, a batch that is added, shards that are merged or embedded again, and
//! a task of a bulk job.

use std::path::Path;
use std::sync::Arc;

use dyad_index::TextLanguage;

use super::kept::KeptShards;
use super::pass::{IndexPass, PassResult};
use super::shard::ShardBuilder;
use super::spool::Spooled;
use super::workspace::Workspace;
use crate::draft::CompleteShard;
use crate::error::Error;
use crate::graph_build::InitialGraph;
use crate::source::{DocumentBatch, VectorSource};

/// The shards of one job, from documents and vectors to complete directories.
pub(crate) struct ShardJob<'a> {
    /// How its shards are built.
    pub(crate) builder: ShardBuilder<'a>,
    workspace: Workspace,
    threads: &'a rayon::ThreadPool,
    kept: Option<KeptShards>,
    /// Shards that were spooled so far, which number their files.
    spooled: usize,
}

impl<'a> ShardJob<'a> {
    /// Creates the job's own directory in `dir`, an index or a directory for temporary files. Graphs and certificates
    /// take `threads`.
    pub(crate) fn begin(dir: &Path, builder: ShardBuilder<'a>, threads: &'a rayon::ThreadPool) -> Result<Self, Error> {
        Ok(Self {
            builder,
            workspace: Workspace::create(dir)?,
            threads,
            kept: None,
            spooled: 0,
        })
    }

    /// Keeps built shards in the index until they are published, and goes on with those that a killed job has left.
    /// Returns the bytes that these take.
    pub(crate) fn keep_shards(&mut self, index: &Path) -> Result<u64, Error> {
        let kept = KeptShards::begin(index)?;
        let bytes = kept.bytes()?;
        self.kept = Some(kept);
        Ok(bytes)
    }

    /// The job's directory.
    pub(crate) fn workspace(&self) -> &Path {
        self.workspace.path()
    }

    /// Reads all documents with their vectors into at most `shards` spools. Without a `language`, that of the first
    /// documents is taken. Each shard's terms take at most `terms` bytes of memory.
    pub(crate) fn spool(
        &mut self,
        pass: SpoolConfig,
        documents: &mut dyn DocumentBatch,
        source: &mut dyn VectorSource,
    ) -> Result<PassResult, Error> {
        let first = self.spooled;
        self.spooled += pass.shards;
        let pass = IndexPass {
            workspace: self.workspace.path(),
            model: self.builder.model,
            row_type: self.builder.graph.row_type,
            language: pass.language,
            first,
            shards: pass.shards,
            terms: pass.terms,
            control: self.builder.control,
        };
        pass.run(documents, source)
    }

    /// Builds the shards one by one. What killed jobs have left of other shards is removed first.
    pub(crate) fn build_all(&mut self, spooled: Vec<Spooled>) -> Result<Vec<Arc<CompleteShard>>, Error> {
        if let Some(kept) = &mut self.kept {
            kept.remove_others(&spooled, &self.builder)?;
        }
        let count = spooled.len();
        let mut built = Vec::with_capacity(count);
        for (number, shard) in spooled.into_iter().enumerate() {
            built.push(self.build(shard, &shard_label(number, count))?);
        }
        Ok(built)
    }

    /// Builds one shard, or takes it as a killed job has left it; `label` names it in progress and errors.
    pub(crate) fn build(&mut self, spooled: Spooled, label: &str) -> Result<Arc<CompleteShard>, Error> {
        let Self {
            builder, threads, kept, ..
        } = self;
        let built = threads.install(|| match kept {
            Some(kept) => kept.build(spooled, builder, label),
            None => builder.build(spooled, None, label),
        })?;
        Ok(Arc::new(built))
    }

    /// Builds one shard by a builder of its own, from the graph of another one where that is given.
    pub(crate) fn build_from(
        &self,
        builder: &ShardBuilder<'_>,
        spooled: Spooled,
        initial: Option<&InitialGraph<'_>>,
        label: &str,
    ) -> Result<Arc<CompleteShard>, Error> {
        let built = self.threads.install(|| builder.build(spooled, initial, label))?;
        Ok(Arc::new(built))
    }

    /// The shards are in their places: what was kept of them is removed.
    pub(crate) fn published(self) {
        if let Some(kept) = self.kept {
            kept.published();
        }
    }
}

/// How documents are spooled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpoolConfig {
    /// Shards that documents go to by a hash of their key.
    pub(crate) shards: usize,
    /// The language of the texts; absent where that of the first documents is.
    pub(crate) language: Option<TextLanguage>,
    /// Most bytes of memory for the terms of each shard.
    pub(crate) terms: Option<u64>,
}

/// A pool of threads for graphs and certificates.
pub(crate) fn thread_pool(threads: usize) -> Result<rayon::ThreadPool, Error> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|source| Error::Threads { threads, source })
}

/// Names a shard, by number, in progress and errors; an only one has no name.
pub(crate) fn shard_label(number: usize, count: usize) -> String {
    if count == 1 {
        String::new()
    } else {
        format!("{}/{count}", number + 1)
    }
}
