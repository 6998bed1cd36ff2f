//! An open generation: the vectors and texts of all its shards, searched together.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::cancel::Cancel;
use crate::error::{Error, Result};
use crate::fusion::FusionRecord;
use crate::lexical::{CorpusStatistics, Filter, Question, StoredDocument, TextShard};
use crate::manifest::{self, Manifest, SHARDS_DIR};
use crate::model::ModelRecord;
use crate::search::{Completeness, Hits, NodeSet, Scored, SearchParams};
use crate::shard::{DENSE_FILE, DenseShard, TEXT_DIR};

/// One generation. Immutable: readers share it and drop it when they are done.
#[derive(Debug)]
pub struct Snapshot {
    index: PathBuf,
    manifest: Manifest,
    shards: Vec<Shard>,
    statistics: CorpusStatistics,
    fusion: Option<FusionRecord>,
}

/// One shard. Node `i` of the vectors is document `i` of the text.
#[derive(Debug)]
pub struct Shard {
    /// Vectors, graph, keys.
    pub dense: DenseShard,
    /// Stored fields and terms.
    pub text: TextShard,
}

/// A document and its score. Its key is [`Snapshot::key`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Inner product or BM25.
    pub score: f32,
    /// Shard of the snapshot.
    pub shard: usize,
    /// Node of the shard.
    pub node: u32,
}

/// The mode of a dense search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchMode {
    /// By the graph.
    Approximate {
        /// Beam width in every shard.
        ef: usize,
    },
    /// By comparing with every vector.
    Exact,
}

/// Parameters of a dense search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DenseParams {
    /// Hits wanted.
    pub k: usize,
    /// By the graph or exact.
    pub mode: SearchMode,
}

impl Shard {
    /// Searches one shard; one result per question.
    fn search_dense(
        &self,
        queries: &[&[f32]],
        params: &DenseParams,
        allowed: Option<&NodeSet>,
        cancel: &dyn Cancel,
    ) -> Vec<Hits<Scored>> {
        let mut all = vec![Hits::default(); queries.len()];
        let found = |number: usize, hits| {
            if let Some(place) = all.get_mut(number) {
                *place = hits;
            }
        };
        match params.mode {
            SearchMode::Exact => self.dense.search_exact_batch(queries, params.k, allowed, cancel, found),
            SearchMode::Approximate { ef } => {
                let params = SearchParams { allowed, cancel, ..SearchParams::new(params.k, ef) };
                self.dense.search_batch(queries, &params, found);
            }
        }
        all
    }
}

impl Snapshot {
    /// Opens the generation that `CURRENT` names.
    pub fn open(index: &Path) -> Result<Self> {
        Self::open_manifest(index, manifest::current(index)?)
    }

    /// Opens a generation: maps every shard and checks that its parts belong together. Time depends on the number
    /// of shards only.
    pub fn open_manifest(index: &Path, manifest: Manifest) -> Result<Self> {
        let mut shards = Vec::with_capacity(manifest.shards.len());
        for entry in &manifest.shards {
            let dir = index.join(SHARDS_DIR).join(&entry.id);
            for file in &entry.files {
                let path = dir.join(&file.path);
                let got = fs_err::metadata(&path)?.len();
                if got != file.bytes {
                    return Err(unlike(path, "length", format!("{} bytes", file.bytes), format!("{got} bytes")));
                }
            }
            let shard =
                Shard { dense: DenseShard::open(&dir.join(DENSE_FILE))?, text: TextShard::open(&dir.join(TEXT_DIR))? };
            let model = &shard.dense.meta().model;
            if !model.same_space(&manifest.model) {
                let say = |model: &ModelRecord| {
                    format!("`{}` {} of {} values, {:?}", model.name, model.fingerprint, model.dim, model.metric)
                };
                return Err(unlike(shard.dense.path().to_owned(), "META, model", say(&manifest.model), say(model)));
            }
            let counts = (shard.dense.len() as u64, shard.text.len() as u64);
            if counts != (entry.documents, entry.documents) {
                let got = format!("{} vectors and {} texts", counts.0, counts.1);
                return Err(unlike(dir, "documents", entry.documents.to_string(), got));
            }
            shards.push(shard);
        }
        let statistics = CorpusStatistics::new(shards.iter().map(|shard| &shard.text));
        let fusion = FusionRecord::load(index, &manifest.model.fingerprint)?;
        Ok(Self { index: index.to_owned(), manifest, shards, statistics, fusion })
    }

    /// The index's directory.
    pub fn index(&self) -> &Path {
        &self.index
    }

    /// The manifest of the generation.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its shards, in the manifest's order.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// BM25 statistics over all shards.
    pub fn statistics(&self) -> &CorpusStatistics {
        &self.statistics
    }

    /// How its two rankings are fused, where that was learned.
    pub fn fusion(&self) -> Option<&FusionRecord> {
        self.fusion.as_ref()
    }

    /// Documents.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.dense.len()).sum()
    }

    /// No documents at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes that a filter allows, one set per shard in their order; none where the work was cancelled.
    pub fn allowed(&self, filter: &Filter, cancel: &dyn Cancel) -> Result<Option<Vec<NodeSet>>> {
        self.shards.par_iter().map(|shard| filter.nodes(&shard.text, cancel)).collect()
    }

    /// Notes on fields and types of a filter that no document has: see [`Filter::notes`].
    pub fn filter_notes(&self, filter: &Filter) -> Result<Vec<String>> {
        filter.notes(&self.shards.iter().map(|shard| &shard.text).collect::<Vec<_>>())
    }

    /// Checks that there is one set per shard.
    fn check_allowed(&self, allowed: Option<&[NodeSet]>) -> Result<()> {
        if let Some(allowed) = allowed.filter(|allowed| allowed.len() != self.shards.len()) {
            let (expected, got) = (self.shards.len().to_string(), allowed.len().to_string());
            return Err(Error::Mismatch { what: "filter's sets, one per shard", expected, got });
        }
        Ok(())
    }

    /// The nearest of all shards for each question: shards in parallel, and in each of them the questions interleaved.
    /// `queries` hold finite values of the model's dimension. With `allowed`, one set of nodes per shard in their order, only
    /// those can be hits.
    pub fn search_dense(
        &self,
        queries: &[&[f32]],
        params: &DenseParams,
        allowed: Option<&[NodeSet]>,
        cancel: &dyn Cancel,
    ) -> Result<Vec<Hits<Hit>>> {
        let dim = self.manifest.model.dim;
        if let Some(query) = queries.iter().find(|query| query.len() != dim) {
            let (expected, got) = (dim.to_string(), query.len().to_string());
            return Err(Error::Mismatch { what: "dimension of the question's vector", expected, got });
        }
        self.check_allowed(allowed)?;
        let one = |(at, shard): (usize, &Shard)| {
            shard.search_dense(queries, params, allowed.and_then(|all| all.get(at)), cancel).into_iter()
        };
        let mut by_shard: Vec<_> = self.shards.par_iter().enumerate().map(one).collect();
        let merged = queries.iter().map(|_| self.merge(by_shard.iter_mut().map(Iterator::next), params.k));
        Ok(merged.collect())
    }

    /// The `k` best of all shards by BM25 with statistics of the whole corpus, whatever part of it is allowed. `allowed` as
    /// in [`Self::search_dense`].
    pub fn search_text(
        &self,
        question: &Question,
        k: usize,
        allowed: Option<&[NodeSet]>,
        cancel: &dyn Cancel,
    ) -> Result<Hits<Hit>> {
        self.check_allowed(allowed)?;
        let Some(weighed) = question.weigh(&self.statistics, cancel)? else { return Ok(Hits::cancelled()) };
        let one = |(at, shard): (usize, &Shard)| {
            let (keys, allowed) = (shard.dense.keys(), allowed.and_then(|all| all.get(at)));
            weighed.best(&shard.text, k, &|node| keys.key(node), allowed, cancel)
        };
        let found: Vec<_> = self.shards.par_iter().enumerate().map(one).collect::<Result<_>>()?;
        Ok(self.merge(found.into_iter().map(Some), k))
    }

    /// The hits of all shards, in their order, as one ranking: score descending, then key ascending.
    fn merge(&self, shards: impl Iterator<Item = Option<Hits<Scored>>>, k: usize) -> Hits<Hit> {
        let mut all = Hits::default();
        for (shard, found) in shards.enumerate() {
            all.append(found.unwrap_or_default(), |Scored { node, score }| Hit { score, shard, node });
        }
        if self.shards.iter().any(|shard| shard.dense.is_damaged()) {
            all.worsen(Completeness::Damaged);
        }
        all.keep_top_k(k, |hit| hit.score, |hit| self.key(hit.shard, hit.node).unwrap_or_default());
        all
    }

    /// The key of a document; none where the keys are damaged, which is recorded as [`Self::damage`].
    pub fn key(&self, shard: usize, node: u32) -> Option<&str> {
        self.shards.get(shard)?.dense.key(node)
    }

    /// Shard and node of a document. An error where it is not found, and the keys of a shard are damaged.
    pub fn find(&self, key: &str) -> Result<Option<(usize, u32)>> {
        let mut unknown = None;
        for (at, shard) in self.shards.iter().enumerate() {
            match shard.dense.find(key) {
                Ok(Some(node)) => return Ok(Some((at, node))),
                Ok(None) => {}
                Err(error) => unknown = Some(error),
            }
        }
        unknown.map_or(Ok(None), Err)
    }

    /// The first damage found so far: see [`DenseShard::damage`].
    pub fn damage(&self) -> Option<Error> {
        self.shards.iter().find_map(|shard| shard.dense.damage())
    }

    /// Stored fields of a document.
    pub fn document(&self, shard: usize, node: u32) -> Result<StoredDocument> {
        let found = self.shards.get(shard).map(|shard| shard.text.document(node));
        let (expected, got) = (format!("below {}", self.shards.len()), shard.to_string());
        found.unwrap_or(Err(Error::Mismatch { what: "shard of a document", expected, got }))
    }
}

fn unlike(path: PathBuf, part: &str, expected: String, got: String) -> Error {
    let hint = "The files do not belong together: write intact copies under other names and `mv` them there, or build the \
                index again";
    Error::Format { path, part: part.to_owned(), expected, got, hint }
}
