//! Searching one shard: by its graph, exactly, and through filters.

use std::cell::RefCell;

use super::reader::DenseShard;
use super::windows::Windows;
use crate::format::graph::LinksView;
use crate::format::rows::StoredRows;
use crate::search::{Beam, BeamParams, ExactRows as _, Lanes, NodeSet, ROWS_BETWEEN_LOOKS, Scored, Walked, flat_until};

/// Expansions that cost as much as comparing one vector exactly, inverted: a filter is answered by an exact scan of its
/// nodes where that is cheaper than a walk which must be `1 / selectivity` times as wide. Measured on 100,000 MiniLM sentences
/// at ef 32: 4.4 to 7.6 where 3 to 20 % pass, and the two cost the same near 4.5 %.
/// `DYAD_SHARD=FILE cargo test --release -p dyad-indexer --test it -- --ignored --nocapture walk_and_scan`
const ROWS_PER_EXPANSION: f64 = 6.0;

/// Nearest nodes that are looked at before a walk through a filter: where fewer of them pass than elsewhere, the filter
/// follows the vectors, and the walk must be wider than the share of all nodes says.
const PROBED: usize = 32;
thread_local! {
    /// Search threads live long (rayon), so each keeps its memory for the next search.
    static LANES: RefCell<Lanes> = RefCell::new(Lanes::new());
}

/// What a search of one shard reads.
type ShardBeam<'a> = Beam<'a, LinksView<'a>, StoredRows<'a>>;

/// A hit of one shard.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShardHit<'a> {
    /// Inner product, minus half a squared distance, or BM25.
    pub score: f32,
    /// Document key.
    pub key: &'a str,
    /// Node of the shard.
    pub node: u32,
}

/// Hits of one shard, best first, and what they cost.
#[derive(Debug, Clone, Default)]
pub struct Found<'a> {
    /// Score descending, then key ascending.
    pub hits: Vec<ShardHit<'a>>,
    /// Scores computed: estimates, int8 and exact ones together.
    pub distance_computations: u64,
    /// The search was told to stop before its end.
    pub stopped: bool,
}

impl Found<'_> {
    /// With what was spent before.
    fn after(mut self, spent: u64) -> Self {
        self.distance_computations += spent;
        self
    }
}

impl DenseShard {
    /// The parts that a search reads. Made once for many searches.
    fn beam<'a>(&'a self, graph: &'a LinksView<'a>, rows: &'a StoredRows<'a>) -> ShardBeam<'a> {
        Beam { codes: self.codes(), graph, order: graph.order(), rows, metric: self.meta().model.metric }
    }

    /// The `k` nearest by the graph. `query` holds `dim` finite values. Without a margin in `params`, the certificate
    /// gives it; with a filter that lets few nodes pass, those are compared exactly.
    pub fn search(&self, query: &[f32], params: &BeamParams<'_>) -> Found<'_> {
        let mut result = Found::default();
        self.search_batch(&[query], params, |_, found| result = found);
        result
    }

    /// Searches for many questions on this thread, which take turns while memory is fetched. `found` gets the number of
    /// each question once, and its hits, in no fixed order.
    pub fn search_batch<'a>(
        &'a self,
        queries: &[&[f32]],
        params: &BeamParams<'_>,
        mut found: impl FnMut(usize, Found<'a>),
    ) {
        let (graph, rows) = (self.graph(), self.rows());
        let beam = self.beam(&graph, &rows);
        LANES.with(|lanes| match lanes.try_borrow_mut() {
            Ok(mut lanes) => self.walk_or_scan(&beam, queries, params, &mut lanes, &mut found),
            // `found` searches itself.
            Err(_) => self.walk_or_scan(&beam, queries, params, &mut Lanes::new(), &mut found),
        });
    }

    /// Decides for each question between the graph and an exact scan of what passes.
    fn walk_or_scan<'a>(
        &'a self,
        beam: &ShardBeam<'_>,
        queries: &[&[f32]],
        params: &BeamParams<'_>,
        lanes: &mut Lanes,
        found: &mut impl FnMut(usize, Found<'a>),
    ) {
        if params.k == 0 {
            return (0..queries.len()).for_each(|number| found(number, Found::default()));
        }
        let share = params.passing.map_or(1.0, |passing| passing.len() as f64 / self.len().max(1) as f64);
        let Some(planned) = self.planned(params, share) else {
            for (number, query) in queries.iter().enumerate() {
                found(number, self.scan(query, params.k, params.passing, params.stop));
            }
            return;
        };
        let Some(passing) = params.passing.filter(|_| self.len() > PROBED) else {
            return self.walk(beam, queries, &planned, lanes, found);
        };
        // Each question has a neighbourhood, and so a width, of its own.
        let near = BeamParams { stop: params.stop, rescore: false, ..BeamParams::new(PROBED, PROBED) };
        let mut probes = vec![(share, 0); queries.len()];
        beam.search(queries, &near, lanes, |number, probe| {
            let passed = probe.hits.iter().take(PROBED).filter(|hit| passing.contains(hit.node)).count();
            if let Some(slot) = probes.get_mut(number) {
                *slot = ((passed as f64 + 0.5) / (PROBED as f64 + 1.0), probe.estimated + probe.scored);
            }
        });
        let (mut usual, mut together) = (Vec::new(), Vec::new());
        for (number, (query, (local, spent))) in queries.iter().zip(probes).enumerate() {
            // Chance alone halves a share now and then; that costs a wider beam and no hit.
            if local >= share / 2.0 {
                usual.push((number, spent));
                together.push(*query);
            } else if let Some(wider) = self.planned(params, local) {
                self.walk(beam, &[query], &wider, lanes, &mut |_, hits| found(number, hits.after(spent)));
            } else {
                found(number, self.scan(query, params.k, params.passing, params.stop).after(spent));
            }
        }
        self.walk(beam, &together, &planned, lanes, &mut |at, hits| {
            if let Some((number, spent)) = usual.get(at) {
                found(*number, hits.after(*spent));
            }
        });
    }

    /// Walks for all questions, and scans for those that found too few.
    fn walk<'a>(
        &'a self,
        beam: &ShardBeam<'_>,
        queries: &[&[f32]],
        params: &BeamParams<'_>,
        lanes: &mut Lanes,
        found: &mut impl FnMut(usize, Found<'a>),
    ) {
        let wanted = params.passing.map_or(self.len(), NodeSet::len).min(params.k);
        beam.search(queries, params, lanes, |number, walked| {
            let Walked { hits, estimated, scored, stopped, cut } = walked;
            let (spent, query) = (estimated + scored, queries.get(number).copied().unwrap_or(&[]));
            if (hits.len() < wanted || cut) && !stopped {
                // The nodes that pass lie where the walk did not come.
                found(number, self.scan(query, params.k, params.passing, params.stop).after(spent));
            } else {
                found(number, Found { hits: self.hits(&hits, params.k), distance_computations: spent, stopped });
            }
        });
    }

    /// The beam for a filter that lets this share of the nodes near a question pass, and for a margin; none where an exact
    /// scan of the passing nodes is cheaper.
    fn planned<'a>(&self, params: &BeamParams<'a>, share: f64) -> Option<BeamParams<'a>> {
        let (k, ef) = (params.k.max(1), params.ef.max(params.k).max(1));
        let Some(passing) = params.passing else {
            let margin = params.margin.or_else(|| self.certificate().margin(k, ef));
            return Some(BeamParams { k, ef, margin, ..*params });
        };
        if share <= 0.0 || passing.len() as f64 * share <= ef as f64 * ROWS_PER_EXPANSION {
            return None;
        }
        let wide = |count: usize| ((count as f64 / share).ceil() as usize).min(self.len());
        let margin = params.margin.or_else(|| self.certificate().margin(wide(k), wide(ef)));
        // Without a margin the walk goes on until `ef` nodes pass; with one its bound must be as wide as the filter asks.
        let ef = if margin.is_some() { wide(ef) } else { ef };
        // Where what passes lies far away, a walk would meet everything nearer first. It may cost two scans: a hard question
        // needs more than a typical one, which costs less than one.
        let most = Some((2.0 * passing.len() as f64 / ROWS_PER_EXPANSION) as usize);
        Some(BeamParams { k, ef, margin, most, ..*params })
    }

    /// The `k` nearest by comparing with every vector, or with those that pass.
    pub fn search_exact(&self, query: &[f32], k: usize, passing: Option<&NodeSet>) -> Found<'_> {
        self.scan(query, k, passing, None)
    }

    /// [`Self::search_exact`] that can be stopped; nothing is found then, nor for a question of another dimension.
    pub(crate) fn scan(
        &self,
        query: &[f32],
        k: usize,
        passing: Option<&NodeSet>,
        stop: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Found<'_> {
        let (rows, metric) = (self.rows(), self.meta().model.metric);
        if query.len() != rows.dim() {
            return Found::default();
        }
        let windows = Windows::new(self.len(), passing);
        let scanned = flat_until(&rows, query, k, metric, passing, |node| {
            windows.after(node).into_iter().for_each(|nodes| self.read_ahead(nodes));
            !stop.is_some_and(|stop| stop())
        });
        let hits = self.hits(&scanned.hits, k);
        Found { hits, distance_computations: scanned.compared, stopped: scanned.stopped }
    }

    /// How many nodes come before a document of score `score` and key `key` in the exact ranking; nothing where `stop`,
    /// which is asked now and then, ended the scan, or for a question of another dimension.
    pub fn ahead_of(
        &self,
        query: &[f32],
        (score, key): (f32, &str),
        stop: Option<&(dyn Fn() -> bool + Sync)>,
    ) -> Option<u64> {
        let (rows, keys, metric) = (self.rows(), self.keys(), self.meta().model.metric);
        if query.len() != rows.dim() {
            return None;
        }
        let windows = Windows::new(self.len(), None);
        let mut ahead = 0;
        for node in 0..rows.len() as u32 {
            if u64::from(node).is_multiple_of(ROWS_BETWEEN_LOOKS) {
                windows.after(node).into_iter().for_each(|nodes| self.read_ahead(nodes));
                if stop.is_some_and(|stop| stop()) {
                    return None;
                }
            }
            let other = rows.score(node, query, metric);
            ahead += u64::from(other > score || (other.total_cmp(&score).is_eq() && keys.key(node) < key));
        }
        Some(ahead)
    }

    /// Breaks ties by key and cuts at `k`.
    fn hits(&self, scored: &[Scored], k: usize) -> Vec<ShardHit<'_>> {
        let keys = self.keys();
        let hit = |scored: &Scored| ShardHit { score: scored.score, key: keys.key(scored.node), node: scored.node };
        let mut hits: Vec<_> = scored.iter().map(hit).collect();
        hits.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.key.cmp(b.key)));
        hits.truncate(k);
        hits
    }
}
