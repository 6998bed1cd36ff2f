//! A report on an index: generation, model, shards, sections, build parameters, certificates, memory.
//!
//! Reads the manifest, and of each shard what opening reads; bulk data is not touched, so it is quick at any size.

use std::fmt;
use std::path::Path;

use dyad_index::TextLanguage;
use dyad_index::calibration::Calibration;
use dyad_index::lexical::TextShard;
use dyad_index::manifest::{self, Change, Manifest, MinRecall, ReaderLock, SHARDS_DIR, ShardEntry};
use dyad_index::shard::{DENSE_FILE, DenseShard, TEXT_DIR};
use dyad_index::{
    BuildRecord, Certificate, Deletions, FusionRecord, LearnedFrom, ModelRecord, QuerySource, RerankMeasured,
    RerankRecord,
};
use serde::Serialize;

use crate::certificate_tables::CertificateTables;
use crate::change::select_mergeable;
use crate::error::Error;
use crate::gc::unnamed_bytes;
use crate::plan::{ByteSize, Shards};

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
    let fusion = FusionRecord::load(index, &model.fingerprint)?;
    let reranking = RerankRecord::load(index, &model.fingerprint)?;
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

/// Whether an analyzer is one that this release writes terms by.
fn is_current(analyzer: &str) -> bool {
    TextLanguage::ALL.iter().any(|language| language.analyzer() == analyzer)
}

/// Ascending numbers for people: `1 to 487`, or `1, 2, 5 to 9`.
fn ranges(numbers: &[u64]) -> String {
    let follow = |one: &u64, next: &u64| one + 1 == *next;
    let parts = numbers.chunk_by(follow).map(|run| match run {
        [first, .., last] if run.len() > 2 => format!("{first} to {last}"),
        run => run.iter().map(u64::to_string).collect::<Vec<_>>().join(", "),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// Seconds since 1970 as RFC 3339, UTC; the bare number where no calendar reaches.
fn moment(seconds: u64) -> String {
    let moment = i64::try_from(seconds)
        .ok()
        .and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    moment.map_or_else(|| format!("{seconds} s after 1970"), |moment| moment.to_string())
}

impl fmt::Display for IndexReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "generation    {} (on disk: {})",
            self.generation,
            ranges(&self.generations)
        )?;
        writeln!(f, "created       {}, by {}", moment(self.created_unix_s), self.tool)?;
        let ModelRecord {
            name,
            dim,
            metric,
            max_tokens,
            ..
        } = &self.model;
        writeln!(f, "model         {name}, {dim} values, {metric}, {max_tokens} tokens")?;
        writeln!(f, "fingerprint   {}", self.model.fingerprint)?;
        if let Some(scale) = self.logit_scale {
            writeln!(f, "logit scale   {scale:.1}, of the model's cosines")?;
        }
        if let Some(context) = &self.context {
            writeln!(f, "context       {context}, of its document in a passage's vector")?;
        }
        writeln!(
            f,
            "language      {} (`{}`), for BM25",
            self.language.name(),
            self.language
        )?;
        if let Some(FusionRecord {
            method,
            dense_weight,
            document_weight,
            learned_from,
            ..
        }) = &self.fusion
        {
            let method = method.label();
            let of_documents = document_weight.map_or_else(String::new, |weight| format!(", document weight {weight}"));
            let LearnedFrom {
                data,
                split,
                questions,
                dense,
                bm25,
                default,
                learned,
            } = learned_from;
            writeln!(
                f,
                "fusion        {method}, dense weight {dense_weight}{of_documents}; learned from {questions} questions of {data} ({split}): \
                 nDCG@10 {learned:.4}, by default {default:.4}, dense {dense:.4}, BM25 {bm25:.4}"
            )?;
        }
        if let Some(RerankRecord {
            reranker,
            depth,
            weight,
            measured_on,
            ..
        }) = &self.reranking
        {
            let RerankMeasured {
                data,
                split,
                questions,
                before,
                after,
                p,
            } = measured_on;
            writeln!(
                f,
                "reranking     by {reranker}, {depth} hits, weight {weight}: nDCG@10 {before:.4} to {after:.4} (p = {p:.3}) on {questions} questions of \
                 {data} ({split})"
            )?;
        }
        if let Some(change) = &self.change {
            writeln!(f, "made by       {}: {}", change.operation, change.counts())?;
        }
        if let Some(MinRecall { recall, ef }) = self.min_recall {
            writeln!(f, "keeps         recall@10 of {recall} at ef {ef} in every shard")?;
        }
        writeln!(f, "documents     {} in {}", self.documents, Shards(self.shards.len()))?;
        self.debt.fmt(f)?;
        writeln!(
            f,
            "memory        {} of vectors and graphs are mapped, of which {} are read by every question; {} of text",
            ByteSize(self.dense_bytes),
            ByteSize(self.hot_bytes),
            ByteSize(self.text_bytes)
        )?;
        self.shards.iter().try_for_each(|shard| shard.fmt(f))
    }
}

impl fmt::Display for Debt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            deleted,
            deleted_share,
            shards_to_merge,
            deleted_bytes,
            other_generations_bytes,
            unnamed_bytes,
        } = self;
        writeln!(
            f,
            "debt          {deleted} deleted documents ({:.1} %, {}); {} to `merge`; `gc` can free {} of other generations and \
             {}",
            deleted_share * 100.0,
            ByteSize(*deleted_bytes),
            Shards(*shards_to_merge),
            ByteSize(*other_generations_bytes),
            match unnamed_bytes {
                Some(bytes) => format!("{} of none", ByteSize(*bytes)),
                None => "no others, as a manifest cannot be read: see `verify`".to_owned(),
            }
        )
    }
}

impl fmt::Display for ShardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { build, certificate, .. } = self;
        writeln!(f, "\nshard {}", self.id)?;
        writeln!(
            f,
            "  documents   {}, of which {} are deleted",
            self.documents, self.deleted
        )?;
        writeln!(
            f,
            "  build       {} m={} ef_construction={} seed={} threads={}, {}",
            build.builder, build.m, build.ef_construction, build.seed, build.threads, build.tool
        )?;
        writeln!(f, "  vectors     {}", self.vectors)?;
        for (number, layer) in self.layers.iter().enumerate() {
            let mean = layer.links as f64 / layer.nodes.max(1) as f64;
            writeln!(
                f,
                "  layer {number}     {} nodes, {} links, {mean:.1} per node",
                layer.nodes, layer.links
            )?;
        }
        for section in &self.sections {
            writeln!(
                f,
                "  {:<11} {} at {}",
                section.name,
                ByteSize(section.bytes),
                section.offset
            )?;
        }
        let terms = match self.analyzer {
            None => "which cannot be read: see `verify`".to_owned(),
            Some(analyzer) if is_current(analyzer) => format!("terms by {analyzer}"),
            Some(earlier) => {
                let current = TextLanguage::English.analyzer();
                format!("terms by {earlier}; `merge --all --rebuild` makes them by {current}")
            }
        };
        writeln!(f, "  text        {}, {terms}", ByteSize(self.text_bytes))?;
        writeln!(
            f,
            "  reachable   {} of {}; {} were not before the repair, which added {} links",
            self.documents - certificate.unreachable.min(self.documents),
            self.documents,
            certificate.unreachable_before_repair,
            certificate.links_added
        )?;
        match certificate.source {
            QuerySource::Documents => writeln!(
                f,
                "  certificate {} of its documents searched for, each left out of its own hits",
                certificate.queries
            )?,
            QuerySource::HeldOut => writeln!(f, "  certificate {} held-out questions", certificate.queries)?,
        }
        let live = self.documents - self.deleted;
        let since = certificate.vectors.saturating_sub(live);
        if since > 0 {
            writeln!(
                f,
                "  measured    among {} documents, {} of the shard's being deleted then; {since} were deleted since, which may have \
                 lowered recall by up to {:.4}",
                certificate.vectors,
                self.documents.saturating_sub(certificate.vectors),
                certificate.lost_since
            )?;
        }
        CertificateTables(certificate).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_that_follow_each_other_are_told_as_ranges() {
        let told = [&[][..], &[4], &[1, 2], &[1, 2, 3], &[1, 3, 4, 5, 6, 9, 10]].map(ranges);
        assert_eq!(told, ["", "4", "1, 2", "1 to 3", "1, 3 to 6, 9, 10"]);
    }

    #[test]
    fn moments_are_dates() {
        // for s in 0 951782400 951868799 1709251199 4102444800; do date -u -d @$s +%FT%TZ; done
        let written: Vec<String> = [0, 951_782_400, 951_868_799, 1_709_251_199, 4_102_444_800]
            .map(moment)
            .into();
        let expected = [
            "1970-01-01T00:00:00Z",
            "2000-02-29T00:00:00Z",
            "2000-02-29T23:59:59Z",
            "2024-02-29T23:59:59Z",
            "2100-01-01T00:00:00Z",
        ];
        assert_eq!(written, expected);
    }
}
