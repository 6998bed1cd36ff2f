//! Searching one shard: by its graph or exactly, with and without a filter.

use std::cell::RefCell;

use super::reader::DenseShard;
use super::windows::Windows;
use crate::cancel::{Cancel, Never};
use crate::format::Fault;
use crate::format::graph::LinksView;
use crate::format::rows::StoredRows;
use crate::search::{
    Completeness, Cost, ExactRows as _, Hits, Live, MinCompetitive, NodeSet, ROWS_BETWEEN_CHECKS, SCAN_BATCH, Scored,
    SearchParams, SearchScratch, ShardView, exact_scan,
};

/// Vectors that can be compared exactly at the cost of expanding one candidate. A filtered search scans the allowed nodes
/// where that is cheaper than a beam that must be `1 / selectivity` times as wide. Measured on 100,000 MiniLM sentences at
/// ef 32: 4.4 to 7.6 where the filter allows 3 to 20 %, and the two cost the same near 4.5 %.
/// `DYAD_SHARD=FILE cargo test --release -p dyad-indexer --test it -- --ignored --nocapture graph_and_scan`
const ROWS_PER_EXPANSION: f64 = 6.0;

/// Nearest nodes that are probed before a filtered search. Where the filter allows fewer of them than of all nodes, it is
/// correlated with the vectors, and the beam must be wider than the overall selectivity says.
const PROBE_K: usize = 32;

thread_local! {
    /// Search threads are long-lived (rayon), so each keeps its scratch memory for the next search.
    static SCRATCH: RefCell<SearchScratch> = RefCell::default();
}

/// What a search of one shard reads.
type View<'a> = ShardView<'a, LinksView<'a>, StoredRows<'a>>;

/// Questions of one search, each with its number, its vector and the cost already spent on it.
type Questions<'a> = [(usize, &'a [f32], Cost)];

impl DenseShard {
    /// The `k` nearest by the graph, score descending, then key ascending. `query` holds `dim` finite values. Without a
    /// margin in `params`, that of the certificate is used; where the filter allows few nodes, those are compared exactly.
    pub fn search(&self, query: &[f32], params: &SearchParams<'_>) -> Hits<Scored> {
        let mut hits = Hits::default();
        self.search_batch(&[query], params, |_, found| hits = found);
        hits
    }

    /// Searches for many questions on this thread, interleaved to hide the latency of memory. `found` is called once for each
    /// question, with its number and its hits, in no fixed order.
    pub fn search_batch(
        &self,
        queries: &[&[f32]],
        params: &SearchParams<'_>,
        mut found: impl FnMut(usize, Hits<Scored>),
    ) {
        if params.k == 0 {
            return (0..queries.len()).for_each(|number| found(number, Hits::default()));
        }
        let mut found = |number, hits| found(number, self.report_damage(hits));
        let (links, rows) = (self.graph(), self.rows());
        let (order, metric) = (Some(links.order()), self.meta().model.metric);
        let view = ShardView { codes: self.codes(), links: &links, order, rows: &rows, metric };
        let questions: Vec<_> =
            queries.iter().enumerate().map(|(number, query)| (number, *query, Cost::default())).collect();
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => self.search_or_scan(&view, &questions, params, &mut scratch, &mut found),
            // `found` itself is searching on this thread.
            Err(_) => self.search_or_scan(&view, &questions, params, &mut SearchScratch::default(), &mut found),
        });
    }

    /// Decides for each question between the graph and an exact scan of the allowed nodes.
    fn search_or_scan(
        &self,
        view: &View<'_>,
        questions: &Questions<'_>,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, Hits<Scored>),
    ) {
        let filter = params.allowed;
        let params = &SearchParams { allowed: filter.or(params.live.map(|live| live.nodes)), ..*params };
        let share = params.allowed.map_or(1.0, |allowed| allowed.len() as f64 / self.len().max(1) as f64);
        let Some(planned) = self.planned(params, share) else {
            return self.scan(questions, params, found);
        };
        // Deleted nodes are taken to be spread like the others: without a filter, nothing is probed.
        let Some(allowed) = filter.filter(|_| self.len() > PROBE_K) else {
            return self.search_graph(view, questions, &planned, scratch, found);
        };
        // The selectivity is local: it differs from question to question, and so does the width of the beam.
        let near = SearchParams { cancel: params.cancel, rescore: false, ..SearchParams::new(PROBE_K, PROBE_K) };
        let mut probed = questions.to_vec();
        let mut shares = vec![share; questions.len()];
        let queries: Vec<&[f32]> = questions.iter().map(|(_, query, _)| *query).collect();
        view.search(&queries, &near, scratch, |at, probe| {
            let allowed_hits = probe.hits.iter().take(PROBE_K).filter(|hit| allowed.contains(hit.node)).count();
            if let (Some((.., spent)), Some(share)) = (probed.get_mut(at), shares.get_mut(at)) {
                *spent += probe.cost;
                *share = (allowed_hits as f64 + 0.5) / (PROBE_K as f64 + 1.0);
            }
        });
        let (mut usual, mut scanned) = (Vec::new(), Vec::new());
        for (question, local) in probed.into_iter().zip(shares) {
            // Chance alone halves a share now and then; that widens the beam and loses no hit.
            if local >= share / 2.0 {
                usual.push(question);
            } else if let Some(wider) = self.planned(params, local) {
                self.search_graph(view, &[question], &wider, scratch, found);
            } else {
                scanned.push(question);
            }
        }
        self.search_graph(view, &usual, &planned, scratch, found);
        self.scan(&scanned, params, found);
    }

    /// Searches the graph for all questions, and falls back to a scan for those that found too few.
    fn search_graph(
        &self,
        view: &View<'_>,
        questions: &Questions<'_>,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, Hits<Scored>),
    ) {
        let wanted = params.allowed.map_or(self.len(), NodeSet::len).min(params.k);
        let queries: Vec<&[f32]> = questions.iter().map(|(_, query, _)| *query).collect();
        let score =
            |others: MinCompetitive<'_>, number| others.scores.get(number).copied().unwrap_or(f32::NEG_INFINITY);
        // In a shard that is too small for a margin the beam is as wide as always.
        let others = params.min_competitive.filter(|_| params.margin.is_some());
        let scores = others
            .map_or_else(Vec::new, |others| questions.iter().map(|(number, ..)| score(others, *number)).collect());
        let min_competitive = others.map(|others| MinCompetitive { scores: &scores, ..others });
        let params = &SearchParams { min_competitive, ..*params };
        view.search(&queries, params, scratch, |at, mut result| {
            let Some(&(number, query, spent)) = questions.get(at) else { return };
            result.cost += spent;
            // A damaged search may have reached `max_expansions` as well.
            let maybe_limited = params.max_expansions.is_some() && result.completeness == Completeness::Damaged;
            // Those that are missing may not be competitive.
            let few = result.hits.len() < wanted && scores.get(at).is_none_or(|score| *score == f32::NEG_INFINITY);
            let too_few = few || result.completeness == Completeness::Limited || maybe_limited;
            if too_few && !result.is_cancelled() {
                // The search did not reach all allowed nodes. The scan compares all of them; damage is still reported.
                let damaged = result.completeness == Completeness::Damaged;
                self.scan(&[(number, query, result.cost)], params, &mut |number, mut scanned: Hits<Scored>| {
                    if damaged {
                        scanned.completeness = scanned.completeness.max(Completeness::Damaged);
                    }
                    found(number, scanned);
                });
            } else {
                self.keep_top_k(&mut result, params.k);
                found(number, result);
            }
        });
    }

    /// The parameters of the graph search for a filter that allows this share of the nodes near a question; none where an
    /// exact scan of the allowed nodes is cheaper.
    fn planned<'a>(&self, params: &SearchParams<'a>, share: f64) -> Option<SearchParams<'a>> {
        let (k, ef) = (params.k.max(1), params.ef.max(params.k).max(1));
        let Some(allowed) = params.allowed else {
            let margin = params.margin.or_else(|| self.certificate().margin(k, ef));
            return Some(SearchParams { k, ef, margin, ..*params });
        };
        if share <= 0.0 || allowed.len() as f64 * share <= ef as f64 * ROWS_PER_EXPANSION {
            return None;
        }
        let wide = |count: usize| ((count as f64 / share).ceil() as usize).min(self.len());
        let margin = params.margin.or_else(|| match params.live {
            // Measured among the live nodes, of which the allowed ones are a larger share.
            Some(Live { nodes, certificate }) => {
                let share = (share * self.len() as f64 / nodes.len().max(1) as f64).min(1.0);
                let wide = |count: usize| ((count as f64 / share).ceil() as usize).min(nodes.len());
                certificate.margin(wide(k), wide(ef))
            }
            None => self.certificate().margin(wide(k), wide(ef)),
        });
        // Without a margin the search goes on until it has `ef` allowed nodes; with one, `ef` must be scaled by the selectivity.
        let ef = if margin.is_some() { wide(ef) } else { ef };
        // Where all allowed nodes are far away, a search would expand everything nearer first. It may cost as much as two scans:
        // a typical question costs less than one, a hard one more.
        let max_expansions = Some((2.0 * allowed.len() as f64 / ROWS_PER_EXPANSION) as usize);
        Some(SearchParams { k, ef, margin, max_expansions, ..*params })
    }

    /// The `k` nearest by comparing with every vector, or with those that are allowed.
    pub fn search_exact(&self, query: &[f32], k: usize, allowed: Option<&NodeSet>) -> Hits<Scored> {
        let mut hits = Hits::default();
        self.search_exact_batch(&[query], k, allowed, &Never, |_, found| hits = found);
        hits
    }

    /// [`Self::search_exact`] for many questions, cancellable. A cancelled search and a question of another dimension find
    /// nothing.
    pub fn search_exact_batch(
        &self,
        queries: &[&[f32]],
        k: usize,
        allowed: Option<&NodeSet>,
        cancel: &dyn Cancel,
        mut found: impl FnMut(usize, Hits<Scored>),
    ) {
        let questions: Vec<_> =
            queries.iter().enumerate().map(|(number, query)| (number, *query, Cost::default())).collect();
        let params = SearchParams { allowed, cancel, ..SearchParams::new(k, k) };
        self.scan(&questions, &params, &mut |number, hits| found(number, self.report_damage(hits)));
    }

    /// Records the damage that a search has found; from then on every search of this shard is reported as damaged.
    fn report_damage(&self, mut hits: Hits<Scored>) -> Hits<Scored> {
        if hits.completeness == Completeness::Damaged {
            let expected = "slots and nodes of this shard, and finite values";
            self.note_damage(Fault::new("GRAPH, CODES or VECTORS", expected, "others, found by a search"));
        }
        if self.is_damaged() {
            hits.worsen(Completeness::Damaged);
        }
        hits
    }

    fn scan(&self, questions: &Questions<'_>, params: &SearchParams<'_>, found: &mut impl FnMut(usize, Hits<Scored>)) {
        let (rows, metric) = (self.rows(), self.meta().model.metric);
        let (valid, mismatched): (Vec<_>, Vec<_>) =
            questions.iter().copied().partition(|(_, query, _)| query.len() == rows.dim());
        for (number, ..) in mismatched {
            found(number, Hits::default());
        }
        for batch in valid.chunks(SCAN_BATCH) {
            let queries: Vec<&[f32]> = batch.iter().map(|(_, query, _)| *query).collect();
            let windows = Windows::new(self.len(), params.allowed);
            let scanned = exact_scan(&rows, &queries, params.k, metric, params.allowed, |node| {
                windows.next(node).into_iter().for_each(|nodes| self.read_ahead(nodes));
                !params.cancel.is_cancelled()
            });
            for ((number, _, spent), mut hits) in batch.iter().zip(scanned) {
                hits.cost += *spent;
                self.keep_top_k(&mut hits, params.k);
                found(*number, hits);
            }
        }
    }

    /// Number of nodes, of all or of the live ones, that rank before a document of score `score` and key `key` in the exact
    /// ranking; none where the scan was cancelled, or for a question of another dimension.
    pub fn ahead_of(
        &self,
        query: &[f32],
        (score, key): (f32, &str),
        live: Option<&NodeSet>,
        cancel: &dyn Cancel,
    ) -> Option<u64> {
        let (rows, keys, metric) = (self.rows(), self.keys(), self.meta().model.metric);
        if query.len() != rows.dim() {
            return None;
        }
        let windows = Windows::new(self.len(), None);
        let mut ahead = 0;
        for node in 0..rows.len() as u32 {
            if u64::from(node).is_multiple_of(ROWS_BETWEEN_CHECKS) {
                windows.next(node).into_iter().for_each(|nodes| self.read_ahead(nodes));
                if cancel.is_cancelled() {
                    return None;
                }
            }
            if live.is_some_and(|live| !live.contains(node)) {
                continue;
            }
            let other = rows.score(node, query, metric);
            ahead += u64::from(other > score || (other.total_cmp(&score).is_eq() && keys.key(node) < key));
        }
        Some(ahead)
    }

    /// Keeps the best `k`, ties broken by key.
    fn keep_top_k(&self, hits: &mut Hits<Scored>, k: usize) {
        let keys = self.keys();
        hits.keep_top_k(k, |hit| hit.score, |hit| keys.key(hit.node));
    }
}
