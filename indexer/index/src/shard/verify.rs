//! Every byte read, every invariant checked.

use super::reader::{DenseShard, check_sum, fault_of};
use crate::format::header::HEADER_LEN;
use crate::format::{Fault, RowType, SectionEntry, SectionKind};
use crate::model::Metric;
use crate::quant::Scratch;

/// Squared lengths of unit vectors may differ from 1 by this much (f32 rounding, and f16 embeddings).
const UNIT_TOLERANCE: f32 = 1e-2;

fn squared(row: &[f32]) -> f32 {
    row.iter().map(|value| value * value).sum()
}

/// Slots whose codes are compared with their vectors.
const CHECKED_CODES: usize = 10_000;

/// What a full check of a shard found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// One line per problem, each naming file and section; empty when sound.
    pub problems: Vec<String>,
    /// Bytes read.
    pub bytes_read: u64,
}

impl DenseShard {
    /// Reads the whole file: checksums of all sections, then what they mean.
    pub fn verify(&self) -> Verified {
        let mut found = Verified::default();
        let mut note = |fault: Fault| found.problems.push(fault_of(self.path(), fault).to_string());
        let mut damaged = Vec::new();
        for entry in &self.header().sections {
            if let Err(fault) = check_sum(self.section_bytes(*entry), *entry) {
                note(fault);
                damaged.push(entry.kind);
            }
        }
        self.check_padding().unwrap_or_else(&mut note);
        // The meaning of damaged bytes is of no interest.
        let sound = |kind| !damaged.contains(&kind);
        if self.certificate().vectors != self.len() as u64 {
            note(Fault::new("CERTIFICATE, vectors", self.len(), self.certificate().vectors));
        }
        if sound(SectionKind::Vectors) {
            self.check_vectors().unwrap_or_else(&mut note);
        }
        if sound(SectionKind::Graph) {
            self.check_graph().unwrap_or_else(&mut note);
        }
        if sound(SectionKind::Vectors) && sound(SectionKind::Codes) && sound(SectionKind::Graph) {
            self.check_codes().unwrap_or_else(&mut note);
        }
        if sound(SectionKind::Keys) {
            self.keys().check().unwrap_or_else(&mut note);
        }
        found.bytes_read = self.header().file_len;
        found
    }

    /// Between the sections there is nothing but zeros.
    fn check_padding(&self) -> Result<(), Fault> {
        let mut end = HEADER_LEN as u64;
        for entry in &self.header().sections {
            let gap = SectionEntry { offset: end, len: entry.offset - end, ..*entry };
            if let Some(at) = self.section_bytes(gap).iter().position(|byte| *byte != 0) {
                let part = format!("padding before {}", entry.kind.name());
                return Err(Fault::new(part, "zeros", format!("another byte at {}", end + at as u64)));
            }
            end = entry.offset + entry.len;
        }
        if end == self.header().file_len {
            return Ok(());
        }
        Err(Fault::new("file_len", end, self.header().file_len))
    }

    fn check_vectors(&self) -> Result<(), Fault> {
        let rows = self.rows();
        let mut row = Vec::new();
        for node in 0..rows.len() as u32 {
            rows.decode(node, &mut row);
            let squared = squared(&row);
            if self.meta().model.metric == Metric::L2 {
                if squared.is_finite() {
                    continue;
                }
                return Err(Fault::new(
                    "VECTORS",
                    "finite vectors",
                    format!("squared length {squared} at node {node}"),
                ));
            }
            // Also false for NaN.
            let is_unit = (squared - 1.0).abs() <= UNIT_TOLERANCE;
            if !is_unit {
                return Err(Fault::new(
                    "VECTORS",
                    "finite unit vectors",
                    format!("squared length {squared} at node {node}"),
                ));
            }
        }
        Ok(())
    }

    /// Codes made again from the vectors of a sample of slots must be the stored ones, up to rounding.
    fn check_codes(&self) -> Result<(), Fault> {
        let (codes, rows, graph) = (self.codes(), self.rows(), self.graph());
        let rounding = match self.header().row_type {
            RowType::F32 => 1e-5,
            RowType::F16 => 1e-3,
        };
        let (mut row, mut scratch) = (Vec::new(), Scratch::default());
        let step = (self.len() / CHECKED_CODES).max(1);
        for slot in (0..self.len() as u32).step_by(step) {
            let Some(&node) = graph.order().get(slot as usize) else { continue };
            rows.decode(node, &mut row);
            if let Some(part) = codes.differ(slot, &row, rounding, &mut scratch) {
                let expected = format!("the codes of the vector of node {node} in slot {slot}");
                return Err(Fault::new("CODES", expected, format!("another {part}")));
            }
        }
        Ok(())
    }

    fn check_graph(&self) -> Result<(), Fault> {
        let mut seen = vec![false; self.len()];
        for node in self.graph().order() {
            match seen.get_mut(*node as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    return Err(Fault::new(
                        "GRAPH",
                        "each node in one slot",
                        format!("node {node} twice, or too large"),
                    ));
                }
            }
        }
        let graph = self.graph().to_graph();
        graph.validate(self.len()).map_err(|problem| Fault::new("GRAPH", "a valid graph", problem))?;
        let unreached = graph.reachable().iter().filter(|reached| !**reached).count();
        if unreached > 0 {
            return Err(Fault::new(
                "GRAPH",
                "every node reachable from the entry point",
                format!("{unreached} unreachable"),
            ));
        }
        Ok(())
    }
}
