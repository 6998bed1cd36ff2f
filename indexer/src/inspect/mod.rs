//! A report on an index: generation, model, shards, sections, build parameters, certificates, memory.
//!
//! Reads the manifest, and of each shard what opening reads; bulk data is not touched, so it is quick at any size.

mod display;

use std::path::Path;

use dyad_index::TextLanguage;
use dyad_index::calibration::Calibration;
use dyad_index::lexical::TextShard;
use dyad_index::manifest::{self, Change, Manifest, MinRecall, ReaderLock, SHARDS_DIR, ShardEntry};
use dyad_index::shard::{DENSE_FILE, DenseShard, TEXT_DIR};
use dyad_index::{BuildRecord, Certificate, Deletions, FusionRecord, ModelRecord, RerankRecord};
use serde::Serialize;

use crate::change::select_mergeable;
use crate::error::Error;
use crate::gc::unnamed_bytes;

/// One generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndexReport {
    /// Of the current manifest.
    pub generation: u64,
    /// Seconds since the epoch at which it was published.
    pub created_unix_s: u64,
    /// Program and version that published it.
    pub tool: String,
    /// Of all vectors.
    pub model: ModelRecord,
    /// How dense and BM25 rankings are fused, where `dyad-searcher learn` has found that for this model.
    pub fusion: Option<FusionRecord>,
    /// What a cross encoder has brought, where `dyad-searcher learn --reranker` has measured that for this model.
    pub reranking: Option<RerankRecord>,
    /// What a cosine of 1 counts in a softmax over the model's cosines, where that is known.
    pub logit_scale: Option<f64>,
    /// What of its document has reached a passage's vector, where that is more or less than its title.
    pub context: Option<String>,
    /// By which BM25 analyses texts.
    pub language: TextLanguage,
    /// What made the generation out of the one before; absent where an earlier release published.
    pub change: Option<Change>,
    /// The recall that every change must keep.
    pub min_recall: Option<MinRecall>,
    /// Documents that are not deleted.
    pub documents: u64,
    /// What `merge` and `gc` would improve.
    pub debt: Debt,
    /// Bytes of vectors and graphs; a searcher maps them, and is fastest where they stay in memory.
    pub dense_bytes: u64,
    /// Of these, bytes of codes, graphs and keys, which every question touches.
    pub hot_bytes: u64,
    /// Bytes of the text indexes.
    pub text_bytes: u64,
    /// Generations on disk, ascending.
    pub generations: Vec<u64>,
    /// In the manifest's order.
    pub shards: Vec<ShardReport>,
}

/// What an index carries with it that it need not.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Debt {
    /// Deleted documents that are still in the shards.
    pub deleted: u64,
    /// Their share of the documents in the shards.
    pub deleted_share: f64,
    /// Shards that `merge` would write again: with many deleted documents, or many of about one size.
    pub shards_to_merge: usize,
    /// Bytes of the deleted documents, about: `merge --all`, then `gc --keep 1` frees them.
    pub deleted_bytes: u64,
    /// Bytes that only other generations name: `gc --keep 1` frees them.
    pub other_generations_bytes: u64,
    /// Bytes that no generation names: any `gc` frees them. Unknown where the manifest of a generation cannot be read.
    pub unnamed_bytes: Option<u64>,
}

/// One shard.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShardReport {
    /// Its directory's name.
    pub id: String,
    /// Documents, including deleted ones.
    pub documents: u64,
    /// Deleted ones.
    pub deleted: u64,
    /// How its graph was made.
    pub build: BuildRecord,
    /// Type of the stored vectors: `f32` or `f16`.
    pub vectors: &'static str,
    /// Of `dense.dyad`, in file order.
    pub sections: Vec<SectionReport>,
    /// Nodes and links, lowest layer first.
    pub layers: Vec<LayerReport>,
    /// Bytes of its text index.
    pub text_bytes: u64,
    /// What made the terms of its text index: the analyzer of its language, or of an earlier release. Absent where the
    /// text index cannot be read.
    pub analyzer: Option<&'static str>,
    /// The certificate.
    pub certificate: Certificate,
}

/// One section of `dense.dyad`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SectionReport {
    /// As in the byte specification.
    pub name: &'static str,
    /// From the start of the file.
    pub offset: u64,
    /// Length.
    pub bytes: u64,
}

/// One layer of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LayerReport {
    /// Nodes.
    pub nodes: usize,
    /// Links of all nodes.
    pub links: usize,
}

/// Reports on the current generation of an index.
pub fn inspect(index: &Path) -> Result<IndexReport, Error> {
    let manifest = manifest::current(index)?;
    let _lock = ReaderLock::acquire(index, manifest.generation)?;
    let debt = debt(index, &manifest)?;
    let documents = manifest.documents();
    let Manifest {
        generation,
        created_unix_s,
        tool,
        model,
        logit_scale,
        context,
        min_recall,
        language,
        ..
    } = manifest;
    let Manifest { change, shards, .. } = manifest;
    let shards: Vec<ShardReport> = shards
        .iter()
        .map(|entry| inspect_shard(index, entry))
        .collect::<Result<_, Error>>()?;
    let sections = |of: &dyn Fn(&SectionReport) -> bool| -> u64 {
        shards
            .iter()
            .flat_map(|shard| &shard.sections)
            .filter(|section| of(section))
            .map(|section| section.bytes)
            .sum()
    };
    let space = model.space();
    let fusion = FusionRecord::load(index, &space)?;
    let reranking = RerankRecord::load(index, &space)?;
    Ok(IndexReport {
        generation,
        created_unix_s,
        tool,
        model,
        fusion,
        reranking,
        logit_scale,
        context,
        language,
        change,
        min_recall,
        documents,
        debt,
        dense_bytes: sections(&|_| true),
        hot_bytes: sections(&|section| matches!(section.name, "CODES" | "GRAPH" | "KEYS")),
        text_bytes: shards.iter().map(|shard| shard.text_bytes).sum(),
        generations: manifest::generations(index)?,
        shards,
    })
}

fn debt(index: &Path, current: &Manifest) -> Result<Debt, Error> {
    let generations = manifest::generations(index)?;
    let all: Vec<Manifest> = generations
        .iter()
        .filter_map(|number| manifest::load(index, *number).ok())
        .collect();
    // A manifest that cannot be read may name any file.
    let whole = all.len() == generations.len();
    let unnamed_bytes = whole.then(|| unnamed_bytes(index, &all)).transpose()?;
    let (mut documents, mut deleted, mut deleted_bytes) = (0, 0, 0);
    for entry in &current.shards {
        let bytes: u64 = entry.files.iter().map(|file| file.bytes).sum();
        let own = entry.documents - entry.live();
        documents += entry.documents;
        deleted += own;
        deleted_bytes += (bytes as f64 * own as f64 / entry.documents.max(1) as f64) as u64;
    }
    Ok(Debt {
        deleted,
        deleted_share: deleted as f64 / documents.max(1) as f64,
        shards_to_merge: select_mergeable(&current.shards, u64::MAX, false)
            .iter()
            .map(Vec::len)
            .sum(),
        deleted_bytes,
        other_generations_bytes: self::unnamed_bytes(index, std::slice::from_ref(current))?
            .saturating_sub(unnamed_bytes.unwrap_or_default()),
        unnamed_bytes,
    })
}

fn inspect_shard(index: &Path, entry: &ShardEntry) -> Result<ShardReport, Error> {
    let dir = index.join(SHARDS_DIR).join(&entry.id);
    let shard = DenseShard::open(&dir.join(DENSE_FILE))?;
    let sections = shard.header().sections.iter().map(|section| SectionReport {
        name: section.kind.name(),
        offset: section.offset,
        bytes: section.len,
    });
    let deletions = entry
        .deleted
        .as_ref()
        .map(|deleted| Deletions::open(index, deleted, entry.documents))
        .transpose()?;
    let calibration = entry
        .calibration
        .as_ref()
        .map(|entry| Calibration::open(index, entry))
        .transpose()?;
    let text = entry.files.iter().filter(|file| file.path.starts_with(TEXT_DIR));
    Ok(ShardReport {
        id: entry.id.clone(),
        documents: entry.documents,
        deleted: entry.documents - entry.live(),
        build: shard.meta().build.clone(),
        vectors: shard.header().row_type.name(),
        sections: sections.collect(),
        layers: shard
            .graph()
            .counts()
            .into_iter()
            .map(|(nodes, links)| LayerReport { nodes, links })
            .collect(),
        text_bytes: text.map(|file| file.bytes).sum(),
        analyzer: TextShard::open(&dir.join(TEXT_DIR)).ok().map(|text| text.analyzer()),
        certificate: deletions
            .map(|deletions| deletions.certificate)
            .or(calibration.map(|calibration| calibration.certificate))
            .unwrap_or_else(|| shard.certificate().clone()),
    })
}
