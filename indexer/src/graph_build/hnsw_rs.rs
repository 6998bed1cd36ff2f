//! The `hnsw_rs` crate as a graph builder, over vectors or over their int8 codes. The only file that names the crate;
//! it is never asked to search, dump or load.
//!
//! Traps of version 0.3.5, read in its source, and what is done about each:
//!
//! | trap | here |
//! |---|---|
//! | `new` ends the process above M = 256; M = 1 divides by ln 1 | [`BuildParams::validate`] comes first |
//! | `ef_construction` 0 unwraps an empty heap | same |
//! | distances below 0 fail an assertion, NaN panics while sorting | `max(0, 1 - score)`, and `f32::max` turns NaN into 0; rows are validated before. [`Metric::Dot`] and [`Metric::L2`] are refused |
//! | it copies every vector | it is given node numbers for points, and its distance looks the rows up |
//! | two first points inserted at once are both taken for the entry point and stay unlinked | one thread inserts the first 1,024 |
//! | levels come from a generator with a fixed seed | the order of insertion is what our seed decides |
//! | its entry point is private | freezing takes a node of the highest layer |
//! | a reverse link evicts the farthest link of a full list, so that nodes lose their last incoming link | freezing makes links symmetric again, repair links what is left |
//! | parallel insertion depends on timing | with `threads` = 1 one thread inserts, in order |
//! | `modify_level_scale` and `dump_layer_info` print, loaders exit | never called |

use std::sync::Arc;

use ::hnsw_rs::hnsw::{Hnsw, Point};
use ::hnsw_rs::prelude::Distance;
use dyad_index::search::VectorRows;
use dyad_index::{Graph, Metric, kernels};
use rayon::prelude::*;

use super::code_scores::CodeScores;
use super::freeze::{self, Link, NeighbourLists};
use super::graph::{BuildInput, BuildParams, GraphBuilder};
use super::order;
use crate::control::JobControl;
use crate::error::Error;

/// Layers that the crate can hold (its `NB_LAYER_MAX`).
const MAX_LAYERS: usize = 16;
/// Points that one thread inserts before others join: parallel insertion into a tiny graph makes orphans.
const SERIAL_START: usize = 1_024;
/// Points between two checks for cancellation by the thread that distributes the work.
const CHUNK: usize = 4_096;
/// The crate numbers points with `i32`.
const MAX_POINTS: usize = i32::MAX as usize;
/// Bytes that the crate and freezing hold per node in addition to links: the point, its lock, sixteen vectors of lists,
/// room in them. With links this is 5 % (`m` 32) to 50 % (`m` 16) above what was usually measured (peak resident memory
/// less mapped rows, `/usr/bin/time`): 2.4, 2.6 and 5.5 KB per node with `m` 8, 16 and 32. Some builds take more, for a
/// reason that is not known: three of 20,000 nodes with `m` 16 took up to 2,030 bytes per node without links, and one
/// of some twenty on a busy machine 2,210.
const NODE_BYTES: u64 = 2_600;
/// Bytes of one link: a counted allocation and the pointer to it.
const LINK_BYTES: u64 = 56;

/// Builds with `hnsw_rs`, by inner products of the vectors.
#[derive(Debug, Clone, Copy, Default)]
pub struct HnswRsBuilder;

/// Builds with `hnsw_rs`, by scores of int8 codes.
#[derive(Debug, Clone, Copy, Default)]
pub struct HnswRsInt8;

/// Cosine distance of two nodes; the crate's "vectors" are one node number each.
pub(super) struct NodeDistance<'a>(Box<dyn Fn(u32, u32) -> f32 + Send + Sync + 'a>);

impl<'a> NodeDistance<'a> {
    /// Inner products of vectors.
    pub(super) fn of_rows(rows: &'a dyn VectorRows) -> Self {
        let dot = kernels::kernels().dot;
        Self(Box::new(move |left, right| dot(rows.row(left), rows.row(right))))
    }

    fn of_codes(scores: &'a CodeScores<'a>) -> Self {
        Self(Box::new(|left, right| scores.score(left, right)))
    }
}

impl Distance<u32> for NodeDistance<'_> {
    fn eval(&self, left: &[u32], right: &[u32]) -> f32 {
        match (left, right) {
            (&[left], &[right]) => (1.0 - (self.0)(left, right)).max(0.0),
            _ => f32::MAX,
        }
    }
}

impl GraphBuilder for HnswRsBuilder {
    fn name(&self) -> &'static str {
        "hnsw_rs"
    }

    fn memory(&self, nodes: u64, _dim: usize, params: &BuildParams) -> u64 {
        crate_memory(nodes, params)
    }

    fn build(&self, input: &BuildInput<'_>, params: &BuildParams, control: JobControl<'_>) -> Result<Graph, Error> {
        build(self.name(), input, params, control, || {
            NodeDistance::of_rows(input.rows)
        })
    }
}

impl GraphBuilder for HnswRsInt8 {
    fn name(&self) -> &'static str {
        "hnsw_rs-int8"
    }

    fn memory(&self, nodes: u64, dim: usize, params: &BuildParams) -> u64 {
        crate_memory(nodes, params).saturating_add(nodes.saturating_mul(CodeScores::node_bytes(dim)))
    }

    fn build(&self, input: &BuildInput<'_>, params: &BuildParams, control: JobControl<'_>) -> Result<Graph, Error> {
        let scores = CodeScores::new(input.codes);
        build(self.name(), input, params, control, || NodeDistance::of_codes(&scores))
    }
}

/// Bytes that the crate and freezing hold at their peak.
fn crate_memory(nodes: u64, params: &BuildParams) -> u64 {
    nodes.saturating_mul(NODE_BYTES + 2 * params.m as u64 * LINK_BYTES)
}

fn build<'a>(
    builder: &'static str,
    input: &BuildInput<'a>,
    params: &BuildParams,
    control: JobControl<'_>,
    distance: impl FnOnce() -> NodeDistance<'a> + Send,
) -> Result<Graph, Error> {
    params.validate()?;
    let rows = input.rows;
    if rows.is_empty() {
        return Err(Error::NoVectors);
    }
    if rows.len() > MAX_POINTS {
        return Err(Error::TooManyVectors {
            limit: MAX_POINTS,
            got: rows.len(),
        });
    }
    if input.codes.codec.metric() != Metric::Cosine {
        return Err(Error::BuilderMetric { builder });
    }
    let threads = params.threads;
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|source| Error::Threads { threads, source })?;
    pool.install(|| {
        // Dropped before freezing: the crate's graph is the largest thing in memory.
        let lists = {
            let graph = insert_all(rows.len(), distance(), params, control)?;
            export(&graph, rows.len())
        };
        Ok(freeze::freeze(&lists, rows, params))
    })
}

/// The crate's graph of all rows. Also what tests compare the frozen graph with.
pub(super) fn insert_all<'a>(
    n: usize,
    distance: NodeDistance<'a>,
    params: &BuildParams,
    control: JobControl<'_>,
) -> Result<Hnsw<'a, u32, NodeDistance<'a>>, Error> {
    let order = order::shuffle_numbers(n, params.seed);
    let graph = Hnsw::new(params.m, n, MAX_LAYERS, params.ef_construction, distance);
    let insert = |node: &u32| {
        if !control.cancel.is_cancelled() {
            graph.insert((&[*node], *node as usize));
            control.progress.advance(1);
        }
    };
    let serial = if params.threads == 1 {
        order.len()
    } else {
        SERIAL_START.min(order.len())
    };
    let (first, rest) = order.split_at(serial);
    first.iter().for_each(insert);
    for chunk in rest.chunks(CHUNK) {
        chunk.par_iter().for_each(insert);
    }
    control.check().map(|()| graph)
}

/// The crate's lists, by node.
pub(super) fn export(graph: &Hnsw<'_, u32, NodeDistance<'_>>, n: usize) -> NeighbourLists {
    let points = graph.get_point_indexation();
    let top = usize::from(points.get_max_level_observed());
    let points: Vec<Arc<Point<'_, u32>>> = (0..=top).flat_map(|layer| points.get_layer_iterator(layer)).collect();
    let exported: Vec<(usize, u8, Vec<Link>)> = points
        .par_iter()
        .map(|point| {
            let mut links = Vec::new();
            for (layer, list) in (0u8..).zip(point.get_neighborhood_id()) {
                links.extend(list.iter().map(|link| Link {
                    layer,
                    target: link.d_id as u32,
                }));
            }
            (point.get_origin_id(), point.get_point_id().0, links)
        })
        .collect();
    let mut lists = NeighbourLists {
        levels: vec![0; n],
        links: vec![Vec::new(); n],
    };
    for (node, level, links) in exported {
        lists.levels[node] = level;
        lists.links[node] = links;
    }
    lists
}
