//! `calibrate`: recall and margins of every shard measured again, by other questions. No graph and no vector changes.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use dyad_files::sync_dir;
use dyad_index::calibration::{CERTIFICATE_FILE, Calibration};
use dyad_index::ground_truth::CertificateQuestions;
use dyad_index::manifest::{Change, MinRecall, ShardEntry};
use dyad_index::search::{NodeSet, VectorRows as _};
use dyad_index::snapshot::Shard;
use dyad_index::{Certificate, Deletions, GROUND_TRUTH_FILE, QuerySource};

use super::outcome::ChangeOutcome;
use super::transaction::{Publication, Transaction};
use crate::control::{JobControl, Unit};
use crate::draft::{CompleteCalibration, Draft, DraftShard};
use crate::error::Error;
use crate::graph_build::{QuestionVectors, certify_live, nearest_of};
use crate::job::{Workspace, entries_of, thread_pool};

/// Beam width of which the recall before and after is told; that of a search that names none.
const TOLD_EF: usize = 128;

/// How an index is calibrated.
#[derive(Debug, Clone)]
pub struct CalibrateConfig {
    /// The index's directory.
    pub index: PathBuf,
    /// Threads that measure.
    pub threads: usize,
    /// Nothing is published; what was measured is told.
    pub dry_run: bool,
}

/// A shard as it was measured.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct MeasuredShard {
    id: String,
    /// The file of its deletions.
    deletions: Option<String>,
}

/// Measures recall and margins of every shard by these questions, and publishes them as the next generation: adaptive
/// searches go by them from then on, and so do later deletions, additions and merges. An error where a shard has less
/// than the recall that the index keeps.
pub fn calibrate(
    config: &CalibrateConfig,
    questions: &QuestionVectors,
    control: JobControl<'_>,
) -> Result<ChangeOutcome, Error> {
    let transaction = Transaction::begin(&config.index, None, Publication::unless(config.dry_run))?;
    let workspace = Workspace::create(&config.index)?;
    let pool = thread_pool(config.threads)?;
    let mut measured: HashMap<MeasuredShard, (CompleteCalibration, Certificate)> = HashMap::new();
    transaction.publish(|_, base| {
        let manifest = base.manifest();
        let mut shards = Vec::with_capacity(manifest.shards.len());
        for (entry, shard) in base.entries() {
            let deletions = entry.deleted.as_ref().map(|deleted| deleted.file.path.clone());
            let key = MeasuredShard {
                id: entry.id.clone(),
                deletions,
            };
            // What others have published meanwhile is measured too.
            if !measured.contains_key(&key) {
                let dir = workspace.path().join(format!("calibration-{}", measured.len()));
                let job = CalibrateShard {
                    entry,
                    shard,
                    questions,
                    min_recall: manifest.min_recall,
                    control,
                };
                measured.insert(key.clone(), pool.install(|| job.run(&dir))?);
            }
            let Some((complete, certificate)) = measured.get(&key) else {
                continue;
            };
            let with = |before: &Deletions| Deletions {
                certificate: certificate.clone(),
                ..before.clone()
            };
            shards.push(DraftShard {
                deletions: shard.deletions.as_deref().map(with),
                calibration: Some(complete.clone()),
                ..DraftShard::kept(entry)
            });
        }
        let documents = manifest.documents();
        let change = Change {
            operation: "calibrate".to_owned(),
            read: documents,
            unchanged: documents,
            ..Change::default()
        };
        Ok(Some(Draft::after(manifest, &change, shards)))
    })
}

/// The measurement of one shard.
struct CalibrateShard<'a> {
    entry: &'a ShardEntry,
    shard: &'a Shard,
    questions: &'a QuestionVectors,
    min_recall: Option<MinRecall>,
    control: JobControl<'a>,
}

impl CalibrateShard<'_> {
    fn run(&self, dir: &Path) -> Result<(CompleteCalibration, Certificate), Error> {
        let Self {
            entry, shard, control, ..
        } = *self;
        let nodes = shard.dense.len();
        control
            .progress
            .begin(&format!("calibrate {}", entry.id), Unit::Documents, Some(nodes as u64));
        let (dim, values) = (self.questions.dim(), self.questions.values().to_vec());
        let truth = nearest_of(&shard.dense, CertificateQuestions::Vectors { dim, values }, control)?;
        let live = shard.live().cloned().unwrap_or_else(|| NodeSet::all(nodes));
        let certificate = certify_live(&shard.dense, &truth, &live, control)?;
        control.progress.advance(nodes as u64);
        control.progress.finish();
        self.tell(&certificate);
        if let Some(MinRecall { recall: target, ef }) = self.min_recall {
            let recall = certificate.least_recall(ef).unwrap_or(0.0);
            if recall < target {
                return Err(Error::BelowTarget {
                    shard: entry.id.clone(),
                    recall,
                    target,
                    ef,
                });
            }
        }
        fs_err::create_dir(dir)?;
        Calibration::write(dir, &certificate, &truth)?;
        sync_dir(dir)?;
        let files = entries_of(dir, [CERTIFICATE_FILE, GROUND_TRUTH_FILE].map(str::to_owned).into())?;
        let questions = truth.questions.len() as u64;
        Ok((
            CompleteCalibration {
                dir: dir.to_owned(),
                questions,
                files,
            },
            certificate,
        ))
    }

    fn tell(&self, certificate: &Certificate) {
        let recall = |certificate: &Certificate| {
            let points = if certificate.adaptive.is_empty() {
                &certificate.recall
            } else {
                &certificate.adaptive
            };
            let point = points.iter().find(|point| point.ef == TOLD_EF);
            point.map_or_else(|| "unknown".to_owned(), |point| format!("{:.4}", point.recall_at_10))
        };
        let before = self.shard.certificate();
        self.control.progress.note(&format!(
            "shard {}: recall@10 at ef {TOLD_EF} is {} for these {} questions; it was {} for the {} {} before",
            self.entry.id,
            recall(certificate),
            certificate.queries,
            recall(before),
            before.queries,
            match before.source {
                QuerySource::Documents => "documents",
                QuerySource::HeldOut => "questions",
            }
        ));
    }
}
