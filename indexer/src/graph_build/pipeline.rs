//! The steps that make one shard's graph and codes from its vectors: encode, build, repair, lay out, certify.

use dyad_index::format::RowType;
use dyad_index::quant::Codec;
use dyad_index::search::VectorRows;
use dyad_index::{Arranged, Certificate, GroundTruth, Metric, VectorGroups};

use super::certify::{self, Certified, certify};
use super::certify_questions::ShardVectors;
use super::copies::{Copies, RowsOf};
use super::encode::encode;
use super::graph::{BuildInput, BuildParams, GraphBuilder};
use super::initial::InitialGraph;
use super::lengths;
use super::recall_gate::RecallGate;
use super::repair::{self, repair};
use crate::control::{JobControl, Unit};
use crate::error::Error;

/// The build of one shard's graph: its input and its parameters.
#[derive(Clone, Copy)]
pub struct GraphBuild<'a> {
    /// Vectors of finite values; unit vectors for [`Metric::Cosine`].
    pub rows: &'a dyn VectorRows,
    /// How they are compared.
    pub metric: Metric,
    /// Type in which they will be stored: the certificate measures with vectors of this type.
    pub row_type: RowType,
    /// The quantiser of the codes; one that is fitted to the rows where absent. See `GraphConfig::codec_of`.
    pub codec: Option<&'a Codec>,
    /// The builder of the graph.
    pub builder: &'a dyn GraphBuilder,
    /// Parameters of the graph.
    pub params: &'a BuildParams,
    /// A graph over the first rows, from which a builder that can starts.
    pub initial: Option<&'a InitialGraph<'a>>,
    /// How the graph is measured, and the recall that it must reach.
    pub gate: RecallGate<'a>,
    /// Progress and cancellation.
    pub control: JobControl<'a>,
    /// Number of the shard and of all shards, as in "2/4"; empty where there is one. Appended to the names of the
    /// steps.
    pub label: &'a str,
}

impl std::fmt::Debug for GraphBuild<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GraphBuild")
            .field("rows", &self.rows.len())
            .field("params", self.params)
            .finish_non_exhaustive()
    }
}

/// A shard's graph, codes and certificate.
#[derive(Debug)]
pub struct BuiltGraph {
    /// Graph and codes by slot.
    pub arranged: Arranged,
    /// The measured quality of the graph, in which every node is reachable.
    pub certificate: Certificate,
    /// What it was measured by.
    pub ground_truth: GroundTruth,
}

impl GraphBuild<'_> {
    /// Builds them, on the current rayon pool and the builder's own threads.
    ///
    /// A graph that started from another and does not reach the gate's recall is built again from nothing.
    pub fn run(&self) -> Result<BuiltGraph, Error> {
        let copies = Copies::find(self.rows)?;
        if let Some(told) = copies.told() {
            self.control.progress.note(&told);
        }
        match self.run_from(self.initial, copies.groups()) {
            Err(Error::BelowTarget { recall, target, ef, .. }) if self.initial.is_some() => {
                self.control.progress.warn(&format!(
                    "recall@10 of {recall:.4} at ef {ef}, with {target} asked for: the graph is built again from nothing"
                ));
                self.run_from(None, copies.groups())
            }
            done => done,
        }
    }

    fn run_from(&self, initial: Option<&InitialGraph<'_>>, groups: Option<&VectorGroups>) -> Result<BuiltGraph, Error> {
        let Some(groups) = groups else {
            let (arranged, repaired) = self.arrange(initial)?;
            return self.certify(arranged, &repaired, None);
        };
        let nodes = groups.representatives();
        let rows = RowsOf::new(self.rows, &nodes);
        // The initial graph is over the first rows.
        let known = initial.map_or(0, |initial| {
            nodes.partition_point(|node| (*node as usize) < initial.len())
        });
        let initial = initial.and_then(|initial| initial.restricted_to(nodes.get(..known)?));
        let (arranged, repaired) = GraphBuild { rows: &rows, ..*self }.arrange(initial.as_ref())?;
        self.certify(arranged.with_copies(groups)?, &repaired, Some(groups))
    }

    fn step<T>(&self, name: &str, unit: Unit, total: Option<u64>, work: impl FnOnce() -> T) -> T {
        self.control
            .progress
            .begin(format!("{name} {}", self.label).trim_end(), unit, total);
        let done = work();
        self.control.progress.finish();
        done
    }

    /// Graph and codes of vectors that all differ, not yet certified, and what the repair did.
    fn arrange(&self, initial: Option<&InitialGraph<'_>>) -> Result<(Arranged, repair::Repaired), Error> {
        let n = self.rows.len() as u64;
        let fitted = || Codec::fit(self.rows, self.metric, self.params.seed);
        let codec = self.codec.cloned().unwrap_or_else(fitted);
        let encode = |codec| {
            self.step("codes", Unit::Documents, Some(n), || {
                encode(self.rows, codec, self.control)
            })
        };
        let (mut codes, metric) = if self.metric == Metric::Dot {
            let evened = || lengths::encode(self.rows, self.params.seed, self.control);
            (
                self.step("codes for the graph", Unit::Documents, Some(n), evened)?,
                Metric::L2,
            )
        } else {
            (encode(codec.clone())?, self.metric)
        };
        let input = BuildInput {
            rows: self.rows,
            codes: &codes,
            initial,
        };
        let graph = self.step("graph", Unit::Documents, Some(n), || {
            self.builder.build(&input, self.params, self.control)
        })?;
        let repaired = self.step("repair", Unit::Nodes, Some(repair::count_steps(&graph)), || {
            repair(graph, self.rows, metric, self.params, self.control)
        })?;
        if self.metric == Metric::Dot {
            drop(codes);
            codes = encode(codec)?;
        }
        let arranged = Arranged::new(&repaired.graph, &codes)?;
        Ok((arranged, repaired))
    }

    /// Measures the graph of the distinct vectors, as it serves all documents.
    fn certify(
        &self,
        arranged: Arranged,
        repaired: &repair::Repaired,
        groups: Option<&VectorGroups>,
    ) -> Result<BuiltGraph, Error> {
        let distinct = groups.map_or(self.rows.len(), VectorGroups::len);
        let rows = ShardVectors {
            given: self.rows,
            served_as: self.row_type,
            groups,
        };
        let Certified {
            certificate,
            ground_truth,
        } = self.step(
            "certificate",
            Unit::Searches,
            Some(certify::count_searches(distinct, &self.gate)),
            || certify(repaired, &arranged, rows, &self.gate, self.params.seed, self.control),
        )?;
        if certificate.unreachable > 0 {
            let vectors = self.rows.len() as u64;
            return Err(Error::Unreachable {
                unreachable: certificate.unreachable,
                vectors,
            });
        }
        self.gate.check(&certificate, self.label)?;
        Ok(BuiltGraph {
            arranged,
            certificate,
            ground_truth,
        })
    }
}
