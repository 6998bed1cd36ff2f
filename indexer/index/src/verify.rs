//! Verification of an index: reads every byte, checks every invariant, and names each problem by file and section.

use std::path::Path;

use dyad_files::crc32c_of_file_until;

use crate::cancel::{Cancel, Never};
use crate::error::{Error, Result};
use crate::lexical::TextShard;
use crate::manifest::{self, FileEntry, Manifest, SHARDS_DIR, ShardEntry};
use crate::model::ModelRecord;
use crate::shard::{DENSE_FILE, DenseShard, TEXT_DIR};

/// Differences between vectors and texts that are listed one by one.
const MAX_LISTED: usize = 10;

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// The generation checked.
    pub generation: u64,
    /// Files read.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// One line per problem; empty for a valid index.
    pub problems: Vec<String>,
    /// Whether the check was cancelled: there may be more problems.
    pub stopped: bool,
    /// Why the check could not be made, such as too few files. Says nothing of the index.
    pub prevented: Option<String>,
}

impl Findings {
    /// Notes what could not be read, or that nothing could be.
    fn failed(&mut self, error: &Error) {
        if error.is_shortage() {
            self.stopped = true;
            self.prevented = Some(error.to_string());
        } else {
            self.note(error);
        }
    }

    fn note(&mut self, problem: impl std::fmt::Display) {
        self.problems.push(problem.to_string());
    }

    fn differ(&mut self, path: &Path, part: &str, expected: &str, got: &str) {
        self.note(format!("`{}`, {part}: expected {expected}, got {got}", path.display()));
    }
}

/// Documents compared between two checks for cancellation.
const BETWEEN_CHECKS: u32 = 1 << 10;

/// Checks the generation that `CURRENT` names. Damage is a finding; an index that is not there, or whose manifest cannot
/// be read, is an error.
pub fn verify_current(index: &Path) -> Result<Findings> {
    Ok(verify(index, &manifest::current(index)?, &Never))
}

/// Checks a generation: its files against the manifest's checksums, every section of the vectors, and that node `i` and
/// document `i` have the same key. A cancelled check returns the problems found so far.
pub fn verify(index: &Path, manifest: &Manifest, cancel: &dyn Cancel) -> Findings {
    let mut findings = Findings { generation: manifest.generation, ..Findings::default() };
    for entry in &manifest.shards {
        verify_shard(&index.join(SHARDS_DIR).join(&entry.id), entry, &manifest.model, cancel, &mut findings);
        if findings.stopped {
            break;
        }
    }
    findings
}

fn verify_shard(dir: &Path, entry: &ShardEntry, model: &ModelRecord, cancel: &dyn Cancel, findings: &mut Findings) {
    let before = findings.problems.len();
    for file in entry.files.iter().filter(|file| file.path != DENSE_FILE) {
        check_file(dir, file, cancel, findings);
        if findings.stopped {
            return;
        }
    }
    // A reader of damaged text files may go anywhere, so they are opened only where all checksums hold.
    let text_path = dir.join(TEXT_DIR);
    let text = (findings.problems.len() == before).then(|| TextShard::open(&text_path));
    let dense_path = dir.join(DENSE_FILE);
    let dense = verify_dense(&dense_path, entry, model, cancel, findings);
    if findings.stopped {
        return;
    }
    match (text, dense) {
        (Some(Err(error)), _) => findings.failed(&error),
        (Some(Ok(text)), dense) => {
            if text.len() as u64 != entry.documents {
                findings.differ(&text_path, "documents", &entry.documents.to_string(), &text.len().to_string());
            } else if let Some(dense) = dense {
                compare_keys(&dense, &text, &text_path, cancel, findings);
            }
        }
        (None, _) => {}
    }
}

/// Length and checksum of a file against the manifest; says whether they hold.
fn check_file(dir: &Path, file: &FileEntry, cancel: &dyn Cancel, findings: &mut Findings) -> bool {
    let path = dir.join(&file.path);
    let (bytes, crc32c) = match crc32c_of_file_until(&path, Some(&|| cancel.is_cancelled())) {
        Ok(Some(read)) => read,
        Ok(None) => {
            findings.stopped = true;
            return false;
        }
        Err(error) => {
            findings.failed(&error.into());
            return false;
        }
    };
    findings.files += 1;
    findings.bytes += bytes;
    if bytes != file.bytes {
        findings.differ(&path, "length", &format!("{} bytes", file.bytes), &format!("{bytes} bytes"));
        return false;
    }
    if crc32c != file.crc32c {
        findings.differ(&path, "checksum of the file", &format!("{:08x}", file.crc32c), &format!("{crc32c:08x}"));
        return false;
    }
    true
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
        findings.differ(path, "META, model", &model.fingerprint, &shard.meta().model.fingerprint);
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
        findings.note(format!("`{}`: {different} documents differ from the vectors' keys", text_path.display()));
    }
}
