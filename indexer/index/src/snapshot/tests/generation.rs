//! A generation of five shards, large and small, with deleted documents and changed metadata.

use std::path::{Path, PathBuf};

use dyad_files::{Never, crc32c_of_file};
use tempfile::TempDir;

use crate::certificate::{Certificate, RankScore};
use crate::deletions::{DeletedTerms, Deletions};
use crate::format::RowType;
use crate::graph::{Graph, GraphLayer};
use crate::language::TextLanguage;
use crate::layout::Arranged;
use crate::lexical::{NODES_FILE, TextDocument, TextShard, TextWriter, write_updates};
use crate::manifest::{
    self, DELETIONS_DIR, DeletedEntry, FileEntry, METADATA_DIR, Manifest, MetadataEntry, SHARDS_DIR, ShardEntry,
};
use crate::model::{BuildRecord, Metric, ModelRecord};
use crate::quant::{Codec, Codes};
use crate::search::{DenseRows, NodeSet, exact_scan};
use crate::shard::{DENSE_FILE, ShardInput, ShardMeta, TEXT_DIR, write};
use crate::snapshot::Snapshot;
use crate::storage::WriteLock;

const DIM: usize = 16;
/// Documents of each shard. Next to the second, the others but the fourth are small.
const DOCUMENTS: [usize; 5] = [60, 460, 90, 320, 40];
/// Shards with deleted documents.
const WITH_DELETIONS: [usize; 2] = [1, 2];
/// Shards with changed metadata.
const WITH_UPDATES: [usize; 2] = [0, 3];
/// The node of each shard whose vector all shards have: such hits are told apart by their keys.
const TIED: usize = 7;

/// Numbers that look random.
pub(super) struct Draws(pub(super) u64);

impl Draws {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % end as u64) as usize
    }

    /// From -1 to 1.
    fn value(&mut self) -> f32 {
        self.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0
    }

    /// A text of words, of which the first are the most frequent.
    pub(super) fn text(&mut self, words: usize) -> String {
        let word = |_| {
            let end = 1 + self.below(40);
            format!("word{}", self.below(end))
        };
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    }
}

/// The index, whose current generation it is.
pub(super) struct TestGeneration {
    folder: TempDir,
    /// Questions near the documents, the vector that all shards have, and questions far from all documents.
    pub(super) questions: Vec<Vec<f32>>,
}

impl TestGeneration {
    pub(super) fn new() -> Self {
        let (folder, mut draws) = (TempDir::new().unwrap(), Draws(5));
        let centres: Vec<Vec<f32>> = (0..12)
            .map(|_| unit((0..DIM).map(|_| draws.value()).collect()))
            .collect();
        let near = |draws: &mut Draws| {
            let centre = &centres[draws.below(centres.len())];
            unit(centre.iter().map(|value| value + 0.3 * draws.value()).collect())
        };
        let tied = near(&mut draws);
        let mut questions: Vec<Vec<f32>> = (0..16).map(|_| near(&mut draws)).collect();
        let mut shards = Vec::new();
        for (number, documents) in DOCUMENTS.into_iter().enumerate() {
            let mut rows: Vec<Vec<f32>> = (0..documents).map(|_| near(&mut draws)).collect();
            rows[TIED].clone_from(&tied);
            let shard = WrittenShard {
                index: folder.path(),
                number,
                values: &rows.concat(),
                questions: &questions,
            };
            shards.push(shard.write(&mut draws));
        }
        let sum = |at: usize| -centres.iter().map(|centre| centre[at]).sum::<f32>();
        questions.extend([tied, unit((0..DIM).map(sum).collect())]);
        questions.extend((0..3).map(|_| unit((0..DIM).map(|_| draws.value()).collect())));
        let manifest = Manifest {
            format_version: 2,
            generation: 1,
            parent: None,
            created_unix_s: 1,
            tool: "test".into(),
            model: meta().model,
            context: None,
            logit_scale: None,
            min_recall: None,
            language: TextLanguage::English,
            change: None,
            shards,
        };
        let lock = WriteLock::acquire(folder.path()).unwrap();
        manifest::publish(folder.path(), &manifest, &[], &lock).unwrap();
        Self { folder, questions }
    }

    pub(super) fn index(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn manifest(&self) -> Manifest {
        manifest::current(self.index()).unwrap()
    }

    pub(super) fn part(&self, numbers: &[usize], before: Option<&Snapshot>) -> Snapshot {
        Snapshot::open_part(self.index(), self.manifest(), numbers, before).unwrap()
    }
}

fn unit(mut values: Vec<f32>) -> Vec<f32> {
    let norm = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    for value in &mut values {
        *value /= norm;
    }
    values
}

fn meta() -> ShardMeta {
    let model = ModelRecord {
        name: "m".into(),
        fingerprint: "f00d".into(),
        dim: DIM,
        full_dim: None,
        metric: Metric::Cosine,
        max_tokens: 256,
    };
    let build = BuildRecord {
        builder: "test".into(),
        m: 4,
        ef_construction: 8,
        seed: 1,
        threads: 1,
        tool: "t".into(),
    };
    ShardMeta { model, build }
}

/// A shard, and what changed it.
struct WrittenShard<'a> {
    index: &'a Path,
    number: usize,
    values: &'a [f32],
    questions: &'a [Vec<f32>],
}

impl WrittenShard<'_> {
    fn id(&self) -> String {
        format!("shard-{}", self.number)
    }

    fn rows(&self) -> DenseRows<'_> {
        DenseRows::new(self.values, DIM)
    }

    fn documents(&self) -> usize {
        self.values.len() / DIM
    }

    fn write(&self, draws: &mut Draws) -> ShardEntry {
        let dir = self.index.join(SHARDS_DIR).join(self.id());
        fs_err::create_dir_all(&dir).unwrap();
        let offset = self.number * 1_000;
        let keys: Vec<String> = (0..self.documents())
            .map(|node| format!("k{:05}", (offset + node) * 7_919 % 100_003))
            .collect();
        let rows = self.rows();
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 7));
        let input = ShardInput {
            meta: &meta(),
            vectors: &rows,
            row_type: RowType::F32,
            arranged: &Arranged::new(&self.graph(), &codes).unwrap(),
            keys: &keys,
            certificate: &self.certificate(&NodeSet::all(self.documents())),
        };
        write(&dir.join(DENSE_FILE), &input).unwrap();
        let mut texts = TextWriter::create(&dir.join(TEXT_DIR), TextLanguage::English).unwrap();
        for key in &keys {
            let words = 3 + draws.below(60 + 40 * self.number);
            let document = TextDocument {
                key,
                title: if draws.below(3) == 0 { "A title word1" } else { "" },
                text: &draws.text(words),
                metadata_json: [r#"{"colour":"red"}"#, r#"{"colour":"blue"}"#][draws.below(2)],
            };
            texts.add(document).unwrap();
        }
        texts.finish().unwrap();
        let text = TextShard::open(&dir.join(TEXT_DIR)).unwrap();
        ShardEntry {
            id: self.id(),
            documents: self.documents() as u64,
            files: files_of(&dir),
            deleted: WITH_DELETIONS.contains(&self.number).then(|| self.delete(&text)),
            metadata: WITH_UPDATES.contains(&self.number).then(|| self.update(&text)),
            calibration: None,
        }
    }

    /// Every node linked to its nearest and to some others: navigable without a builder.
    fn graph(&self) -> Graph {
        let (rows, count) = (self.rows(), self.documents() as u32);
        let links_of = |node: u32| {
            let row = &self.values[node as usize * DIM..][..DIM];
            let near = exact_scan(&rows, &[row], 9, Metric::Cosine, None, |_| true);
            let near = near[0].hits.iter().map(|hit| hit.node);
            let far = (1..5).map(|step| (node + step * 13) % count);
            let mut links: Vec<u32> = near.chain(far).filter(|other| *other != node).collect();
            links.sort_unstable();
            links.dedup();
            links
        };
        let lists: Vec<Vec<u32>> = (0..count).map(links_of).collect();
        Graph {
            entry: 0,
            layers: vec![GraphLayer::from_lists((0..count).collect(), &lists)],
        }
    }

    /// What searches with a margin go by, among these nodes.
    fn certificate(&self, live: &NodeSet) -> Certificate {
        let questions: Vec<&[f32]> = self.questions.iter().map(|question| &question[..]).collect();
        let found = exact_scan(&self.rows(), &questions, live.len(), Metric::Cosine, Some(live), |_| {
            true
        });
        let at_rank = |rank: usize| {
            let scores: Vec<f64> = found
                .iter()
                .map(|found| f64::from(found.hits[rank - 1].score))
                .collect();
            RankScore {
                rank,
                score: scores.iter().sum::<f64>() / scores.len() as f64,
                low: scores.iter().copied().fold(f64::INFINITY, f64::min),
            }
        };
        let ranks = [1, 2, 5, 10, 20, 40, 80, 160, 320];
        Certificate {
            vectors: live.len() as u64,
            queries: questions.len() as u64,
            calibration: ranks
                .into_iter()
                .filter(|rank| *rank <= live.len())
                .map(at_rank)
                .collect(),
            ..Certificate::default()
        }
    }

    /// Deletes every eleventh document.
    fn delete(&self, text: &TextShard) -> DeletedEntry {
        let deleted: Vec<u32> = (0..self.documents() as u32).filter(|node| node % 11 == 3).collect();
        let mut live = NodeSet::all(self.documents());
        for node in &deleted {
            live.remove(*node);
        }
        let terms = text
            .terms_of(&deleted, &DeletedTerms::default(), &Never)
            .unwrap()
            .unwrap();
        let deletions = Deletions {
            certificate: self.certificate(&live),
            live,
            terms,
        };
        let (folder, path) = (self.index.join(DELETIONS_DIR), format!("000001-{}.dyad", self.id()));
        fs_err::create_dir_all(&folder).unwrap();
        fs_err::write(folder.join(&path), deletions.to_bytes().unwrap()).unwrap();
        let (bytes, crc32c) = crc32c_of_file(&folder.join(&path)).unwrap();
        DeletedEntry {
            documents: deleted.len() as u64,
            file: FileEntry { path, bytes, crc32c },
        }
    }

    /// Gives every fifth document other metadata.
    fn update(&self, text: &TextShard) -> MetadataEntry {
        let changed: Vec<_> = (0..self.documents() as u32)
            .step_by(5)
            .map(|node| {
                let mut document = text.document(node).unwrap();
                document.metadata_json = r#"{"colour":"green"}"#.to_owned();
                (node, document)
            })
            .collect();
        let id = format!("000001-{}", self.id());
        let dir = self.index.join(METADATA_DIR).join(&id);
        fs_err::create_dir_all(&dir).unwrap();
        write_updates(&dir, changed.iter().map(|(node, document)| (*node, document))).unwrap();
        assert!(dir.join(NODES_FILE).exists());
        MetadataEntry {
            id,
            documents: changed.len() as u64,
            files: files_of(&dir),
        }
    }
}

/// The files below a directory.
fn files_of(dir: &Path) -> Vec<FileEntry> {
    let (mut files, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = folders.pop() {
        for entry in fs_err::read_dir(dir.join(&below)).unwrap() {
            let entry = entry.unwrap();
            let path = below.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
                continue;
            }
            let (bytes, crc32c) = crc32c_of_file(&entry.path()).unwrap();
            let path = path.to_str().unwrap().to_owned();
            files.push(FileEntry { path, bytes, crc32c });
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files
}
