//! What was learned for an index (`fusion.json`, `rerank.json`): pushed and fetched with its generations, each file
//! whole.
//!
//! These files are no part of a generation, and have no checksum there: they are read before they move. A directory
//! notes what it and a store had in common last (`.learned`), so that a file which was learned on one side alone goes
//! to the other one, a file that was removed there goes, and of two that were learned apart neither is lost. No failure
//! here ends a push or a pull: an index is searched without what was learned for it, too.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use dyad_files::write_atomic;
use dyad_index::storage::WriteLock;
use dyad_index::{LEARNED_FILES, check_learned};

use crate::error::Result;
use crate::remote::RemoteStore;

/// File of a directory: what it and a store had in common last, a URL, a name and a checksum between tabs.
const NOTED: &str = ".learned";

/// What became of a file that a store and a directory have differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LearnedMove {
    /// The name of the file.
    pub file: &'static str,
    /// What was done with the file.
    pub outcome: LearnedOutcome,
}

/// What was done with a file that a store and a directory have differently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LearnedOutcome {
    /// The other side has it now.
    Moved,
    /// It was removed on the other side, as it had been on this one.
    Removed,
    /// Both were changed since they were the same: each keeps its own.
    Kept,
    /// It cannot be read or written, and stays as it was.
    Failed(String),
}

impl LearnedOutcome {
    /// In one word.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Moved => "moved",
            Self::Removed => "removed",
            Self::Kept => "kept",
            Self::Failed(_) => "failed",
        }
    }
}

impl fmt::Display for LearnedMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file;
        match &self.outcome {
            LearnedOutcome::Moved => write!(f, "`{file}` was transferred"),
            LearnedOutcome::Removed => write!(f, "`{file}` was removed, as it was on the other side"),
            LearnedOutcome::Kept => write!(
                f,
                "`{file}` of the directory and that of the store were learned apart, and both stay: remove one of them, and push or pull again"
            ),
            LearnedOutcome::Failed(reason) => write!(f, "`{file}` stays as it was: {reason}"),
        }
    }
}

/// Which way files go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From a directory to a store.
    Push,
    /// From a store to a directory, which people work on.
    Pull,
    /// From a store to a directory that mirrors it: the store's always count.
    Mirror,
}

/// Checksum of a file; none where there is no file.
fn checksum(bytes: Option<&Vec<u8>>) -> Option<u32> {
    bytes.map(|bytes| crc32c::crc32c(bytes))
}

/// Brings the files of one side to the other; what became of those that are not the same. A store that is a directory,
/// and is pushed to, has to be locked by the caller.
pub(crate) async fn move_learned(index: &Path, remote: &RemoteStore, direction: Direction) -> Vec<LearnedMove> {
    let noted = read_noted(index).unwrap_or_default();
    let (mut moves, mut common) = (Vec::new(), Vec::new());
    for file in LEARNED_FILES {
        let key = (remote.url().to_owned(), file.to_owned());
        let moved = match move_one(index, remote, file, direction, noted.get(&key).copied()).await {
            Ok(moved) => moved,
            // Where only what is there may be read, a store answers so for what is not.
            Err(error) => MoveResult {
                outcome: Some(LearnedOutcome::Failed(error.to_string())),
                common: Common::Unknown,
            },
        };
        if let Common::Same(checksum) = moved.common {
            common.push((key, checksum));
        }
        moves.extend(moved.outcome.map(|outcome| LearnedMove { file, outcome }));
    }
    // What cannot be noted now, because the directory is being changed, is noted by the next push or pull that finds
    // both sides the same.
    drop(note(index, &noted, common));
    moves
}

/// What both sides have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Common {
    /// A file with this checksum, or none.
    Same(Option<u32>),
    /// Different files, or it is not known.
    Unknown,
}

/// What became of a file.
struct MoveResult {
    /// None where both sides stay as they were, and nobody needs to know.
    outcome: Option<LearnedOutcome>,
    /// What both sides have now.
    common: Common,
}

/// A file, by what both sides had last (`common`): what was changed on the side that is moved from alone goes to the
/// other one.
async fn move_one(
    index: &Path,
    remote: &RemoteStore,
    file: &'static str,
    direction: Direction,
    common: Option<u32>,
) -> Result<MoveResult> {
    let (own, there) = (read(index, file)?, remote.read(file).await?);
    let (from, to, place) = match direction {
        Direction::Push => (&own, &there, index.join(file)),
        Direction::Pull | Direction::Mirror => (&there, &own, Path::new(remote.url()).join(file)),
    };
    let now = checksum(from.as_ref());
    if from == to {
        return Ok(MoveResult {
            outcome: None,
            common: Common::Same(now),
        });
    }
    let differ = |outcome| {
        Ok(MoveResult {
            outcome,
            common: Common::Unknown,
        })
    };
    // A mirror's own is never what counts, but one that no store gave it stays where the store has none.
    let is_mirror = direction == Direction::Mirror && (from.is_some() || common.is_some());
    if now == common && !is_mirror {
        return differ(None);
    }
    if checksum(to.as_ref()) != common && !is_mirror {
        return differ(Some(LearnedOutcome::Kept));
    }
    let outcome = match from {
        Some(bytes) => {
            check_learned(file, &place, bytes)?;
            LearnedOutcome::Moved
        }
        None => LearnedOutcome::Removed,
    };
    match direction {
        Direction::Push => {
            if !remote.change(file, there.as_deref(), own.clone()).await? {
                return differ(Some(LearnedOutcome::Kept));
            }
        }
        Direction::Pull | Direction::Mirror => {
            let _lock = WriteLock::acquire(index)?;
            let path = index.join(file);
            match &there {
                Some(bytes) => write_atomic(&path, bytes)?,
                None => fs_err::remove_file(&path)?,
            }
        }
    }
    Ok(MoveResult {
        outcome: Some(outcome),
        common: Common::Same(now),
    })
}

fn read(index: &Path, name: &str) -> Result<Option<Vec<u8>>> {
    match fs_err::read(index.join(name)) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Checksums of what a directory and stores had in common last, by URL and name.
type CommonChecksums = BTreeMap<(String, String), u32>;

fn read_noted(index: &Path) -> Result<CommonChecksums> {
    let text = read(index, NOTED)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.lines().filter_map(noted_checksum).collect())
}

/// URL, name and checksum of a line.
fn noted_checksum(line: &str) -> Option<((String, String), u32)> {
    let mut parts = line.split('\t');
    let (url, name, checksum) = (parts.next()?, parts.next()?, parts.next()?);
    let checksum = u32::from_str_radix(checksum, 16).ok()?;
    Some(((url.to_owned(), name.to_owned()), checksum))
}

/// Notes what both sides have now. Under the lock of the directory: another push, to another URL, may note its own.
fn note(index: &Path, before: &CommonChecksums, now: Vec<((String, String), Option<u32>)>) -> Result<()> {
    if now.iter().all(|(key, checksum)| before.get(key) == checksum.as_ref()) {
        return Ok(());
    }
    let _lock = WriteLock::acquire(index)?;
    let mut all = read_noted(index)?;
    for (key, checksum) in now {
        match checksum {
            Some(checksum) => all.insert(key, checksum),
            None => all.remove(&key),
        };
    }
    let line = |((url, name), checksum): (&(String, String), &u32)| format!("{url}\t{name}\t{checksum:08x}\n");
    let text: String = all.iter().map(line).collect();
    Ok(write_atomic(&index.join(NOTED), text.as_bytes())?)
}

#[cfg(test)]
mod tests;
