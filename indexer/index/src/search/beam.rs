//! Walks over a shard's codes: one question, or many that take turns on one thread.

use super::lane::{Aim, Ground, Lane, SlotLinks};
use super::{ExactRows, NodeSet, Scored};
use crate::model::Metric;
use crate::quant::{CodesView, Prepared};

/// Walks that take turns on one thread: enough to hide the latency of memory, few enough that their own memory stays
/// in the second-level cache.
const LANES: usize = 8;
/// Steps between two looks at whether to stop.
const STEPS: u32 = 256;

/// Upper layers by slot.
pub trait UpperLayers {
    /// Where a walk starts.
    fn entry(&self) -> u32;
    /// The highest layer; 0 is the lowest.
    fn max_layer(&self) -> usize;
    /// Links of a slot on a layer above 0.
    fn upper(&self, layer: usize, slot: u32) -> &[u32];
}

/// What to look for.
#[derive(Clone, Copy)]
pub struct BeamParams<'a> {
    /// Hits wanted, at least 1.
    pub k: usize,
    /// Width of the beam; at least `k` is used. With a margin it is the *mean* width over questions.
    pub ef: usize,
    /// A walk ends when its best candidate scores less than the k-th hit by more than this. Without one, the beam is
    /// `ef` wide for every question.
    pub margin: Option<f32>,
    /// Candidates expanded at most; a walk that this ends says so in [`Walked::cut`].
    pub most: Option<usize>,
    /// Nodes that may be hits; all where absent. Others are walked through.
    pub passing: Option<&'a NodeSet>,
    /// Whether the best candidates are scored again from the vectors; without, scores are those of int8 codes.
    pub rescore: bool,
    /// Asked now and then; true ends the search, and what was found so far is returned.
    pub stop: Option<&'a (dyn Fn() -> bool + Sync)>,
}

impl<'a> BeamParams<'a> {
    /// A fixed beam over all nodes, rescored.
    pub fn new(k: usize, ef: usize) -> Self {
        Self { k, ef, margin: None, most: None, passing: None, rescore: true, stop: None }
    }

    /// Over so many slots: no beam is wider than they are many.
    fn aim(&self, slots: usize) -> Aim<'a> {
        let slots = slots.max(1);
        let k = self.k.clamp(1, slots);
        let ef = self.ef.clamp(k, slots);
        let (rank, margin, most) = match self.margin {
            // The width follows the question; the bound only keeps a hard one from running away.
            Some(margin) => (k, margin.max(0.0), 4 * ef + 16),
            None => (ef, 0.0, usize::MAX),
        };
        let (bounded, most) = match self.most {
            Some(bound) if bound < most => (true, bound),
            _ => (false, most),
        };
        Aim { k, rank, margin, most, bounded, passing: self.passing, rescore: self.rescore }
    }
}

impl std::fmt::Debug for BeamParams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BeamParams")
            .field("k", &self.k)
            .field("ef", &self.ef)
            .field("margin", &self.margin)
            .field("most", &self.most)
            .field("passing", &self.passing.map(NodeSet::len))
            .field("rescore", &self.rescore)
            .finish_non_exhaustive()
    }
}

/// What a walk found, and what it cost.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Walked {
    /// Best first: `k` hits and a few more, so that the caller can break ties before it cuts. Of many equal vectors at the
    /// cut only some are there.
    pub hits: Vec<Scored>,
    /// Scores estimated from sketches.
    pub estimated: u64,
    /// Scores computed from int8 rows and from vectors.
    pub scored: u64,
    /// The search was told to stop before its end.
    pub stopped: bool,
    /// [`BeamParams::most`] ended the walk before its end.
    pub cut: bool,
}

/// Memory of searches on one thread, reused by the next ones.
#[derive(Debug, Default)]
pub struct Lanes {
    pub(super) walks: Vec<Lane>,
    slots: Vec<u32>,
    products: Vec<i32>,
    scores: Vec<f32>,
}

impl Lanes {
    /// Empty; grows at the first search.
    pub fn new() -> Self {
        Self::default()
    }
}

/// One shard's parts, as a search reads them.
#[derive(Debug, Clone, Copy)]
pub struct Beam<'a, G: ?Sized, R: ?Sized> {
    /// By slot.
    pub codes: CodesView<'a>,
    /// By slot.
    pub graph: &'a G,
    /// Slot to node.
    pub order: &'a [u32],
    /// By node.
    pub rows: &'a R,
    /// How vectors are compared.
    pub metric: Metric,
}

impl<G: SlotLinks + UpperLayers + ?Sized, R: ExactRows + ?Sized> Beam<'_, G, R> {
    /// Searches for every question of `queries`; `found` gets the number of each once, and what was found, in no fixed
    /// order. Questions of another dimension find nothing.
    pub fn search(
        &self,
        queries: &[&[f32]],
        params: &BeamParams<'_>,
        memory: &mut Lanes,
        mut found: impl FnMut(usize, Walked),
    ) {
        let dim = self.codes.codec().dim();
        let (aim, ground) = (params.aim(self.codes.len()), self.ground());
        let mut stopped = !queries.is_empty() && params.stop.is_some_and(|stop| stop());
        for (number, query) in queries.iter().enumerate() {
            if stopped || query.len() != dim {
                found(number, Walked { stopped, ..Walked::default() });
            }
        }
        if stopped {
            return;
        }
        let mut waiting = queries.iter().enumerate().filter(|(_, query)| query.len() == dim);
        let mut lanes = std::mem::take(&mut memory.walks);
        lanes.resize_with(LANES.min(queries.len()).max(lanes.len()), Lane::default);
        let mut running = 0;
        for lane in lanes.iter_mut().take(queries.len()) {
            let Some((number, query)) = waiting.next() else { break };
            self.begin(lane, number, query, memory);
            running += 1;
        }
        let mut steps = 0;
        while running > 0 {
            for lane in lanes.iter_mut().filter(|lane| !lane.idle()) {
                let Some(&query) = queries.get(lane.query) else { continue };
                let done = lane.step(&ground, &aim, query);
                steps += 1;
                if steps % STEPS == 0 && params.stop.is_some_and(|stop| stop()) {
                    stopped = true;
                }
                if !done && !stopped {
                    continue;
                }
                if stopped {
                    lane.finish_now(&ground, &aim, query);
                }
                let hits = lane.hits.clone();
                let Lane { estimated, scored, cut, .. } = *lane;
                found(lane.query, Walked { hits, estimated, scored, stopped, cut });
                match if stopped { None } else { waiting.next() } {
                    Some((number, query)) => self.begin(lane, number, query, memory),
                    None => running -= 1,
                }
            }
        }
        memory.walks = lanes;
        if stopped {
            for (number, _) in waiting {
                found(number, Walked { stopped, ..Walked::default() });
            }
        }
    }

    /// Searches for one question.
    pub fn search_one(&self, query: &[f32], params: &BeamParams<'_>, memory: &mut Lanes) -> Walked {
        let mut result = Walked::default();
        self.search(&[query], params, memory, |_, walked| result = walked);
        result
    }

    fn ground(&self) -> Ground<'_, G, R> {
        Ground { codes: self.codes, links: self.graph, order: self.order, rows: self.rows, metric: self.metric }
    }

    fn begin(&self, lane: &mut Lane, number: usize, query: &[f32], memory: &mut Lanes) {
        lane.query = number;
        self.codes.codec().prepare(query, &mut lane.prepared);
        let (start, estimated) = descend(&self.codes, self.graph, &lane.prepared, memory);
        lane.begin(&self.ground(), start, estimated);
    }
}

/// Greedy descent through the upper layers, by estimates: the layers are a hint where to start, no more. The slot, and
/// the number of estimates.
fn descend<G: UpperLayers + ?Sized>(
    codes: &CodesView<'_>,
    graph: &G,
    prepared: &Prepared,
    memory: &mut Lanes,
) -> (u32, u64) {
    let Lanes { slots, products, scores, .. } = memory;
    let mut here = graph.entry();
    let (mut best, mut estimated) = (f32::NEG_INFINITY, 0);
    for layer in (1..=graph.max_layer()).rev() {
        loop {
            slots.clear();
            slots.extend_from_slice(graph.upper(layer, here));
            codes.prefetch_lines(slots);
            codes.estimate(prepared, slots, 0.0, products, scores);
            estimated += slots.len() as u64;
            let before = here;
            for (slot, score) in slots.iter().zip(scores.iter()) {
                if *score > best {
                    (best, here) = (*score, *slot);
                }
            }
            if here == before {
                break;
            }
        }
    }
    (here, estimated)
}
