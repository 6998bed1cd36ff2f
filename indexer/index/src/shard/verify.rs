//! Every byte read, every invariant checked.

use super::reader::{DenseShard, check_sum, fault_of};
use crate::format::{Fault, SectionKind};
use crate::search::VectorRows as _;

/// Squared lengths of unit vectors may differ from 1 by this much (f32 rounding, and f16 embeddings).
const UNIT_TOLERANCE: f32 = 1e-2;

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
        // The meaning of damaged bytes is of no interest.
        let sound = |kind| !damaged.contains(&kind);
        if sound(SectionKind::Vectors) {
            self.check_vectors().unwrap_or_else(&mut note);
        }
        if sound(SectionKind::Graph) {
            self.check_graph().unwrap_or_else(&mut note);
        }
        if sound(SectionKind::Keys) {
            self.keys().check().unwrap_or_else(&mut note);
        }
        found.bytes_read = self.header().file_len;
        found
    }

    fn check_vectors(&self) -> Result<(), Fault> {
        let rows = self.rows();
        for node in 0..rows.len() as u32 {
            let squared: f32 = rows.row(node).iter().map(|value| value * value).sum();
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

    fn check_graph(&self) -> Result<(), Fault> {
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
