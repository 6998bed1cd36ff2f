//! Candidates for the links of all nodes: their nearest ones in overlapping leaves (`PiPNN`: arXiv:2602.21247).
//!
//! Leaves are made by randomized ball carving: each node goes to the clusters of its nearest leaders, which are
//! sampled, and each cluster is carved again until it is a leaf. In a leaf, every node is compared with every other.
//!
//! A tenth of the time of a build goes into the leaves (100,000 MiniLM sentences), and a seventh into comparing what
//! each holds.

use dyad_index::search::Scored;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::lists::LinkLists;
use super::row_block::{BestNeighbours, PairScores, RowBlock};
use crate::control::JobControl;
use crate::error::Error;

/// Most nodes of a leaf.
pub(super) const LEAF: usize = 512;
/// Nodes that a cluster is meant to have: sizes vary so much that most clusters are then leaves.
const MEANT: usize = LEAF / 2;
/// Clusters that a node goes to, and so its leaves. With 8, and two in the cluster's own clusters, a build takes an
/// eighth longer, for recall that a wider search of the refinement gives in less time (100,000 MiniLM sentences).
const FANOUT: usize = 6;
/// Most leaders of a cluster: every node of it is compared with each.
const LEADERS: usize = 1_000;
/// Depth below which clusters are cut without looking at distances: nodes that all score the same cannot be carved.
const DEEPEST: usize = 8;
/// Nodes that one task compares with the leaders.
const BLOCK: usize = 256;

/// Nearest nodes of a leaf that each of its nodes takes for candidates.
const LEAF_NEIGHBOURS: usize = 6;

/// Share of rows with as many equal ones, in leaves, from which on leaves are of no use.
const MOST_EQUAL: f64 = 0.01;

/// Scratch memory of a thread.
#[derive(Default)]
struct PartitionScratch {
    block: RowBlock,
    row: Vec<f32>,
    best: Vec<BestNeighbours>,
}

/// Fills empty lists with the best candidates that there is room for, best first: the same for any number of threads.
/// False where too many rows are equal: candidates that are all as near say nothing about what is around them.
pub(super) fn find_candidates(
    scores: &PairScores<'_>,
    lists: &LinkLists,
    seed: u64,
    control: JobControl<'_>,
) -> Result<bool, Error> {
    let leaves = leaves(scores, seed, control)?;
    let compare = |scratch: &mut PartitionScratch, leaf: &Vec<u32>| -> Result<usize, Error> {
        let equal = compare_all(scores, leaf, scratch);
        for (node, best) in leaf.iter().zip(&scratch.best) {
            lists.keep_best(*node, best.found());
        }
        control.check().map(|()| equal)
    };
    let equal = leaves
        .par_iter()
        .map_init(PartitionScratch::default, compare)
        .try_reduce(|| 0, |a, b| Ok(a + b))?;
    let all: usize = leaves.iter().map(Vec::len).sum();
    Ok((equal as f64) < MOST_EQUAL * all as f64)
}

/// Bytes per node of [`find_candidates`]: all nodes, and for each its nearest leaders, its places in clusters and those
/// in leaves.
pub(super) const NODE_BYTES: u64 = 4 + 3 * 4 * FANOUT as u64;

/// Bytes of [`find_candidates`] for any number of nodes: the leaders' rows; each thread's rows, scores and best.
pub(super) fn scratch_memory(dim: usize, threads: usize) -> u64 {
    let row = 2 * dyad_index::quant::row_bytes(dim) as u64 + 12;
    let best = (size_of::<BestNeighbours>() + LEAF_NEIGHBOURS * size_of::<Scored>()) as u64;
    LEADERS as u64 * row + threads as u64 * (LEAF as u64 * (row + best) + 4 * LEADERS as u64)
}

/// The best others of each node of a leaf. Every pair is compared once. Returns the number of nodes whose best are all
/// equal to them.
fn compare_all(scores: &PairScores<'_>, leaf: &[u32], scratch: &mut PartitionScratch) -> usize {
    let PartitionScratch { block, row, best } = scratch;
    scores.gather(leaf, block);
    best.resize(leaf.len().max(best.len()), BestNeighbours::new(LEAF_NEIGHBOURS));
    for (best, node) in best.iter_mut().zip(leaf) {
        best.start(*node);
    }
    let mut equal = 0;
    for (at, node) in leaf.iter().enumerate() {
        scores.score(block, at, block, at, row);
        let Some(((of_node, after), (itself, row))) = best
            .get_mut(at..)
            .and_then(<[BestNeighbours]>::split_first_mut)
            .zip(row.split_first())
        else {
            return equal;
        };
        for ((other, of_other), score) in leaf.iter().skip(at + 1).zip(after).zip(row) {
            of_node.offer(*other, *score);
            of_other.offer(*node, *score);
        }
        equal += usize::from(
            of_node
                .found()
                .get(LEAF_NEIGHBOURS - 1)
                .is_some_and(|last| last.score >= *itself),
        );
    }
    equal
}

/// The leaves of all nodes of `scores`: the same for any number of threads.
fn leaves(scores: &PairScores<'_>, seed: u64, control: JobControl<'_>) -> Result<Vec<Vec<u32>>, Error> {
    let mut leaves = Vec::new();
    carve(
        scores,
        (0..scores.len() as u32).collect(),
        0,
        seed,
        control,
        &mut leaves,
    )?;
    Ok(leaves)
}

fn carve(
    scores: &PairScores<'_>,
    nodes: Vec<u32>,
    depth: usize,
    seed: u64,
    control: JobControl<'_>,
    leaves: &mut Vec<Vec<u32>>,
) -> Result<(), Error> {
    control.check()?;
    if nodes.len() <= LEAF {
        leaves.push(nodes);
        return Ok(());
    }
    if depth == DEEPEST {
        leaves.extend(nodes.chunks(LEAF).map(<[u32]>::to_vec));
        return Ok(());
    }
    let fanout = if depth == 0 { FANOUT } else { 1 };
    let leaders = leaders(
        &nodes,
        (nodes.len() * fanout / MEANT).clamp(2, LEADERS),
        seed ^ depth as u64,
    );
    let mut clusters = vec![Vec::new(); leaders.len()];
    let nearest = nearest(scores, &nodes, &leaders, fanout);
    for (node, nearest) in nodes.iter().zip(nearest.chunks_exact(fanout)) {
        for leader in nearest {
            if let Some(cluster) = clusters.get_mut(*leader as usize) {
                cluster.push(*node);
            }
        }
    }
    // Before its clusters take memory.
    drop((nodes, nearest));
    clusters
        .into_iter()
        .try_for_each(|cluster| carve(scores, cluster, depth + 1, seed, control, leaves))
}

/// `wanted` of the nodes, by a seeded hash.
fn leaders(nodes: &[u32], wanted: usize, seed: u64) -> Vec<u32> {
    let key = |node: &u32| (xxh3_64_with_seed(&node.to_le_bytes(), seed), *node);
    let mut keyed: Vec<(u64, u32)> = nodes.iter().map(key).collect();
    keyed.sort_unstable();
    keyed.into_iter().take(wanted).map(|(_, node)| node).collect()
}

/// Numbers of the `fanout` nearest leaders of each node, one node after another; `u32::MAX` where there are fewer.
fn nearest(scores: &PairScores<'_>, nodes: &[u32], leaders: &[u32], fanout: usize) -> Vec<u32> {
    let mut to = RowBlock::default();
    scores.gather(leaders, &mut to);
    let mut nearest = vec![u32::MAX; nodes.len() * fanout];
    nodes
        .par_chunks(BLOCK)
        .zip(nearest.par_chunks_mut(BLOCK * fanout))
        .for_each_init(
            || (RowBlock::default(), BestNeighbours::new(fanout), Vec::new()),
            |(rows, best, row), (nodes, nearest)| {
                scores.gather(nodes, rows);
                for (at, nearest) in nearest.chunks_exact_mut(fanout).enumerate() {
                    scores.score(rows, at, &to, 0, row);
                    best.start(nodes.get(at).copied().unwrap_or(0));
                    (0..)
                        .zip(row.iter())
                        .for_each(|(leader, score)| best.offer(leader, *score));
                    for (place, leader) in nearest.iter_mut().zip(best.found()) {
                        *place = leader.node;
                    }
                }
            },
        );
    nearest
}

#[cfg(test)]
mod tests {
    use dyad_index::Metric;
    use dyad_index::quant::{Codec, Codes, PreparedQuery};
    use dyad_index::search::VectorRows;

    use super::*;
    use crate::graph_build::native::lists::Members;
    use crate::graph_build::tests::{cancelled, synthetic::Rows};

    fn of(rows: &dyn VectorRows, seed: u64) -> Vec<Vec<u32>> {
        let codes = Codes::encode(rows, Codec::fit(rows, Metric::Cosine, 3));
        leaves(&PairScores::new(&codes), seed, JobControl::silent()).unwrap()
    }

    #[test]
    fn every_node_is_in_a_leaf_and_most_nearest_ones_share_one() {
        let rows = Rows::clustered(6_000, 24, 40, 0.6, 5);
        let leaves = of(&rows, 1);
        assert!(leaves.iter().all(|leaf| leaf.len() <= LEAF));
        let mut of_node = vec![Vec::new(); 6_000];
        for (number, leaf) in leaves.iter().enumerate() {
            for node in leaf {
                of_node[*node as usize].push(number);
            }
        }
        assert!(of_node.iter().all(|leaves| !leaves.is_empty()));
        let shared = (0..100u32).filter(|node| {
            let nearest = dyad_index::search::flat(&rows, rows.row(*node), 2, Metric::Cosine, None);
            let other = nearest.iter().find(|hit| hit.node != *node).unwrap().node;
            of_node[*node as usize]
                .iter()
                .any(|leaf| of_node[other as usize].contains(leaf))
        });
        assert!(shared.count() >= 97);
        assert_eq!(leaves, of(&rows, 1));
        assert_ne!(leaves, of(&rows, 2));
    }

    #[test]
    fn candidates_are_the_nearest_of_the_leaves() {
        let rows = Rows::clustered(500, 24, 9, 0.6, 5);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::L2, 3));
        // One leaf.
        let lists = LinkLists::new(Members::All, 500, 4);
        assert!(find_candidates(&PairScores::new(&codes), &lists, 1, JobControl::silent()).unwrap());
        let (view, mut prepared) = (codes.view(), PreparedQuery::default());
        for node in 0..500u32 {
            view.prepare_exact(node, &mut prepared);
            let others = (0..500).filter(|other| *other != node);
            let mut expected: Vec<f32> = others.map(|other| view.score(&prepared, other)).collect();
            expected.sort_unstable_by(|a, b| b.total_cmp(a));
            let found = lists.links(node);
            assert_eq!(found.len(), 4);
            for (link, expected) in found.iter().zip(expected) {
                assert!(
                    (link.score - expected).abs() < 1e-5 && link.node != node,
                    "{node}: {link:?}, {expected}"
                );
            }
        }
    }

    #[test]
    fn equal_rows_end_in_leaves_as_well() {
        struct Equal(Vec<f32>);
        impl VectorRows for Equal {
            fn dim(&self) -> usize {
                8
            }
            fn len(&self) -> usize {
                3_000
            }
            fn row(&self, _: u32) -> &[f32] {
                &self.0
            }
        }
        let rows = Equal(vec![0.5; 8]);
        let leaves = of(&rows, 1);
        let mut nodes: Vec<u32> = leaves.iter().flatten().copied().collect();
        assert!(leaves.iter().all(|leaf| leaf.len() <= LEAF));
        nodes.sort_unstable();
        nodes.dedup();
        assert_eq!(nodes.len(), 3_000);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::Cosine, 3));
        let lists = LinkLists::new(Members::All, 3_000, 48);
        assert!(!find_candidates(&PairScores::new(&codes), &lists, 1, JobControl::silent()).unwrap());
    }

    #[test]
    fn carving_can_be_cancelled() {
        let rows = Rows::clustered(600, 8, 2, 0.5, 1);
        let codes = Codes::encode(&rows, Codec::fit(&rows, Metric::L2, 3));
        let control = JobControl {
            cancel: &cancelled(),
            ..JobControl::silent()
        };
        assert!(matches!(
            leaves(&PairScores::new(&codes), 1, control),
            Err(Error::Cancelled)
        ));
    }
}
