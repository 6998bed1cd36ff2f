//! All that belongs to one shard: its vectors and texts, deletions, changed metadata, calibration.

use std::path::Path;

use super::files::{check_file, check_files};
use super::findings::{BETWEEN_CHECKS, Findings, MAX_LISTED};
use crate::calibration::Calibration;
use crate::deletions::{DeletedTerms, Deletions};
use crate::ground_truth::GroundTruth;
use crate::lexical::{MetadataUpdates, PassagePlaces, TextShard};
use crate::manifest::{
    CALIBRATIONS_DIR, CalibrationEntry, DELETIONS_DIR, DeletedEntry, METADATA_DIR, MetadataEntry, SHARDS_DIR,
    ShardEntry,
};
use crate::model::ModelRecord;
use crate::shard::{DENSE_FILE, DOCUMENTS_DIR, DenseShard, TEXT_DIR};
use dyad_files::Cancel;

/// A shard without problems, and its deletions.
pub(super) struct VerifiedShard {
    pub(super) id: String,
    pub(super) dense: DenseShard,
    deletions: Option<Deletions>,
}

impl VerifiedShard {
    pub(super) fn has(&self, key: &str) -> bool {
        let found = self.dense.find(key).ok().flatten();
        found.is_some_and(|node| self.is_live(node))
    }

    pub(super) fn is_live(&self, node: u32) -> bool {
        self.deletions
            .as_ref()
            .is_none_or(|deletions| deletions.live.contains(node))
    }
}

/// The shard, where nothing is wrong with it.
pub(super) fn verify_shard(
    index: &Path,
    entry: &ShardEntry,
    model: &ModelRecord,
    cancel: &dyn Cancel,
    findings: &mut Findings,
) -> Option<VerifiedShard> {
    let dir = &index.join(SHARDS_DIR).join(&entry.id);
    let before = findings.problems.len();
    let mut text_is_intact = true;
    for file in entry.files.iter().filter(|file| file.path != DENSE_FILE) {
        let intact = check_file(dir, file, cancel, findings);
        text_is_intact &= intact || ![TEXT_DIR, DOCUMENTS_DIR].iter().any(|dir| file.path.starts_with(dir));
        if findings.stopped {
            return None;
        }
    }
    // A reader of damaged text files may go anywhere, so they are opened only where all checksums hold.
    let text_path = dir.join(TEXT_DIR);
    let text = text_is_intact.then(|| TextShard::open(&text_path));
    let dense_path = dir.join(DENSE_FILE);
    let dense = verify_dense(&dense_path, entry, model, cancel, findings);
    if findings.stopped {
        return None;
    }
    let text = match text? {
        Ok(text) => text,
        Err(error) => {
            findings.failed(&error);
            return None;
        }
    };
    if text.len() as u64 != entry.documents {
        findings.differ(
            &text_path,
            "documents",
            &entry.documents.to_string(),
            &text.len().to_string(),
        );
        return None;
    }
    let dense = dense?;
    compare_keys(&dense, &text, &text_path, cancel, findings);
    verify_places(&dir.join(DOCUMENTS_DIR), dense.len(), cancel, findings);
    let deletions = entry
        .deleted
        .as_ref()
        .and_then(|entry| verify_deletions(index, entry, &text, cancel, findings));
    if let Some(updates) = &entry.metadata {
        verify_updates(index, updates, &dense, cancel, findings);
    }
    if let Some(calibration) = &entry.calibration {
        verify_calibration(index, calibration, &dense, cancel, findings);
    }
    (findings.problems.len() == before && !findings.stopped).then(|| VerifiedShard {
        id: entry.id.clone(),
        dense,
        deletions,
    })
}

/// Every passage must stand in its document.
fn verify_places(dir: &Path, nodes: usize, cancel: &dyn Cancel, findings: &mut Findings) {
    let checked =
        PassagePlaces::open(dir, nodes).and_then(|places| places.map_or(Ok(()), |places| places.check(cancel)));
    if let Err(error) = checked {
        findings.failed(&error);
    }
}

/// What BM25 subtracts must be what the deleted documents hold.
fn verify_deletions(
    index: &Path,
    entry: &DeletedEntry,
    text: &TextShard,
    cancel: &dyn Cancel,
    findings: &mut Findings,
) -> Option<Deletions> {
    let opened = Deletions::open(index, entry, text.len() as u64).and_then(|deletions| {
        let nodes: Vec<u32> = (0..text.len() as u32)
            .filter(|node| !deletions.live.contains(*node))
            .collect();
        let terms = text.terms_of(&nodes, &DeletedTerms::default(), cancel)?;
        Ok((deletions, terms))
    });
    match opened {
        Ok((deletions, Some(terms))) => {
            findings.files += 1;
            findings.bytes += entry.file.bytes;
            if terms == deletions.terms {
                return Some(deletions);
            }
            let path = index.join(DELETIONS_DIR).join(&entry.file.path);
            findings.differ(&path, "terms", "those of the deleted documents", "others");
        }
        Ok((_, None)) => findings.stopped = true,
        Err(error) => findings.failed(&error),
    }
    None
}

/// The questions must be of the shard's dimension, and their nearest nodes nodes of it.
fn verify_calibration(
    index: &Path,
    entry: &CalibrationEntry,
    dense: &DenseShard,
    cancel: &dyn Cancel,
    findings: &mut Findings,
) {
    let dir = index.join(CALIBRATIONS_DIR).join(&entry.id);
    if !check_files(&dir, &entry.files, cancel, findings) {
        return;
    }
    let opened = Calibration::open(index, entry).and_then(|calibration| {
        let path = calibration.ground_truth_path();
        GroundTruth::open(&path, dense.meta().model.dim, dense.len())
    });
    match opened {
        Ok(truth) if truth.questions.len() as u64 == entry.questions => {}
        Ok(truth) => {
            findings.differ(
                &dir,
                "questions",
                &entry.questions.to_string(),
                &truth.questions.len().to_string(),
            );
        }
        Err(error) => findings.failed(&error),
    }
}

/// The keys of documents with changed metadata must be those of their nodes.
fn verify_updates(
    index: &Path,
    entry: &MetadataEntry,
    dense: &DenseShard,
    cancel: &dyn Cancel,
    findings: &mut Findings,
) {
    let dir = index.join(METADATA_DIR).join(&entry.id);
    if !check_files(&dir, &entry.files, cancel, findings) {
        return;
    }
    let updates = match MetadataUpdates::open(&dir, dense.len()) {
        Ok(updates) => updates,
        Err(error) => return findings.failed(&error),
    };
    if updates.len() as u64 != entry.documents {
        findings.differ(
            &dir,
            "documents",
            &entry.documents.to_string(),
            &updates.len().to_string(),
        );
    }
    for &node in updates.nodes() {
        match updates.document(node) {
            Ok(Some(document)) if document.key == dense.keys().key(node) => {}
            Ok(_) => return findings.differ(&dir, "key", dense.keys().key(node), "another"),
            Err(error) => return findings.failed(&error),
        }
    }
}

/// Checks `dense.dyad` by section, so that damage is located. Returns the shard where it is valid.
fn verify_dense(
    path: &Path,
    entry: &ShardEntry,
    model: &ModelRecord,
    cancel: &dyn Cancel,
    findings: &mut Findings,
) -> Option<DenseShard> {
    let Some(file) = entry.files.iter().find(|file| file.path == DENSE_FILE) else {
        findings.differ(path, "manifest", "an entry for the file", "none");
        return None;
    };
    let mut whole = Findings::default();
    let intact = check_file(path.parent()?, file, cancel, &mut whole);
    findings.files += whole.files;
    findings.bytes += whole.bytes;
    findings.stopped |= whole.stopped;
    findings.prevented = findings.prevented.take().or(whole.prevented.take());
    if findings.stopped {
        return None;
    }
    let shard = match DenseShard::open(path) {
        Ok(shard) => shard,
        Err(error) => {
            findings.failed(&error);
            return None;
        }
    };
    let verified = shard.verify(cancel);
    findings.stopped |= verified.stopped;
    let problems = verified.problems;
    let sections_are_intact = problems.is_empty();
    findings.problems.extend(problems);
    if sections_are_intact && !intact {
        // Damage between the sections, or a whole file of another build.
        findings.problems.extend(whole.problems);
    }
    let before = findings.problems.len();
    if !shard.meta().model.same_space(model) {
        findings.differ(path, "META, model", &model.space(), &shard.meta().model.space());
    }
    if shard.len() as u64 != entry.documents {
        findings.differ(path, "vectors", &entry.documents.to_string(), &shard.len().to_string());
    }
    (sections_are_intact && intact && findings.problems.len() == before).then_some(shard)
}

/// Document i of the text must be node i of the vectors.
fn compare_keys(dense: &DenseShard, text: &TextShard, text_path: &Path, cancel: &dyn Cancel, findings: &mut Findings) {
    let (keys, mut different) = (dense.keys(), 0);
    for node in 0..dense.len() as u32 {
        if node.is_multiple_of(BETWEEN_CHECKS) && cancel.is_cancelled() {
            findings.stopped = true;
            return;
        }
        let problem = match text.document(node) {
            Ok(document) if document.key == keys.key(node) => continue,
            Ok(document) => format!("expected key `{}`, got `{}`", keys.key(node), document.key),
            Err(error) => error.to_string(),
        };
        different += 1;
        if different <= MAX_LISTED {
            findings.note(format!("`{}`, document {node}: {problem}", text_path.display()));
        }
    }
    if different > MAX_LISTED {
        findings.note(format!(
            "`{}`: {different} documents differ from the vectors' keys",
            text_path.display()
        ));
    }
}
