//! One shard of an open generation. Its files are shared by all generations that name it; its deletions are those of
//! one.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::calibration::Calibration;
use crate::certificate::Certificate;
use crate::deletions::Deletions;
use crate::error::{Error, Result};
use crate::ground_truth::GROUND_TRUTH_FILE;
use crate::lexical::{DocumentFilter, MetadataUpdates, PassagePlaces, StoredDocument, StoredPlace, TextShard};
use crate::manifest::{METADATA_DIR, Manifest, MetadataEntry, SHARDS_DIR, ShardEntry};
use crate::model::ModelRecord;
use crate::search::{MinCompetitive, NodeSet, Scored, SearchHits, SearchParams};
use crate::shard::{DENSE_FILE, DOCUMENTS_DIR, DenseShard, TEXT_DIR};
use dyad_files::Cancel;

/// The mode of a dense search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SearchMode {
    /// By the graph, with one beam width for every question and shard.
    Beam {
        /// That width.
        ef: usize,
    },
    /// By the graph, with beams as wide as the question needs: see [`SearchParams::adaptive`]. Shards that are small
    /// next to others are searched only as far as they are likely to have better hits.
    Adaptive {
        /// Mean width of the beams; that of questions which are out of distribution.
        ef: usize,
    },
    /// The same in every shard as far as its certificate was measured, so that recall is what it says.
    Certified {
        /// Mean width of the beams.
        ef: usize,
        /// Width for questions that are out of distribution.
        out_of_distribution_ef: usize,
    },
    /// By comparing with every vector.
    Exact,
}

impl SearchMode {
    /// Beam width; none where no graph is searched.
    pub fn ef(self) -> Option<usize> {
        match self {
            Self::Beam { ef } | Self::Adaptive { ef } | Self::Certified { ef, .. } => Some(ef),
            Self::Exact => None,
        }
    }
}

/// Parameters of a dense search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DenseParams {
    /// Hits wanted.
    pub k: usize,
    /// Whether the search is by the graph or exact, and how wide its beams are.
    pub mode: SearchMode,
}

/// One shard. Node `i` of the vectors is document `i` of the text.
#[derive(Debug, Clone)]
pub struct Shard {
    /// Vectors, graph, keys.
    pub dense: Arc<DenseShard>,
    /// Stored fields and terms.
    pub text: Arc<TextShard>,
    /// Where its documents stand in others, of which they are passages; none where none is, and in shards of earlier
    /// releases.
    pub places: Option<Arc<PassagePlaces>>,
    /// The documents that are deleted in this generation; none where there are none.
    pub deletions: Option<Arc<Deletions>>,
    /// The questions by which it was measured after it was built; none where there are none.
    pub calibration: Option<Arc<Calibration>>,
    /// Metadata that were changed since it was built; none where there are none.
    pub updates: Option<Arc<MetadataUpdates>>,
    /// Device, inode and time of change of every file, as opened.
    files: Vec<(u64, u64, i64)>,
}

/// The open files of a shard, which are those of all generations that name it.
struct OpenShardFiles {
    dense: Arc<DenseShard>,
    text: Arc<TextShard>,
    places: Option<Arc<PassagePlaces>>,
}

impl OpenShardFiles {
    fn open(dir: &Path) -> Result<Self> {
        let dense = DenseShard::open(&dir.join(DENSE_FILE))?;
        let text = TextShard::open(&dir.join(TEXT_DIR))?;
        let places = PassagePlaces::open(&dir.join(DOCUMENTS_DIR), dense.len())?;
        Ok(Self {
            dense: Arc::new(dense),
            text: Arc::new(text),
            places: places.map(Arc::new),
        })
    }
}

impl Shard {
    /// Opens a shard, or shares its open files with `known`, unless one of them was replaced.
    pub(super) fn open(index: &Path, manifest: &Manifest, entry: &ShardEntry, known: Option<&Self>) -> Result<Self> {
        let model = &manifest.model;
        let dir = index.join(SHARDS_DIR).join(&entry.id);
        let mut files = Vec::with_capacity(entry.files.len());
        for file in &entry.files {
            let path = dir.join(&file.path);
            let found: Metadata = fs_err::metadata(&path)?;
            if found.len() != file.bytes {
                return Err(unlike(
                    path,
                    "length",
                    format!("{} bytes", file.bytes),
                    format!("{} bytes", found.len()),
                ));
            }
            files.push((found.dev(), found.ino(), found.mtime()));
        }
        let known_files = known.filter(|known| known.files == files && known.dense.damage().is_none());
        let OpenShardFiles { dense, text, places } = match known_files {
            Some(Self {
                dense, text, places, ..
            }) => OpenShardFiles {
                dense: Arc::clone(dense),
                text: Arc::clone(text),
                places: places.clone(),
            },
            None => OpenShardFiles::open(&dir)?,
        };
        let found = &dense.meta().model;
        if !found.same_space(model) {
            return Err(unlike(
                dense.path().to_owned(),
                "META, model",
                describe(model),
                describe(found),
            ));
        }
        if text.language() != manifest.language {
            let (expected, got) = (manifest.language.to_string(), text.language().to_string());
            return Err(unlike(text.path().to_owned(), "language", expected, got));
        }
        let counts = (dense.len() as u64, text.len() as u64);
        if counts != (entry.documents, entry.documents) {
            let got = format!("{} vectors and {} texts", counts.0, counts.1);
            return Err(unlike(dir, "documents", entry.documents.to_string(), got));
        }
        let deletions = entry
            .deleted
            .as_ref()
            .map(|deleted| Deletions::open(index, deleted, entry.documents));
        let updates = entry.metadata.as_ref().map(|updates| {
            // The whole set of a generation has a name of its own, which is never used again.
            let known = known
                .and_then(|known| known.updates.as_ref())
                .filter(|known| known.dir_is(&updates.id));
            match known {
                Some(known) => Ok(Arc::clone(known)),
                None => open_updates(index, updates, dense.len()).map(Arc::new),
            }
        });
        let (deletions, updates) = (deletions.transpose()?.map(Arc::new), updates.transpose()?);
        let calibration = entry
            .calibration
            .as_ref()
            .map(|calibration| Calibration::open(index, calibration));
        let calibration = calibration.transpose()?.map(Arc::new);
        Ok(Self {
            dense,
            text,
            places,
            deletions,
            calibration,
            updates,
            files,
        })
    }

    /// Opens a complete shard that no generation names yet.
    pub fn open_dir(dir: &Path) -> Result<Self> {
        let OpenShardFiles { dense, text, places } = OpenShardFiles::open(dir)?;
        Ok(Self {
            dense,
            text,
            places,
            deletions: None,
            calibration: None,
            updates: None,
            files: Vec::new(),
        })
    }

    /// The passages that `build --split` has made of a document, from a number on: nodes whose keys are its key, `#`
    /// and a number, and whose stored metadata name it as their `document`. Deleted ones are among them. An error where
    /// keys or stored fields are damaged.
    pub fn passages(&self, document: &str, from: u64) -> Result<Vec<(u32, u64)>> {
        let mut found = Vec::new();
        for (node, number) in self
            .dense
            .numbered(document)?
            .into_iter()
            .filter(|(_, number)| *number >= from)
        {
            let metadata: serde_json::Value =
                serde_json::from_str(&self.text.document(node)?.metadata_json).unwrap_or_default();
            if metadata.get("document").and_then(serde_json::Value::as_str) == Some(document) {
                found.push((node, number));
            }
        }
        Ok(found)
    }

    /// Documents that are not deleted.
    pub fn len(&self) -> usize {
        self.live().map_or(self.dense.len(), NodeSet::len)
    }

    /// All documents are deleted, or there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The nodes that are not deleted; none where no node is.
    pub fn live(&self) -> Option<&NodeSet> {
        self.deletions.as_ref().map(|deletions| &deletions.live)
    }

    /// Whether a node is not deleted.
    pub fn is_live(&self, node: u32) -> bool {
        self.live().is_none_or(|live| live.contains(node))
    }

    /// Recall and margins among the documents that are not deleted, but for what [`Certificate::lost_since`] says.
    pub fn certificate(&self) -> &Certificate {
        match (&self.deletions, &self.calibration) {
            (Some(deletions), _) => &deletions.certificate,
            (None, Some(calibration)) => &calibration.certificate,
            (None, None) => self.dense.certificate(),
        }
    }

    /// The file of the questions that [`Self::certificate`] was measured by, and of their exact nearest nodes. Shards
    /// of earlier releases have none.
    pub fn ground_truth_path(&self) -> PathBuf {
        match &self.calibration {
            Some(calibration) => calibration.ground_truth_path(),
            None => self.dense.path().with_file_name(GROUND_TRUTH_FILE),
        }
    }

    /// Stored fields of a node, with the metadata of this generation.
    pub fn document(&self, node: u32) -> Result<StoredDocument> {
        let stored = self.text.document(node)?;
        let updated = self
            .updates
            .as_ref()
            .map(|updates| updates.document(node))
            .transpose()?
            .flatten();
        Ok(match updated {
            Some(StoredDocument { metadata_json, .. }) => StoredDocument {
                metadata_json,
                ..stored
            },
            None => stored,
        })
    }

    /// Where a node stands in the document of which it is a passage, without what only deleted passages have; none
    /// where it is none, or where that was not stored.
    pub fn place(&self, node: u32) -> Result<Option<StoredPlace>> {
        self.places
            .as_ref()
            .map_or(Ok(None), |places| places.place(node, &|node| self.is_live(node)))
    }

    /// The live nodes that a filter allows; none where the work was cancelled. Deletions come last, so that `not`
    /// cannot bring them back.
    pub(super) fn allowed(&self, filter: &DocumentFilter, cancel: &dyn Cancel) -> Result<Option<NodeSet>> {
        let mut allowed = filter.nodes(&self.text, cancel)?;
        if let (Some(nodes), Some(updates)) = (&mut allowed, &self.updates)
            && !updates.apply(filter, nodes, cancel)?
        {
            return Ok(None);
        }
        if let (Some(allowed), Some(live)) = (&mut allowed, self.live()) {
            allowed.intersect_with(live);
        }
        Ok(allowed)
    }

    /// Searches one shard; one result per question.
    pub(super) fn search_dense(
        &self,
        queries: &[&[f32]],
        params: &DenseParams,
        allowed: Option<&NodeSet>,
        min_competitive: Option<MinCompetitive<'_>>,
        cancel: &dyn Cancel,
    ) -> Vec<SearchHits<Scored>> {
        let mut all = vec![SearchHits::default(); queries.len()];
        let found = |number: usize, hits| {
            if let Some(place) = all.get_mut(number) {
                *place = hits;
            }
        };
        match params.mode {
            SearchMode::Exact => {
                self.dense
                    .search_exact_batch(queries, params.k, allowed.or(self.live()), cancel, found);
            }
            SearchMode::Beam { ef } | SearchMode::Adaptive { ef } | SearchMode::Certified { ef, .. } => {
                let adaptive = !matches!(params.mode, SearchMode::Beam { .. });
                let out_of_distribution_ef = match params.mode {
                    SearchMode::Certified {
                        out_of_distribution_ef, ..
                    } => Some(out_of_distribution_ef),
                    _ => None,
                };
                let params = SearchParams {
                    adaptive,
                    out_of_distribution_ef,
                    allowed,
                    live: self.live(),
                    certificate: Some(self.certificate()),
                    min_competitive,
                    cancel,
                    ..SearchParams::new(params.k, ef)
                };
                self.dense.search_batch(queries, &params, found);
            }
        }
        all
    }
}

fn open_updates(index: &Path, entry: &MetadataEntry, documents: usize) -> Result<MetadataUpdates> {
    let dir = index.join(METADATA_DIR).join(&entry.id);
    for file in &entry.files {
        let (path, got) = (dir.join(&file.path), fs_err::metadata(dir.join(&file.path))?.len());
        if got != file.bytes {
            return Err(unlike(
                path,
                "length",
                format!("{} bytes", file.bytes),
                format!("{got} bytes"),
            ));
        }
    }
    let updates = MetadataUpdates::open(&dir, documents)?;
    if updates.len() as u64 != entry.documents {
        return Err(unlike(
            dir,
            "documents",
            entry.documents.to_string(),
            updates.len().to_string(),
        ));
    }
    Ok(updates)
}

fn unlike(path: PathBuf, part: &str, expected: String, got: String) -> Error {
    let hint = "The files do not belong together: write intact copies under other names and `mv` them there, or build the \
                index again";
    Error::Format {
        path,
        part: part.to_owned(),
        expected,
        got,
        hint,
    }
}

/// A model, for errors.
fn describe(model: &ModelRecord) -> String {
    let ModelRecord {
        name,
        fingerprint,
        metric,
        ..
    } = model;
    format!("`{name}` {fingerprint} of {}, {metric}", model.values())
}
