//! Verification of an index: reads every byte, checks every invariant, and names each problem by file and section.
//!
//! | file | contents |
//! |---|---|
//! | `shard.rs` | all that belongs to one shard |
//! | `files.rs` | files against the manifest |
//! | `keys.rs` | keys that are live in several shards |
//! | `findings.rs` | what a verification has found |

mod files;
mod findings;
mod keys;
mod shard;

use std::path::Path;

use crate::error::{Error, Result};
use crate::manifest::{self, Manifest, ReaderLock};
use dyad_files::{Cancel, Never};
use keys::compare_shards;
use shard::verify_shard;

pub use findings::Findings;

/// Checks the generation that `CURRENT` names, and the manifests of all others. Damage is a finding; an index that is
/// not there, or whose current manifest cannot be read, is an error.
pub fn verify_current(index: &Path) -> Result<Findings> {
    let current = manifest::current(index)?;
    let mut findings = verify(index, &current, &Never);
    for generation in manifest::generations(index)?
        .into_iter()
        .filter(|generation| *generation != current.generation)
    {
        match manifest::load(index, generation) {
            // It was removed meanwhile.
            Ok(_) | Err(Error::NoGeneration { .. }) => {}
            Err(error) => findings.failed(&error),
        }
    }
    Ok(findings)
}

/// Checks a generation: its files against the manifest's checksums, every section of the vectors, and that node `i` and
/// document `i` have the same key. A cancelled check returns the problems found so far.
pub fn verify(index: &Path, manifest: &Manifest, cancel: &dyn Cancel) -> Findings {
    let all: Vec<usize> = (0..manifest.shards.len()).collect();
    verify_part(index, manifest, &all, cancel)
}

/// The same for some shards of a generation, by their numbers: see [`Manifest::entries_at`]. Nothing is said of the
/// others, whose files need not be there. Numbers that the generation does not have are a problem that is found.
pub fn verify_part(index: &Path, manifest: &Manifest, numbers: &[usize], cancel: &dyn Cancel) -> Findings {
    let mut findings = Findings {
        generation: manifest.generation,
        ..Findings::default()
    };
    let entries = match manifest.entries_at(numbers) {
        Ok(entries) => entries,
        Err(error) => {
            findings.failed(&error);
            return findings;
        }
    };
    let _lock = match ReaderLock::acquire(index, manifest.generation) {
        Ok(lock) => lock,
        Err(error) => {
            findings.failed(&error);
            return findings;
        }
    };
    let mut valid = Vec::with_capacity(entries.len());
    for entry in entries {
        valid.extend(verify_shard(index, entry, &manifest.model, cancel, &mut findings));
        if findings.stopped {
            return findings;
        }
    }
    compare_shards(&valid, cancel, &mut findings);
    findings
}
