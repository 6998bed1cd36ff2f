//! One shard's graph and codes from its vectors: encode, build, repair, lay out, certify. The order of the steps.

use std::sync::atomic::AtomicBool;

use dyad_index::format::RowType;
use dyad_index::quant::Codec;
use dyad_index::search::VectorRows;
use dyad_index::{Arranged, Certificate, Metric};

use super::certify::{self, Watch, certify};
use super::encode::encode;
use super::exam::Exam;
use super::graph::{BuildParams, GraphBuilder, Material};
use super::repair::{self, repair};
use crate::error::Error;
use crate::job::progress::{Progress, Unit};

/// What a shard is made of, and how.
#[derive(Clone, Copy)]
pub struct Make<'a> {
    /// Vectors of finite values; unit vectors for [`Metric::Cosine`].
    pub rows: &'a dyn VectorRows,
    /// How they are compared.
    pub metric: Metric,
    /// Type in which they will be stored: the certificate measures with vectors of this type.
    pub row_type: RowType,
    /// Makes the graph.
    pub builder: &'a dyn GraphBuilder,
    /// Of the graph.
    pub params: &'a BuildParams,
    /// How the result is measured, and what it must reach.
    pub exam: Exam<'a>,
    /// Told of every step.
    pub progress: &'a dyn Progress,
    /// True ends the work with [`Error::Cancelled`].
    pub cancel: &'a AtomicBool,
    /// Number of the shard and of all shards, as in "2/4"; empty where there is one. Follows the names of the steps.
    pub label: &'a str,
}

impl std::fmt::Debug for Make<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Make").field("rows", &self.rows.len()).field("params", self.params).finish_non_exhaustive()
    }
}

/// A shard's graph, codes and certificate.
#[derive(Debug)]
pub struct Made {
    /// Graph and codes by slot.
    pub arranged: Arranged,
    /// What the graph is worth. Every node is reachable.
    pub certificate: Certificate,
}

impl Make<'_> {
    /// Makes them, on the current rayon pool and the builder's own threads.
    pub fn run(&self) -> Result<Made, Error> {
        let arranged = self.arrange()?;
        let searches = certify::searches(self.rows.len(), &self.exam);
        self.step("certificate", Unit::Searches, Some(searches), || self.certify(arranged))
    }

    fn step<T>(&self, name: &str, unit: Unit, total: Option<u64>, work: impl FnOnce() -> T) -> T {
        self.progress.begin(format!("{name} {}", self.label).trim_end(), unit, total);
        let done = work();
        self.progress.finish();
        done
    }

    fn watch(&self) -> Watch<'_> {
        Watch { progress: self.progress, cancel: self.cancel }
    }

    /// Graph and codes without a certificate, and what the repair did.
    fn arrange(&self) -> Result<(Arranged, repair::Repaired), Error> {
        let n = self.rows.len() as u64;
        let codec = Codec::fit(self.rows, self.metric, self.params.seed);
        let codes = self.step("codes", Unit::Documents, Some(n), || encode(self.rows, codec, self.watch()))?;
        let material = Material { rows: self.rows, codes: &codes };
        let graph = self.step("graph", Unit::Documents, Some(n), || {
            self.builder.build(&material, self.params, self.progress, self.cancel)
        })?;
        let repaired = self.step("repair", Unit::Nodes, Some(repair::steps(&graph)), || {
            repair(graph, self.rows, self.metric, self.params, self.watch())
        })?;
        let arranged = Arranged::new(&repaired.graph, &codes)?;
        Ok((arranged, repaired))
    }

    fn certify(&self, (arranged, repaired): (Arranged, repair::Repaired)) -> Result<Made, Error> {
        let rows = certify::Rows { given: self.rows, served_as: self.row_type };
        let certificate = certify(&repaired, &arranged, rows, &self.exam, self.params.seed, self.watch())?;
        if certificate.unreachable > 0 {
            let vectors = self.rows.len() as u64;
            return Err(Error::Unreachable { unreachable: certificate.unreachable, vectors });
        }
        if let Some(floor) = self.exam.floor {
            floor.check(&certificate, if self.label.is_empty() { "1/1" } else { self.label })?;
        }
        Ok(Made { arranged, certificate })
    }
}
