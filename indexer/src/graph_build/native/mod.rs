//! Our own builder: HNSW insertion (Malkov and Yashunin 2018) by codes instead of vectors, layer by layer.
//!
//! | file | contents |
//! |---|---|
//! | `layer.rs` | the links of all members of one layer, by many threads |
//! | `partition.rs` | candidates for the links of layer 0, from overlapping leaves |
//! | `row_block.rs` | scores of one row with many |
//! | `lists.rs` | the growing neighbour lists of a layer |
//! | `diverse.rs` | which links a node keeps |
//!
//! What differs from the textbook, and why:
//!
//! * Distances are those of int8 codes, and most candidates are dismissed by their sketches: a sixth of the memory
//!   traffic of f32 vectors, which is what bounds insertion.
//! * Layers are built from the highest down, each complete before the next begins, so that every search of a layer
//!   starts from a finished one above.
//! * Layer 0 of 16,384 nodes or more is not built by insertion, unless it starts from a graph or has many equal rows.
//!   Its nodes are linked with their nearest ones in overlapping leaves of 512, where comparing all pairs costs little
//!   (`PiPNN`: arXiv:2602.21247); then each searches that graph from its own place, with 5/8 of the beam of an
//!   insertion, and is linked with what it finds (with 3/8 of it, of 100,000 MiniLM sentences, that took under half of
//!   the time of insertions).
//! * Each thread inserts several nodes at once; their searches are interleaved, as those for a batch of questions are.
//! * A build may start from the graph of an existing shard ([`super::initial`]): only what that does not hold is
//!   inserted.
//! * Lists have capacity for half as many links again, and are pruned to their cap when they are full: pruning at every
//!   link would cost as much as the search. At the end every list is pruned to its cap.

mod diverse;
mod layer;
mod lists;
mod partition;
mod row_block;

use dyad_index::{Graph, GraphLayer};

use self::layer::{LayerBuild, LayersAbove};
use self::row_block::PairScores;
use super::graph::{BuildInput, BuildParams, GraphBuilder};
use super::initial::InitialGraph;
use super::order;
use crate::control::JobControl;
use crate::error::Error;

/// The native builder.
#[derive(Debug, Clone, Copy, Default)]
pub struct Native;

impl GraphBuilder for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn memory(&self, nodes: u64, dim: usize, params: &BuildParams) -> u64 {
        memory(nodes, dim, params)
    }

    fn takes_initial(&self) -> bool {
        true
    }

    fn build(&self, input: &BuildInput<'_>, params: &BuildParams, control: JobControl<'_>) -> Result<Graph, Error> {
        params.validate()?;
        let n = input.codes.view().len();
        if n == 0 {
            return Err(Error::NoVectors);
        }
        if let Some(initial) = input.initial.filter(|initial| initial.len() > n) {
            let (what, expected) = (
                "rows of a build that starts from a graph",
                format!("at least {}", initial.len()),
            );
            return Err(dyad_index::Error::Mismatch {
                what,
                expected,
                got: n.to_string(),
            }
            .into());
        }
        let limit = dyad_index::search::MAX_SLOTS - 1;
        if n > limit {
            return Err(Error::TooManyVectors { limit, got: n });
        }
        let threads = params.threads;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|source| Error::Threads { threads, source })?;
        pool.install(|| build(input, params, control))
    }
}

fn build(input: &BuildInput<'_>, params: &BuildParams, control: JobControl<'_>) -> Result<Graph, Error> {
    let n = input.codes.view().len();
    let (known, initial_top) = input.initial.map_or((0, 0), |initial| (initial.len(), initial.top()));
    let levels = levels(n, params, input.initial.map_or(0, InitialGraph::hash));
    let level = |node: u32| levels.get(node as usize).copied().unwrap_or(0);
    // Members of higher layers first; the order among equals is seeded.
    let mut order = order::shuffle_numbers(n.saturating_sub(known), params.seed);
    for node in &mut order {
        *node += known as u32;
    }
    order.sort_by_key(|node| std::cmp::Reverse(level(*node)));
    let first = order.first().copied();
    let top = first.map_or(initial_top, |node| level(node).max(initial_top));
    let entry = match (input.initial, first) {
        (Some(initial), _) if top == initial_top => initial.entry(),
        (_, first) => first.unwrap_or(0),
    };
    let mut layers: Vec<GraphLayer> = Vec::with_capacity(usize::from(top) + 1);
    let pairs = PairScores::new(input.codes);
    for number in (0..=top).rev() {
        let above = order.partition_point(|node| level(*node) > number);
        let count = order.partition_point(|node| level(*node) >= number);
        let initial = input.initial.filter(|initial| number <= initial.top());
        let upper = LayersAbove { layers: &layers, entry };
        let layer = LayerBuild {
            codes: input.codes.view(),
            pairs,
            initial,
            upper,
            number: usize::from(number),
            params,
            control,
        };
        layers.push(layer.build(order.get(..count).unwrap_or(&[]), above)?);
    }
    layers.reverse();
    Ok(Graph { entry, layers })
}

/// Bytes at the peak, which is where the finished lists of layer 0 are pruned to their caps, or with few links where
/// they get their candidates.
fn memory(nodes: u64, dim: usize, params: &BuildParams) -> u64 {
    let (m, ef) = (params.m as u64, params.ef_construction as u64);
    // Order, number and level of each node, and the keys that the order is sorted by.
    let order = 4 + 4 + 1 + 16;
    // Slot, node, level and number of each node of an initial graph.
    let initial = 4 + 4 + 1 + 4;
    // Target and score of each link of the list's capacity, and the lock.
    let growing = |cap: u64| (cap + cap / 2) * 8 + 8;
    // The pruned list, an allocation of its own; then the layer: links, offset, number.
    let pruned = |cap: u64| 24 + 16 + cap * 4 + cap * 4 + 8 + 4;
    // The share of nodes above layer 0 is 1 / M, above layer 1 1 / M^2 and so on.
    let upper = (growing(m) + pruned(m)) / m.saturating_sub(1).max(1);
    let node = order + initial + growing(2 * m) + pruned(2 * m).max(partition::NODE_BYTES) + upper;
    // Each search: a question's codes and planes, candidates, hits, a bit for each node, whose words are listed as
    // well.
    let search = 8 * dim as u64 + 64 * ef + nodes / 8 + nodes / 16;
    let leaves = partition::scratch_memory(dim, params.threads);
    nodes
        .saturating_mul(node)
        .saturating_add(leaves)
        .saturating_add(search.saturating_mul((layer::INTERLEAVED * params.threads) as u64))
}

/// Highest layer of each node: geometric with mean 1 / ln M, from a seeded hash of the node's number. `salt` is another
/// one for each initial graph: what is added to a shard of constant size would have the same numbers, and so levels,
/// each time.
fn levels(n: usize, params: &BuildParams, salt: u64) -> Vec<u8> {
    let scale = 1.0 / (params.m as f64).ln();
    let level = |node: u32| {
        let hash = xxhash_rust::xxh3::xxh3_64_with_seed(&node.to_le_bytes(), params.seed ^ salt ^ 0x001E_7E15);
        let uniform = ((hash >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        (-uniform.ln() * scale).min(f64::from(MAX_LEVEL)) as u8
    };
    (0..n as u32).map(level).collect()
}

/// More layers than 2^30 nodes fill with M = 2.
const MAX_LEVEL: u8 = 40;
