//! Insertion of all members of one layer, by many threads, several nodes at a time on each.

use std::sync::atomic::{AtomicUsize, Ordering};

use dyad_index::GraphLayer;
use dyad_index::quant::{CodesView, PreparedQuery};
use dyad_index::search::{NeighbourSearch, Scored, SearchScratch};
use rayon::prelude::*;

use super::diverse::select_diverse;
use super::lists::{LinkLists, Members};
use super::partition::{LEAF, find_candidates};
use super::row_block::{PairScores, hash_preference};
use crate::control::JobControl;
use crate::error::Error;
use crate::graph_build::graph::BuildParams;
use crate::graph_build::initial::InitialGraph;

/// Nodes whose insertions are interleaved on one thread.
pub(super) const INTERLEAVED: usize = 8;
/// Nodes that one thread inserts one by one before others join: parallel insertion into a tiny graph leaves orphans.
const SERIAL_START: usize = 1_024;
/// Nodes from which on layer 0 is built from leaves: fewer are inserted in seconds, and the more there are, the farther
/// insertion has to search.
const PARTITIONED: usize = 32 * LEAF;
/// Eighths of the beam of an insertion with which each node searches the graph of the leaves. With `ef_construction`
/// 200, 50,000 sentences by an ADE tower (questions by its other tower, beams of 64; in brackets 100,000 MiniLM
/// sentences) and the time of the whole build:
///
/// | eighths | links per node | recall@10 | recall@10 of a margin of .07 | time of such a search | build, CPU seconds |
/// |---|---|---|---|---|---|
/// | 3 | 17.6 (22.3) | .9793 (.9797) | .9810 (.9769) | 1 (1) | 8.1 (16.7) |
/// | 4 | 19.5 (24.2) | .9834 (.9824) | .9855 (.9797) | 1.01 (1.00) | 9.2 (19.7) |
/// | 5 | 21.0 | .9861 | .9872 | 1.03 | 9.9 |
/// | 6 | 22.2 (26.5) | .9881 (.9837) | .9883 (.9826) | 1.03 (1.01) | 10.6 (24.1) |
/// | 8 | 24.1 | .9894 | .9898 | 1.06 | 12.6 |
///
/// One graph each; times are minima of three passes next to other programs, and differ by a few hundredths for that
/// alone. 5 was not measured on MiniLM. hnswlib has 21.2 links per node there (ADE), and a recall of .984.
const SEARCHED: usize = 5;
/// Nodes between two checks for cancellation.
const BLOCK: usize = 1_024;

/// The finished layers above the one being built, highest first, and the entry point.
#[derive(Clone, Copy)]
pub(super) struct LayersAbove<'a> {
    pub(super) layers: &'a [GraphLayer],
    pub(super) entry: u32,
}

impl LayersAbove<'_> {
    /// Greedy descent: the member of the layer above that is nearest to the prepared row.
    fn start(&self, codes: &CodesView<'_>, prepared: &PreparedQuery) -> u32 {
        let mut current = self.entry;
        let mut best = codes.score(prepared, current);
        for layer in self.layers {
            loop {
                let before = current;
                for node in layer.neighbours(before) {
                    let score = codes.score(prepared, *node);
                    if score > best {
                        (best, current) = (score, *node);
                    }
                }
                if current == before {
                    break;
                }
            }
        }
        current
    }
}

/// The build of one layer.
pub(super) struct LayerBuild<'a> {
    pub(super) codes: CodesView<'a>,
    pub(super) pairs: PairScores<'a>,
    /// The graph that the layer starts from, where that has a node on it.
    pub(super) initial: Option<&'a InitialGraph<'a>>,
    pub(super) upper: LayersAbove<'a>,
    /// Number of the layer.
    pub(super) number: usize,
    pub(super) params: &'a BuildParams,
    pub(super) control: JobControl<'a>,
}

/// Scratch memory of a thread, reused by the next insertion.
#[derive(Default)]
struct InsertScratch {
    search: SearchScratch,
    prepared: PreparedQuery,
    found: Vec<(u32, Vec<Scored>)>,
}

impl LayerBuild<'_> {
    /// Builds the layer of the initial graph's members and of `new`, of which the first `above` are members of the
    /// layer above too.
    pub(super) fn build(&self, new: &[u32], above: usize) -> Result<GraphLayer, Error> {
        let cap = self.params.cap(self.number);
        let known = self
            .initial
            .map_or_else(Vec::new, |initial| initial.members(self.number));
        let mut nodes = [known.as_slice(), new].concat();
        nodes.sort_unstable();
        let places = if self.number == 0 {
            Members::All
        } else {
            Members::Some(nodes.clone())
        };
        // Capacity for half as many links again: see the header of `native`.
        let lists = LinkLists::new(places, nodes.len(), cap + cap / 2);
        self.adopt(&known, &lists)?;
        // Nodes of the layer above find themselves there. They start at their best neighbour on it that has links here,
        // or else at the entry point.
        let (count, entry) = self
            .initial
            .map_or((0, self.upper.entry), |initial| (initial.len(), initial.entry()));
        let above_of = |node: u32| self.upper.layers.last().map_or(&[][..], |layer| layer.neighbours(node));
        let start = |node: u32, _: &PreparedQuery| {
            above_of(node)
                .iter()
                .copied()
                .find(|other| (*other as usize) < count)
                .unwrap_or(entry)
        };
        let partitioned = self.number == 0 && known.is_empty() && nodes.len() >= PARTITIONED;
        if !partitioned || !self.insert_partitioned(new, &lists)? {
            let (first, rest) = new.split_at(above.max(usize::from(known.is_empty())).min(new.len()));
            self.insert(first, &lists, known.len(), start)?;
            let start = |_: u32, prepared: &PreparedQuery| self.upper.start(&self.codes, prepared);
            self.insert(rest, &lists, known.len(), start)?;
        }
        let pruned: Vec<Vec<u32>> = nodes
            .par_iter()
            .map_init(PreparedQuery::default, |prepared, node| {
                let mut links = lists.links(*node);
                links.sort_unstable_by(|a, b| b.cmp(a));
                if links.len() > cap {
                    links = select_diverse(&self.codes, &links, cap, true, prepared);
                }
                links.iter().map(|link| link.node).collect()
            })
            .collect();
        self.control.check()?;
        Ok(GraphLayer::from_lists(nodes, &pruned))
    }

    /// Fills the lists of the initial graph's members. New links go in both directions, as those of an insertion do.
    fn adopt(&self, known: &[u32], lists: &LinkLists) -> Result<(), Error> {
        let (Some(initial), cap) = (self.initial, self.params.cap(self.number)) else {
            return Ok(());
        };
        known
            .par_chunks(BLOCK)
            .try_for_each_init(PreparedQuery::default, |prepared, block| {
                for node in block {
                    let candidates = initial.candidates(self.number, *node);
                    self.codes.prepare_exact(*node, prepared);
                    let scored = candidates.iter().map(|node| Scored {
                        node: *node,
                        score: self.codes.score(prepared, *node),
                    });
                    let mut links: Vec<Scored> = scored.collect();
                    links.sort_unstable_by(|a, b| b.cmp(a));
                    if links.len() > cap {
                        links = select_diverse(&self.codes, &links, cap, true, prepared);
                    }
                    let mut prune = |links: Vec<Scored>| select_diverse(&self.codes, &links, cap, false, prepared);
                    lists.add(*node, &links, &mut prune);
                    let old_links = initial.links(self.number, *node);
                    for link in links.iter().filter(|link| !old_links.contains(&link.node)) {
                        lists.add(
                            link.node,
                            &[Scored {
                                node: *node,
                                score: link.score,
                            }],
                            &mut prune,
                        );
                    }
                }
                self.advance(block.len())
            })
    }

    /// Links each node with its nearest ones in overlapping leaves, then with what a search of that graph finds: most
    /// of what a search from far away would find, in a fraction of its time (`PiPNN`: arXiv:2602.21247).
    ///
    /// False, with empty lists, where the rows do not suit that.
    fn insert_partitioned(&self, nodes: &[u32], lists: &LinkLists) -> Result<bool, Error> {
        let (cap, codes) = (self.params.cap(self.number), self.codes);
        if !find_candidates(&self.pairs, lists, self.params.seed, self.control)? {
            nodes.par_iter().for_each(|node| lists.replace(*node, &[]));
            return Ok(false);
        }
        // All lists in one direction before any gets links of the other: those are not candidates.
        nodes
            .par_chunks(BLOCK)
            .try_for_each_init(PreparedQuery::default, |prepared, block| {
                for node in block {
                    let mut best = lists.links(*node);
                    let ties = |link: &Scored| hash_preference(*node, link.node);
                    best.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(ties(b).cmp(&ties(a))));
                    lists.replace(*node, &select_diverse(&codes, &best, cap, false, prepared));
                }
                self.control.check()
            })?;
        nodes
            .par_chunks(BLOCK)
            .try_for_each_init(PreparedQuery::default, |prepared, block| {
                let mut prune = |links: Vec<Scored>| select_diverse(&codes, &links, cap, false, prepared);
                for node in block {
                    for link in lists.links(*node) {
                        lists.add(
                            link.node,
                            &[Scored {
                                node: *node,
                                score: link.score,
                            }],
                            &mut prune,
                        );
                    }
                }
                self.control.check()
            })?;
        // Leaves know nothing far away: members of the layer above keep their links there.
        let above = self.upper.layers.last();
        above
            .map_or(&[][..], |layer| &layer.nodes)
            .par_chunks(BLOCK)
            .try_for_each_init(
                || (PreparedQuery::default(), PreparedQuery::default()),
                |(row, prepared), block| {
                    let mut prune = |links: Vec<Scored>| select_diverse(&codes, &links, cap, false, prepared);
                    for node in block {
                        codes.prepare_exact(*node, row);
                        let links = above.map_or(&[][..], |layer| layer.neighbours(*node)).iter();
                        let links: Vec<Scored> = links
                            .map(|other| Scored {
                                node: *other,
                                score: codes.score(row, *other),
                            })
                            .collect();
                        lists.add(*node, &links, &mut prune);
                    }
                    self.control.check()
                },
            )?;
        let ef_construction = (self.params.ef_construction * SEARCHED).div_ceil(8);
        let params = BuildParams {
            ef_construction,
            ..*self.params
        };
        LayerBuild {
            params: &params,
            ..*self
        }
        .insert(nodes, lists, nodes.len(), |node, _| node)?;
        Ok(true)
    }

    /// Inserts nodes into a layer that holds `known` already.
    fn insert(
        &self,
        nodes: &[u32],
        lists: &LinkLists,
        known: usize,
        start: impl Fn(u32, &PreparedQuery) -> u32 + Sync,
    ) -> Result<(), Error> {
        let serial = SERIAL_START.saturating_sub(known).min(nodes.len());
        let mut scratch = InsertScratch::default();
        for node in nodes.iter().take(serial) {
            self.insert_batch(std::slice::from_ref(node), lists, &start, &mut scratch);
            self.advance(1)?;
        }
        let next = AtomicUsize::new(serial);
        let work = |_: usize| -> Result<(), Error> {
            let mut scratch = InsertScratch::default();
            loop {
                let from = next.fetch_add(INTERLEAVED, Ordering::Relaxed);
                let batch = nodes.get(from..nodes.len().min(from + INTERLEAVED)).unwrap_or(&[]);
                if batch.is_empty() {
                    return Ok(());
                }
                self.insert_batch(batch, lists, &start, &mut scratch);
                self.advance(batch.len())?;
            }
        };
        (0..self.params.threads)
            .into_par_iter()
            .with_max_len(1)
            .try_for_each(work)
    }

    fn advance(&self, nodes: usize) -> Result<(), Error> {
        if self.number == 0 {
            self.control.progress.advance(nodes as u64);
        }
        self.control.check()
    }

    fn insert_batch(
        &self,
        nodes: &[u32],
        lists: &LinkLists,
        start: &impl Fn(u32, &PreparedQuery) -> u32,
        scratch: &mut InsertScratch,
    ) {
        let cap = self.params.cap(self.number);
        let search = NeighbourSearch {
            codes: self.codes,
            links: lists,
        };
        let InsertScratch {
            search: memory,
            prepared,
            found,
        } = scratch;
        found.clear();
        search.nearest(nodes, self.params.ef_construction, memory, start, |node, hits| {
            found.push((node, hits.to_vec()));
        });
        for (node, hits) in found.iter() {
            let kept = select_diverse(&self.codes, hits, cap, false, prepared);
            let mut prune = |links: Vec<Scored>| select_diverse(&self.codes, &links, cap, false, prepared);
            lists.add(*node, &kept, &mut prune);
            for link in &kept {
                lists.add(
                    link.node,
                    &[Scored {
                        node: *node,
                        score: link.score,
                    }],
                    &mut prune,
                );
            }
        }
    }
}
