//! The `GraphBuilder` trait, the parameters of a build, and their limits.

use dyad_index::quant::Codes;
use dyad_index::search::VectorRows;
use dyad_index::{BuildRecord, Graph};

use super::initial::InitialGraph;
use crate::control::JobControl;
use crate::error::Error;

/// Parameters of one graph build, after Malkov and Yashunin 2018 (arXiv:1603.09320).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildParams {
    /// Links per node in the upper layers; layer 0 keeps up to twice as many.
    pub m: usize,
    /// Beam width of the search that finds a new node's neighbours.
    pub ef_construction: usize,
    /// Decides the order of insertion (and, in [`crate::graph_build::certify()`], the sampled documents).
    pub seed: u64,
    /// Threads that insert. With 1 the graph is the same on every run.
    pub threads: usize,
}

impl BuildParams {
    /// Smallest and largest `m`: level sampling divides by `ln m`, and the `hnsw_rs` crate ends the process above 256.
    pub const M: std::ops::RangeInclusive<usize> = 2..=256;
    /// Smallest and largest `ef_construction`: every insertion allocates beams of this size.
    pub const EF_CONSTRUCTION: std::ops::RangeInclusive<usize> = 1..=10_000;
    /// Smallest and largest `threads`.
    pub const THREADS: std::ops::RangeInclusive<usize> = 1..=1_024;

    /// Refuses values outside of the limits, naming the parameter.
    pub fn validate(&self) -> Result<(), Error> {
        let limits = [
            ("m", self.m, Self::M),
            ("ef-construction", self.ef_construction, Self::EF_CONSTRUCTION),
            ("threads", self.threads, Self::THREADS),
        ];
        for (name, value, limit) in limits {
            if !limit.contains(&value) {
                return Err(Error::Parameter {
                    name,
                    low: *limit.start(),
                    high: *limit.end(),
                    got: value,
                });
            }
        }
        Ok(())
    }

    /// Whether a graph of this record has as many links, found by as wide a search.
    pub fn agree_with(&self, build: &BuildRecord) -> bool {
        (build.m, build.ef_construction) == (self.m, self.ef_construction)
    }

    /// Links that a node of `layer` may keep: M, and 2M in layer 0.
    pub fn cap(&self, layer: usize) -> usize {
        if layer == 0 { 2 * self.m } else { self.m }
    }
}

/// The input of a build: vectors and their codes, both by node.
#[derive(Clone, Copy)]
pub struct BuildInput<'a> {
    /// Vectors of finite values (see [`crate::graph_build::validate`]).
    pub rows: &'a dyn VectorRows,
    /// Codes of the same rows.
    pub codes: &'a Codes,
    /// A graph over the first rows, from which a builder that can starts.
    pub initial: Option<&'a InitialGraph<'a>>,
}

impl std::fmt::Debug for BuildInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BuildInput")
            .field("rows", &self.rows.len())
            .field("dim", &self.rows.dim())
            .finish_non_exhaustive()
    }
}

/// Builds a layered proximity graph.
pub trait GraphBuilder: Sync {
    /// The builder's name in build records and for `--builder`.
    fn name(&self) -> &'static str;

    /// Whether a build starts from [`BuildInput::initial`]; others build from nothing.
    fn takes_initial(&self) -> bool {
        false
    }

    /// Peak memory of a build of `nodes` rows in bytes, without the rows and their codes. An upper bound.
    fn memory(&self, nodes: u64, dim: usize, params: &BuildParams) -> u64;

    /// Builds a graph of all rows.
    ///
    /// Every node of the result is in layer 0, but not every node need be reachable: [`crate::graph_build::repair()`]
    /// runs afterwards. Advances progress by one per row. Returns [`Error::Cancelled`] soon after it is cancelled.
    fn build(&self, input: &BuildInput<'_>, params: &BuildParams, control: JobControl<'_>) -> Result<Graph, Error>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_other_graphs_do_not_agree() {
        let params = BuildParams {
            m: 16,
            ef_construction: 200,
            seed: 0,
            threads: 1,
        };
        let (builder, tool) = (String::new(), String::new());
        let record = BuildRecord {
            builder,
            m: 16,
            ef_construction: 200,
            seed: 3,
            threads: 2,
            tool,
        };
        assert!(params.agree_with(&record));
        assert!(!params.agree_with(&BuildRecord { m: 8, ..record.clone() }));
        assert!(!params.agree_with(&BuildRecord {
            ef_construction: 100,
            ..record
        }));
    }

    #[test]
    fn parameters_outside_of_the_limits_are_refused_by_name() {
        let good = BuildParams {
            m: 16,
            ef_construction: 200,
            seed: 0,
            threads: 1,
        };
        assert!(good.validate().is_ok());
        let refused = [
            (BuildParams { m: 257, ..good }, "`m` must be between 2 and 256: 257"),
            (BuildParams { m: 1, ..good }, "`m` must be between 2 and 256: 1"),
            (
                BuildParams {
                    ef_construction: 0,
                    ..good
                },
                "`ef-construction` must be between 1 and 10000: 0",
            ),
            (
                BuildParams { threads: 0, ..good },
                "`threads` must be between 1 and 1024: 0",
            ),
        ];
        for (params, message) in refused {
            assert_eq!(params.validate().unwrap_err().to_string(), message);
        }
    }
}
