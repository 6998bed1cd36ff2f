//! Refuses duplicate keys, and names the line of the first.
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use xxhash_rust::xxh3::xxh3_128;

use crate::problem::CorpusProblem;

/// The keys of one file so far: 128 bits of xxh3 per key and its line, so that 20 million keys stay under a gigabyte.
#[derive(Debug, Default)]
pub(crate) struct SeenKeys {
    // Two halves instead of one u128, whose alignment would pad every entry by eight bytes.
    first_lines: HashMap<(u64, u64), u64>,
}

impl SeenKeys {
    /// Adds a key; refuses it where an earlier line had it.
    pub(crate) fn insert(&mut self, key: &str, line: u64) -> Result<(), CorpusProblem> {
        let hash = xxh3_128(key.as_bytes());
        match self.first_lines.entry(((hash >> 64) as u64, hash as u64)) {
            Entry::Occupied(first) => Err(CorpusProblem::DuplicateKey {
                key: key.to_owned(),
                first_line: *first.get(),
            }),
            Entry::Vacant(entry) => {
                entry.insert(line);
                Ok(())
            }
        }
    }
}
