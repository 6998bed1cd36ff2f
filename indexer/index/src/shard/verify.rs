//! Verification of a shard: reads every byte, and checks every invariant.
//!
//! Checksums are of bytes that `read` gives, so that a file which was shortened, or a disk that fails, is an error here
//! and not the end of the process. The content is checked in the map, after the file's length has been compared again;
//! a file that is shortened during that time still ends the process.

use std::io;

use fs_err::os::unix::fs::FileExt as _;

use super::reader::{DenseShard, fault_of};
use crate::format::header::HEADER_LEN;
use crate::format::{FormatFault, RowType, SectionEntry, SectionKind};
use crate::model::Metric;
use crate::quant::CheckScratch;
use crate::search::NodeSet;
use dyad_files::Cancel;

/// Squared lengths of unit vectors may differ from 1 by this much (f32 rounding, and f16 embeddings).
const UNIT_TOLERANCE: f32 = 1e-2;
/// Bytes read at a time, and between two checks for cancellation.
const READ: usize = 1 << 20;
/// Vectors checked between two checks for cancellation.
const BETWEEN_CHECKS: u32 = 1 << 12;

fn squared(row: &[f32]) -> f32 {
    row.iter().map(|value| value * value).sum()
}

/// Slots whose codes are compared with their vectors.
const CHECKED_CODES: usize = 10_000;

/// What a full check of a shard found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// One line per problem, each naming file and section; empty for a valid shard.
    pub problems: Vec<String>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Whether the check was cancelled: there may be more problems.
    pub stopped: bool,
}

/// Why a check ended early.
enum End {
    Fault(FormatFault),
    /// The file cannot be read, or is not what was opened: nothing more is checked.
    Read(crate::error::Error),
    Stopped,
}

impl From<FormatFault> for End {
    fn from(fault: FormatFault) -> Self {
        Self::Fault(fault)
    }
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Read(error.into())
    }
}

fn look(cancel: &dyn Cancel) -> Result<(), End> {
    if cancel.is_cancelled() {
        Err(End::Stopped)
    } else {
        Ok(())
    }
}

impl DenseShard {
    /// Reads the whole file: checksums of all sections, then what they mean. A cancelled
    /// check returns what it has found so far.
    pub fn verify(&self, cancel: &dyn Cancel) -> Verified {
        let mut found = Verified {
            bytes_read: self.header().file_len,
            ..Verified::default()
        };
        let mut damaged = Vec::new();
        let whole = self.check_all(cancel, &mut damaged, &mut found.problems);
        match whole {
            Ok(()) => {}
            Err(End::Stopped) => found.stopped = true,
            Err(End::Fault(fault)) => found.problems.push(fault_of(self.path(), fault).to_string()),
            Err(End::Read(error)) => found.problems.push(error.to_string()),
        }
        found
    }

    /// Reads every section and compares its checksum, where [`Self::verify`] checks their content too. Faults are
    /// recorded as [`Self::damage`]. False where `cancel`, which is polled before every MiB, ended the work. An error
    /// says that the file cannot be read, and nothing of what it holds.
    pub fn check_sums(&self, cancel: &dyn Cancel) -> crate::error::Result<bool> {
        for entry in &self.header().sections {
            match check_sum(self.file(), *entry, cancel) {
                Ok(()) => {}
                Err(End::Fault(fault)) => self.note_damage(fault),
                Err(End::Read(error)) => return Err(error),
                Err(End::Stopped) => return Ok(false),
            }
        }
        Ok(true)
    }

    fn check_all(
        &self,
        cancel: &dyn Cancel,
        damaged: &mut Vec<SectionKind>,
        problems: &mut Vec<String>,
    ) -> Result<(), End> {
        // After a fault of one part the others are still checked; only a read error ends the check.
        let mut note = |checked: Result<(), End>| match checked {
            Err(End::Fault(fault)) => {
                problems.push(fault_of(self.path(), fault).to_string());
                Ok(false)
            }
            Err(end) => Err(end),
            Ok(()) => Ok(true),
        };
        self.check_length()?;
        for entry in &self.header().sections {
            if !note(check_sum(self.file(), *entry, cancel))? {
                damaged.push(entry.kind);
            }
        }
        note(self.check_padding(cancel))?;
        self.check_length()?;
        // The content of damaged sections is not checked.
        let intact = |kind| !damaged.contains(&kind);
        if self.certificate().vectors != self.len() as u64 {
            note(Err(FormatFault::new(
                "CERTIFICATE, vectors",
                self.len(),
                self.certificate().vectors,
            )
            .into()))?;
        }
        let are_rows_intact = match self.header().row_type {
            RowType::F32 | RowType::F16 => intact(SectionKind::Vectors),
            RowType::Int8 => [SectionKind::Vectors, SectionKind::Codes, SectionKind::Graph]
                .into_iter()
                .all(intact),
        };
        if are_rows_intact {
            note(self.check_vectors(cancel))?;
        }
        if intact(SectionKind::Graph) {
            note(self.check_graph(cancel))?;
        }
        if intact(SectionKind::Vectors) && intact(SectionKind::Codes) && intact(SectionKind::Graph) {
            look(cancel)?;
            note(self.check_codes().map_err(End::from))?;
        }
        if intact(SectionKind::Keys) {
            look(cancel)?;
            note(self.keys().check().map_err(End::from))?;
        }
        Ok(())
    }

    /// The file is as long as when it was mapped.
    fn check_length(&self) -> Result<(), End> {
        let (expected, got) = (self.header().file_len, self.file().metadata()?.len());
        if got == expected {
            return Ok(());
        }
        let fault = FormatFault::new("length", format!("{expected} bytes"), format!("{got} bytes"));
        Err(End::Read(fault_of(self.path(), fault)))
    }

    /// Between the sections there is nothing but zeros.
    fn check_padding(&self, cancel: &dyn Cancel) -> Result<(), End> {
        let mut end = HEADER_LEN as u64;
        for entry in &self.header().sections {
            let mut at = end;
            read_range(
                self.file(),
                SectionEntry {
                    offset: end,
                    len: entry.offset - end,
                    ..*entry
                },
                cancel,
                |bytes| {
                    if let Some(place) = bytes.iter().position(|byte| *byte != 0) {
                        let part = format!("padding before {}", entry.kind.name());
                        return Err(FormatFault::new(
                            part,
                            "zeros",
                            format!("another byte at {}", at + place as u64),
                        ));
                    }
                    at += bytes.len() as u64;
                    Ok(())
                },
            )?;
            end = entry.offset + entry.len;
        }
        if end == self.header().file_len {
            return Ok(());
        }
        Err(FormatFault::new("file_len", end, self.header().file_len).into())
    }

    fn check_vectors(&self, cancel: &dyn Cancel) -> Result<(), End> {
        let (rows, order) = (self.rows(), self.graph());
        let mut row = Vec::new();
        let tolerance = UNIT_TOLERANCE.max(5.0 * self.header().row_type.rounding());
        for node in 0..rows.len() as u32 {
            if node.is_multiple_of(BETWEEN_CHECKS) {
                look(cancel)?;
            }
            if let Some(slot) = rows.slot(node)
                && order.order().get(slot as usize) != Some(&node)
            {
                let expected = format!("the slot of node {node}");
                return Err(FormatFault::new("VECTORS", expected, slot).into());
            }
            rows.decode(node, &mut row);
            let squared = squared(&row);
            if self.meta().model.metric != Metric::Cosine {
                if squared.is_finite() {
                    continue;
                }
                let got = format!("squared length {squared} at node {node}");
                return Err(FormatFault::new("VECTORS", "finite vectors", got).into());
            }
            // Also false for NaN.
            let is_unit = (squared - 1.0).abs() <= tolerance;
            if !is_unit {
                let got = format!("squared length {squared} at node {node}");
                return Err(FormatFault::new("VECTORS", "finite unit vectors", got).into());
            }
        }
        Ok(())
    }

    /// Codes recomputed from the vectors of a sample of slots must be the stored ones, up to rounding.
    fn check_codes(&self) -> Result<(), FormatFault> {
        let (codes, rows, graph) = (self.codes(), self.rows(), self.graph());
        let rounding = self.header().row_type.rounding();
        let (mut row, mut scratch) = (Vec::new(), CheckScratch::default());
        let step = (self.len() / CHECKED_CODES).max(1);
        for slot in (0..self.len() as u32).step_by(step) {
            let Some(&node) = graph.order().get(slot as usize) else {
                continue;
            };
            rows.decode(node, &mut row);
            if let Some(part) = codes.differ(slot, &row, rounding, &mut scratch) {
                let expected = format!("the codes of the vector of node {node} in slot {slot}");
                return Err(FormatFault::new("CODES", expected, format!("another {part}")));
            }
        }
        Ok(())
    }

    /// Checked in the map, so that a large graph is not copied into a process that serves it.
    fn check_graph(&self, cancel: &dyn Cancel) -> Result<(), End> {
        let graph = self.graph();
        if let Some(node) = NodeSet::first_repeated(self.len(), graph.order()) {
            let got = format!("node {node} twice, or too large");
            return Err(FormatFault::new("GRAPH", "each node in one slot", got).into());
        }
        match graph.validate(cancel) {
            Ok(true) => {}
            Ok(false) => return Err(End::Stopped),
            Err(problem) => return Err(FormatFault::new("GRAPH", "a valid graph", problem).into()),
        }
        match graph.unreached(cancel) {
            Some(0) => Ok(()),
            Some(unreached) => {
                let expected = "every node reachable from the entry point";
                Err(FormatFault::new("GRAPH", expected, format!("{unreached} unreachable")).into())
            }
            None => Err(End::Stopped),
        }
    }
}

/// Passes the bytes of a section to `take` in blocks, as `read` returns them.
fn read_range(
    file: &fs_err::File,
    entry: SectionEntry,
    cancel: &dyn Cancel,
    mut take: impl FnMut(&[u8]) -> Result<(), FormatFault>,
) -> Result<(), End> {
    let mut buffer = vec![0; READ.min(entry.len as usize)];
    let mut left = entry.len;
    while left > 0 {
        look(cancel)?;
        let some = buffer.get_mut(..READ.min(left as usize)).unwrap_or_default();
        file.read_exact_at(some, entry.offset + entry.len - left)?;
        take(some)?;
        left -= some.len() as u64;
    }
    Ok(())
}

fn check_sum(file: &fs_err::File, entry: SectionEntry, cancel: &dyn Cancel) -> Result<(), End> {
    let mut got = 0;
    read_range(file, entry, cancel, |bytes| {
        got = crc32c::crc32c_append(got, bytes);
        Ok(())
    })?;
    if got == entry.crc32c {
        return Ok(());
    }
    Err(FormatFault::new(
        entry.kind.name(),
        format!("checksum {:08x}", entry.crc32c),
        format!("{got:08x}"),
    )
    .into())
}
