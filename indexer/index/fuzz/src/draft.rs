//! A shard's bytes with edits applied, and its checksums recomputed: damage that reaches the code after the
//! checksums, as a faulty writer's or an attacker's would.

use dyad_index::format::ALIGN;
use dyad_index::format::header::{HEADER_LEN, MAX_SECTIONS};

use crate::Script;

/// Where the header has the length of the file, and the number of sections.
const FILE_LEN_AT: usize = 24;
const SECTIONS_AT: usize = 36;
/// The section table, and where an entry has offset, length and checksum.
const TABLE_AT: usize = 64;
const ENTRY_LEN: usize = 32;
const OFFSET_AT: usize = 8;
const LEN_AT: usize = 16;
const SUM_AT: usize = 24;
/// More edits than this say nothing new.
const MAX_EDITS: usize = 24;
const LINE: usize = ALIGN as usize;

/// A file in the making, and a question for it.
#[derive(Debug, Clone)]
pub struct Draft {
    /// The file.
    pub bytes: Vec<u8>,
    /// Little-endian f32.
    query: Vec<u8>,
    /// Header and sections: first byte and length.
    parts: Vec<(usize, usize)>,
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..at + 8)
        .map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    for (slot, byte) in bytes.iter_mut().skip(at).zip(value) {
        *slot = *byte;
    }
}

/// The place in the file of field `field` of entry `at` of the section table.
const fn entry(at: usize, field: usize) -> usize {
    TABLE_AT + at * ENTRY_LEN + field
}

impl Draft {
    /// Starts with a valid file, and with a question that is not the centre.
    pub fn new(valid: &[u8]) -> Self {
        let dim = valid
            .get(12..16)
            .map_or(0, |dim| u32::from_le_bytes(dim.try_into().unwrap_or_default()));
        let query = (0..dim)
            .flat_map(|at| (0.5 - (at % 3) as f32 / 4.0).to_le_bytes())
            .collect();
        let count = usize::from(valid.get(SECTIONS_AT).copied().unwrap_or(0));
        let section = |at| {
            (
                u64_at(valid, entry(at, OFFSET_AT)) as usize,
                u64_at(valid, entry(at, LEN_AT)) as usize,
            )
        };
        let parts = std::iter::once((0, HEADER_LEN))
            .chain((0..count).map(section))
            .collect();
        Self {
            bytes: valid.to_vec(),
            query,
            parts,
        }
    }

    /// Applies what the script says; true where anything was said.
    pub fn edit(&mut self, script: &mut Script<'_>) -> bool {
        let before = self.clone();
        for _ in 0..MAX_EDITS {
            if script.is_over() {
                break;
            }
            let [action, part] = script.array();
            match usize::from(part) % (self.parts.len() + 1) {
                at if at == self.parts.len() => change(&mut self.query, action, script),
                at if action >= 0xE0 => self.resize(at, action % 2 == 0, script),
                at => {
                    let (start, len) = self.parts[at];
                    if let Some(bytes) = self.bytes.get_mut(start..start + len) {
                        change(bytes, action, script);
                    }
                }
            }
        }
        before.bytes != self.bytes
    }

    /// Puts some cache lines into a section, or takes them out, and says so in the header.
    fn resize(&mut self, part: usize, grow: bool, script: &mut Script<'_>) {
        let Some(table_at) = part.checked_sub(1) else { return };
        let (start, len) = self.parts[part];
        let at = start + script.below(len / LINE + 1) * LINE;
        let lines = 1 + script.below(15);
        let size = lines * LINE;
        if grow {
            let fill = script.byte();
            let at = at.min(self.bytes.len());
            self.bytes.splice(at..at, std::iter::repeat_n(fill, size));
            self.parts[part].1 += size;
            self.parts.iter_mut().skip(part + 1).for_each(|part| part.0 += size);
        } else if at + size <= start + len {
            self.bytes.drain(at..at + size);
            self.parts[part].1 -= size;
            self.parts.iter_mut().skip(part + 1).for_each(|part| part.0 -= size);
        }
        put(
            &mut self.bytes,
            entry(table_at, LEN_AT),
            &(self.parts[part].1 as u64).to_le_bytes(),
        );
        for (at, (offset, _)) in self.parts.iter().skip(1).enumerate().skip(part) {
            put(&mut self.bytes, entry(at, OFFSET_AT), &(*offset as u64).to_le_bytes());
        }
        let file_len = self.bytes.len() as u64;
        put(&mut self.bytes, FILE_LEN_AT, &file_len.to_le_bytes());
    }

    /// Makes the checksums right, those of sections and then the header's.
    pub fn seal(&mut self) {
        for at in 0..MAX_SECTIONS {
            let (offset, len) = (
                u64_at(&self.bytes, entry(at, OFFSET_AT)),
                u64_at(&self.bytes, entry(at, LEN_AT)),
            );
            let range = offset.checked_add(len).map(|end| offset as usize..end as usize);
            // An unused entry stays empty.
            if let Some(section) = range.filter(|_| offset > 0).and_then(|range| self.bytes.get(range)) {
                let sum = crc32c::crc32c(section);
                put(&mut self.bytes, entry(at, SUM_AT), &sum.to_le_bytes());
            }
        }
        let body = HEADER_LEN - size_of::<u32>();
        let sum = self.bytes.get(..body).map_or(0, crc32c::crc32c);
        put(&mut self.bytes, body, &sum.to_le_bytes());
    }

    /// The question: finite values.
    pub fn query(&self) -> Vec<f32> {
        let values = self
            .query
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| f32::from_le_bytes(*bytes));
        values
            .map(|value| if value.is_finite() { value } else { 0.5 })
            .collect()
    }
}

/// One change somewhere in a part.
fn change(part: &mut [u8], action: u8, script: &mut Script<'_>) {
    let at = script.below(part.len());
    let (at4, at8) = (at / 4 * 4, at / 8 * 8);
    match action % 8 {
        0 => put(part, at, &[script.byte()]),
        1 => {
            let bit = 1 << (script.byte() % 8);
            part.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
        }
        2 => put(part, at4, &(script.edge() as u32).to_le_bytes()),
        3 => put(part, at8, &script.edge().to_le_bytes()),
        4 => put(part, at4, &script.float().to_le_bytes()),
        5 => put(part, at4, &u32::from(script.byte()).to_le_bytes()),
        6 => {
            // The same float from here on: centres, rows and factors that are all alike.
            let (float, count) = (script.float().to_le_bytes(), script.byte());
            (0..usize::from(count)).for_each(|i| put(part, at4 + 4 * i, &float));
        }
        _ => {
            let (from, len) = (script.below(part.len()), usize::from(script.byte()));
            let copied: Vec<u8> = part.iter().skip(from / 4 * 4).take(len).copied().collect();
            put(part, at4, &copied);
        }
    }
}
