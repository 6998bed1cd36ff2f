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

/// Codes that can be scanned at the cost of expanding one candidate, where all nodes are candidates.
///
/// A filtered search takes the cheapest of three ways: a scan of the allowed nodes; a beam over all nodes, as much wider as fewer are
/// allowed; a beam over the allowed ones, with the links of the others (`SearchParams::two_hop`). Measured on 100,000 MiniLM sentences
/// at ef 64, in microseconds for 10, 20 and 50 % of them: 117, 216, 453; 370, 201, 94; 204, 165, 137.
/// `DYAD_SHARD=FILE cargo test --release -p dyad-indexer --test it -- --ignored --nocapture graph_and_scan`
const CODES_PER_EXPANSION: f64 = 60.0;

/// The same where only allowed nodes are candidates.
const CODES_PER_TWO_HOPS: f64 = 250.0;

/// So few allowed nodes are compared by their vectors and not by their codes, and so are twice the wanted hits: exact, and no slower.
const EXACT: usize = 128;

/// Expansions after which a search among all nodes is given up for a scan of so many: it then costs as much as two scans. A typical
/// question costs less than one, one whose allowed nodes are far away costs more.
fn most_expansions(scanned: f64) -> usize {
    (2.0 * scanned / CODES_PER_EXPANSION) as usize
}

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

    /// Decides between the graph and a scan of the allowed nodes.
    fn search_or_scan(
        &self,
        view: &View<'_>,
        questions: &Questions<'_>,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, Hits<Scored>),
    ) {
        let planned = match params.allowed {
            Some(allowed) => self.planned_filtered(params, allowed),
            None => self.planned(params),
        };
        match planned {
            Some(planned) => self.search_graph(view, questions, &planned, scratch, found),
            None => {
                let allowed = params.allowed.or(params.live.map(|live| live.nodes));
                self.scan_allowed(view, questions, &SearchParams { allowed, ..*params }, scratch, found);
            }
        }
    }

    /// Searches the graph for all questions; for those that found too few, again among the allowed nodes alone, or by a scan.
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
        let mut missed = Vec::new();
        view.search(&queries, params, scratch, |at, mut result| {
            let Some(&(number, query, spent)) = questions.get(at) else { return };
            result.cost += spent;
            // A damaged search may have reached `max_expansions` as well.
            let maybe_limited = params.max_expansions.is_some() && result.completeness == Completeness::Damaged;
            // Those that are missing may not be competitive.
            let few = result.hits.len() < wanted && scores.get(at).is_none_or(|score| *score == f32::NEG_INFINITY);
            let too_few = few || result.completeness == Completeness::Limited || maybe_limited;
            if too_few && !result.is_cancelled() {
                // Damage is recorded here: it may not be met again.
                missed.push((number, query, self.report_damage(result).cost));
            } else {
                self.keep_top_k(&mut result, params.k);
                found(number, result);
            }
        });
        if missed.is_empty() {
            return;
        }
        // Where all that is near a question is left out by the filter, the distances of its hits have nothing to do with the margin.
        let scanned = params.allowed.map_or(self.len(), NodeSet::len) as f64;
        if params.least_share.is_some() && (params.ef as f64) * CODES_PER_TWO_HOPS < scanned {
            let (margin, max_expansions, least_share) = (None, None, None);
            let again = SearchParams { two_hop: true, margin, max_expansions, least_share, ..*params };
            return self.search_graph(view, &missed, &again, scratch, found);
        }
        self.scan_allowed(view, &missed, params, scratch, found);
    }

    /// Compares the questions with all allowed nodes, by their codes where there are more than a few.
    fn scan_allowed(
        &self,
        view: &View<'_>,
        questions: &Questions<'_>,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, Hits<Scored>),
    ) {
        let Some(allowed) = params.allowed.filter(|allowed| allowed.len() > EXACT.max(2 * params.k)) else {
            return self.scan(questions, params, found);
        };
        let queries: Vec<&[f32]> = questions.iter().map(|(_, query, _)| *query).collect();
        view.scan_codes(&queries, allowed, params, scratch, |at, mut hits| {
            let Some(&(number, _, spent)) = questions.get(at) else { return };
            hits.cost += spent;
            self.keep_top_k(&mut hits, params.k);
            found(number, hits);
        });
    }

    /// The parameters of the graph search without a filter; none where a scan of the live nodes costs less.
    fn planned<'a>(&self, params: &SearchParams<'a>) -> Option<SearchParams<'a>> {
        let (k, ef) = (params.k.max(1), params.ef.max(params.k).max(1));
        let Some(Live { nodes, certificate }) = params.live else {
            let margin = params.margin.or_else(|| self.certificate().margin(k, ef));
            return Some(SearchParams { k, ef, margin, ..*params });
        };
        // Deleted nodes are traversed, and taken to be spread like the others.
        let (count, wide) = (nodes.len() as f64, self.wide(ef, nodes.len(), self.len()));
        let max_expansions = Some(most_expansions(count));
        let margin = params.margin.or_else(|| certificate.margin(k, ef));
        // Without a margin the search goes on until it has `ef` live nodes.
        let ef = if margin.is_some() { wide } else { ef };
        let planned = SearchParams { k, ef, margin, max_expansions, allowed: Some(nodes), ..*params };
        (count > wide as f64 * CODES_PER_EXPANSION).then_some(planned)
    }

    /// The parameters of the graph search through a filter; none where a scan of the allowed nodes costs less.
    fn planned_filtered<'a>(&self, params: &SearchParams<'a>, allowed: &'a NodeSet) -> Option<SearchParams<'a>> {
        let (k, ef) = (params.k.max(1), params.ef.max(params.k).max(1));
        let (count, wide) = (allowed.len() as f64, self.wide(ef, allowed.len(), self.len()));
        let (among_all, among_allowed) = (wide as f64 * CODES_PER_EXPANSION, ef as f64 * CODES_PER_TWO_HOPS);
        if count <= among_all.min(among_allowed) {
            return None;
        }
        // Margins are between ranks among all live nodes, of which the allowed ones are a share.
        let (certificate, of) =
            params.live.map_or((self.certificate(), self.len()), |live| (live.certificate, live.nodes.len()));
        let rank = |count: usize| self.wide(count, allowed.len(), of);
        let margin = params.margin.or_else(|| certificate.margin(rank(k), rank(ef)));
        let planned = SearchParams { k, ef, margin, ..*params };
        Some(if among_allowed < among_all {
            SearchParams { two_hop: true, ..planned }
        } else {
            let max_expansions = Some(most_expansions(count));
            let least_share = Some(count / self.len() as f64 / 2.0);
            // Without a margin the search goes on until it has `ef` allowed nodes.
            let ef = if margin.is_some() { wide } else { ef };
            SearchParams { ef, least_share, max_expansions, ..planned }
        })
    }

    /// Nodes among which there are about `count` allowed ones, where `allowed` are of all `nodes`.
    fn wide(&self, count: usize, allowed: usize, nodes: usize) -> usize {
        ((count as f64 * nodes as f64 / allowed.max(1) as f64).ceil() as usize).min(self.len())
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
