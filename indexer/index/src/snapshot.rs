//! One generation, opened: every shard's vectors and texts, searched together.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::lexical::{CorpusStatistics, Filter, Question, StoredDocument, TextShard};
use crate::manifest::{self, Manifest, SHARDS_DIR};
use crate::model::ModelRecord;
use crate::search::{BeamParams, NodeSet};
use crate::shard::{DENSE_FILE, DenseShard, Found, TEXT_DIR};

/// Score, key and node of one shard's hits.
type Scored = Vec<(f32, String, u32)>;

/// One generation. Immutable: readers share it and drop it when they are done.
#[derive(Debug)]
pub struct Snapshot {
    index: PathBuf,
    manifest: Manifest,
    shards: Vec<Shard>,
    statistics: CorpusStatistics,
}

/// One shard's two sides. Node `i` of the vectors is document `i` of the text.
#[derive(Debug)]
pub struct Shard {
    /// Vectors, graph, keys.
    pub dense: DenseShard,
    /// Stored fields and terms.
    pub text: TextShard,
}

/// A document and its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// Inner product or BM25.
    pub score: f32,
    /// Document key.
    pub key: String,
    /// Shard of the snapshot.
    pub shard: usize,
    /// Node of the shard.
    pub node: u32,
}

/// Hits over all shards, and what they cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hits {
    /// Score descending, then key ascending.
    pub hits: Vec<Hit>,
    /// Scores computed.
    pub distance_computations: u64,
    /// The search was told to stop before its end: there may be better hits.
    pub stopped: bool,
}

/// A dense search: by the graph with a beam width, or exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effort {
    /// Walk with this beam width in every shard.
    Walk {
        /// Beam width.
        ef: usize,
    },
    /// Compare with every vector.
    Exact,
}

impl Shard {
    /// One shard's part of a dense search, by question.
    fn found(
        &self,
        queries: &[&[f32]],
        k: usize,
        effort: Effort,
        passing: Option<&NodeSet>,
        stop: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Vec<Found<'_>> {
        match effort {
            Effort::Exact => queries.iter().map(|query| self.dense.scan(query, k, passing, stop)).collect(),
            Effort::Walk { ef } => {
                let mut found = vec![Found::default(); queries.len()];
                let params = BeamParams { passing, stop, ..BeamParams::new(k, ef) };
                self.dense.search_batch(queries, &params, |number, hits| {
                    if let Some(slot) = found.get_mut(number) {
                        *slot = hits;
                    }
                });
                found
            }
        }
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
        Ok(Self { index: index.to_owned(), manifest, shards, statistics })
    }

    /// The index's directory.
    pub fn index(&self) -> &Path {
        &self.index
    }

    /// What the generation consists of.
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

    /// Documents.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.dense.len()).sum()
    }

    /// No documents at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes that pass a filter, one set per shard in their order; nothing where `stop` ended the work.
    pub fn passing(&self, filter: &Filter, stop: &(dyn Fn() -> bool + Sync)) -> Result<Option<Vec<NodeSet>>> {
        self.shards.par_iter().map(|shard| filter.nodes(&shard.text, stop)).collect()
    }

    /// What a filter asks for that no document has, as [`Filter::notes`] says it.
    pub fn filter_notes(&self, filter: &Filter) -> Result<Vec<String>> {
        filter.notes(&self.shards.iter().map(|shard| &shard.text).collect::<Vec<_>>())
    }

    /// One set per shard, or none at all.
    fn check_passing(&self, passing: Option<&[NodeSet]>) -> Result<()> {
        if let Some(passing) = passing.filter(|passing| passing.len() != self.shards.len()) {
            let (expected, got) = (self.shards.len().to_string(), passing.len().to_string());
            return Err(Error::Mismatch { what: "filter's sets, one per shard", expected, got });
        }
        Ok(())
    }

    /// The `k` nearest of all shards. `query` holds finite values of the model's dimension. With `passing`, one set of
    /// nodes per shard in their order, only those can be hits.
    pub fn search_dense(
        &self,
        query: &[f32],
        k: usize,
        effort: Effort,
        passing: Option<&[NodeSet]>,
        stop: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<Hits> {
        let mut hits = self.search_dense_batch(&[query], k, effort, passing, stop)?;
        Ok(hits.pop().unwrap_or_default())
    }

    /// [`Self::search_dense`] for many questions: shards in parallel, and in each of them the questions take turns.
    pub fn search_dense_batch(
        &self,
        queries: &[&[f32]],
        k: usize,
        effort: Effort,
        passing: Option<&[NodeSet]>,
        stop: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<Vec<Hits>> {
        let dim = self.manifest.model.dim;
        if let Some(query) = queries.iter().find(|query| query.len() != dim) {
            let (expected, got) = (dim.to_string(), query.len().to_string());
            return Err(Error::Mismatch { what: "dimension of the question's vector", expected, got });
        }
        self.check_passing(passing)?;
        let mut by_shard: Vec<Vec<Found<'_>>> = {
            let shards = self.shards.par_iter().enumerate();
            shards
                .map(|(at, shard)| shard.found(queries, k, effort, passing.and_then(|all| all.get(at)), stop))
                .collect()
        };
        let merged = (0..queries.len()).map(|number| {
            let mut distance_computations = 0;
            let mut stopped = false;
            let found = by_shard.iter_mut().map(|shard| {
                let found = shard.get_mut(number).map(std::mem::take).unwrap_or_default();
                distance_computations += found.distance_computations;
                stopped |= found.stopped;
                found.hits.iter().map(|hit| (hit.score, hit.key.to_owned(), hit.node)).collect()
            });
            let hits = merge(found, k);
            Hits { hits, distance_computations, stopped }
        });
        Ok(merged.collect())
    }

    /// The `k` best of all shards by BM25 with statistics of the whole corpus, whatever part of it passes. `passing` as
    /// in [`Self::search_dense`].
    pub fn search_text(
        &self,
        question: &Question,
        k: usize,
        passing: Option<&[NodeSet]>,
        stop: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Result<Hits> {
        self.check_passing(passing)?;
        let Some(weighed) = question.weigh(&self.statistics, stop)? else {
            return Ok(Hits { stopped: true, ..Hits::default() });
        };
        let one = |(at, shard): (usize, &Shard)| -> Result<(Scored, bool)> {
            let keys = shard.dense.keys();
            let passing = passing.and_then(|all| all.get(at));
            let found = weighed.best(&shard.text, k, |node| keys.key(node), passing, stop)?;
            let hits = found.hits.iter().map(|hit| (hit.score, hit.key.to_owned(), hit.node)).collect();
            Ok((hits, found.stopped))
        };
        let found: Vec<_> = self.shards.par_iter().enumerate().map(one).collect::<Result<_>>()?;
        let stopped = found.iter().any(|(_, stopped)| *stopped);
        Ok(Hits { hits: merge(found.into_iter().map(|(hits, _)| hits), k), stopped, ..Hits::default() })
    }

    /// Shard and node of a document.
    pub fn find(&self, key: &str) -> Option<(usize, u32)> {
        self.shards.iter().enumerate().find_map(|(at, shard)| Some((at, shard.dense.keys().find(key)?)))
    }

    /// Stored fields of a document.
    pub fn document(&self, shard: usize, node: u32) -> Result<StoredDocument> {
        let found = self.shards.get(shard).map(|shard| shard.text.document(node));
        let (expected, got) = (format!("below {}", self.shards.len()), shard.to_string());
        found.unwrap_or(Err(Error::Mismatch { what: "shard of a document", expected, got }))
    }
}

fn unlike(path: PathBuf, part: &str, expected: String, got: String) -> Error {
    let hint = "The files do not belong together: write sound copies under other names and `mv` them there, or build the \
                index again";
    Error::Format { path, part: part.to_owned(), expected, got, hint }
}

/// Shards' hits as one ranking: score descending, then key ascending.
fn merge(shards: impl Iterator<Item = Vec<(f32, String, u32)>>, k: usize) -> Vec<Hit> {
    let of = |(shard, hits): (usize, Vec<(f32, String, u32)>)| {
        hits.into_iter().map(move |(score, key, node)| Hit { score, key, shard, node })
    };
    let mut hits: Vec<Hit> = shards.enumerate().flat_map(of).collect();
    hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(&b.key)));
    hits.truncate(k);
    hits
}
