//! What a mirror has fetched last: a file of its directory, which has the store's `CURRENT`, and after it the numbers
//! of the shards where it mirrors a part of the generation.

use std::collections::BTreeSet;
use std::path::Path;

use dyad_files::write_atomic;
use dyad_index::manifest;
use dyad_index::storage::WriteLock;

use crate::error::Result;

/// The file. Its `CURRENT` is another one than the mirror's after a rollback of that.
const FETCHED: &str = ".fetched";
/// What comes between `CURRENT` and the numbers of shards.
const SHARDS: &str = "\nshards";

/// The last word where a part is not complete.
const INCOMPLETE: &str = "incomplete";

/// What was fetched last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FetchedRecord {
    /// The text of the store's `CURRENT`.
    pointer: String,
    /// Positions of the shards in the manifest, ascending; none where the whole generation was fetched.
    numbers: Option<Vec<usize>>,
    /// Whether all of these shards were there when it was written.
    is_complete: bool,
}

impl FetchedRecord {
    /// Of a whole generation, or of the shards with these numbers.
    pub(crate) fn new(pointer: &str, numbers: Option<&[usize]>) -> Self {
        Self {
            pointer: pointer.to_owned(),
            numbers: numbers.map(<[usize]>::to_vec),
            is_complete: true,
        }
    }

    /// Of shards of which some may still be fetched.
    pub(crate) fn incomplete(pointer: &str, numbers: &[usize]) -> Self {
        Self {
            is_complete: false,
            ..Self::new(pointer, Some(numbers))
        }
    }

    /// The record of a mirror; none where nothing was fetched, or it cannot be read.
    pub(crate) fn read(index: &Path) -> Option<Self> {
        let text = fs_err::read_to_string(index.join(FETCHED)).ok()?;
        let Some((pointer, numbers)) = text.split_once(SHARDS) else {
            return Some(Self::new(&text, None));
        };
        let numbers = numbers.trim_end();
        let without = numbers.strip_suffix(INCOMPLETE);
        let shards = without.unwrap_or(numbers).split_whitespace();
        let shards: Option<Vec<usize>> = shards.map(|number| number.parse().ok()).collect();
        Some(Self {
            is_complete: without.is_none(),
            ..Self::new(&format!("{pointer}\n"), Some(&shards?))
        })
    }

    /// Makes it the record of a mirror, unless it is.
    pub(crate) fn write(&self, index: &Path) -> Result<()> {
        if Self::read(index).as_ref() == Some(self) {
            return Ok(());
        }
        let mut text = self.pointer.clone();
        if let Some(numbers) = &self.numbers {
            text.truncate(text.trim_end().len());
            text.push_str(SHARDS);
            text.extend(numbers.iter().map(|number| format!(" {number}")));
            if !self.is_complete {
                text.push(' ');
                text.push_str(INCOMPLETE);
            }
            text.push('\n');
        }
        // Others that share the cache write it too.
        let _lock = WriteLock::acquire(index)?;
        Ok(write_atomic(&index.join(FETCHED), text.as_bytes())?)
    }

    /// The numbers of the shards that a mirror holds, where it holds a part of its current generation. None where it
    /// holds a whole one, and where it is not known what it holds.
    pub(crate) fn current_part(index: &Path) -> Option<Vec<usize>> {
        let record = Self::read(index)?;
        let own = fs_err::read_to_string(index.join(manifest::POINTER)).ok()?;
        record.numbers.filter(|_| own == record.pointer)
    }

    /// The ids of these shards.
    pub(crate) fn held_shards(index: &Path) -> Option<BTreeSet<String>> {
        let numbers = Self::current_part(index)?;
        let manifest = manifest::current(index).ok()?;
        let entries = manifest.entries_at(&numbers).ok()?;
        Some(entries.into_iter().map(|entry| entry.id.clone()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let folder = tempfile::TempDir::new().unwrap();
        let (index, current) = (folder.path(), folder.path().join(manifest::POINTER));
        assert_eq!(FetchedRecord::read(index), None);
        let pointer = manifest::pointer_to(7, b"manifest");
        let of_parts = [&[][..], &[0, 3, 12]].map(|part| {
            [
                FetchedRecord::new(&pointer, Some(part)),
                FetchedRecord::incomplete(&pointer, part),
            ]
        });
        for record in of_parts
            .into_iter()
            .flatten()
            .chain([FetchedRecord::new(&pointer, None)])
        {
            record.write(index).unwrap();
            assert_eq!(FetchedRecord::read(index).as_ref(), Some(&record));
            // Of the mirror's own `CURRENT` alone.
            assert_eq!(FetchedRecord::current_part(index), None);
            fs_err::write(&current, &pointer).unwrap();
            assert_eq!(FetchedRecord::current_part(index), record.numbers);
            fs_err::write(&current, "another\n").unwrap();
            assert_eq!(FetchedRecord::current_part(index), None);
            fs_err::remove_file(&current).unwrap();
        }
        // Earlier releases have written the text of `CURRENT` alone.
        assert_eq!(fs_err::read_to_string(index.join(FETCHED)).unwrap(), pointer);
        for damaged in ["\nshards 1 x", "\nshards -1", "\nshards 99999999999999999999"] {
            fs_err::write(index.join(FETCHED), format!("{}{damaged}\n", pointer.trim_end())).unwrap();
            assert_eq!(FetchedRecord::read(index), None, "{damaged}");
        }
    }
}
