//! Searching one shard: by its graph, exactly, and through filters.

use std::cell::RefCell;

use super::reader::DenseShard;
use super::windows::Windows;
use crate::cancel::{Cancel, Never};
use crate::format::Fault;
use crate::format::graph::LinksView;
use crate::format::rows::StoredRows;
use crate::search::{
    Completeness, Cost, ExactRows as _, Hits, NodeSet, ROWS_BETWEEN_LOOKS, SCANNED_AT_ONCE, Scored, SearchParams,
    SearchScratch, ShardView, exact_scan,
};

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
    static SCRATCH: RefCell<SearchScratch> = RefCell::default();
}

/// What a search of one shard reads.
type View<'a> = ShardView<'a, LinksView<'a>, StoredRows<'a>>;

/// Questions of one search, each with its number, its vector and what was spent on it before.
type Questions<'a> = [(usize, &'a [f32], Cost)];

impl DenseShard {
    /// The `k` nearest by the graph, score descending, then key ascending. `query` holds `dim` finite values. Without a
    /// margin in `params`, the certificate gives it; with a filter that allows few nodes, those are compared exactly.
    pub fn search(&self, query: &[f32], params: &SearchParams<'_>) -> Hits<Scored> {
        let mut hits = Hits::default();
        self.search_batch(&[query], params, |_, found| hits = found);
        hits
    }

    /// Searches for many questions on this thread, which take turns while memory is fetched. `found` gets the number of
    /// each question once, and its hits, in no fixed order.
    pub fn search_batch(
        &self,
        queries: &[&[f32]],
        params: &SearchParams<'_>,
        mut found: impl FnMut(usize, Hits<Scored>),
    ) {
        if params.k == 0 {
            return (0..queries.len()).for_each(|number| found(number, Hits::default()));
        }
        let mut found = |number, hits| found(number, self.tell_damage(hits));
        let (links, rows) = (self.graph(), self.rows());
        let (order, metric) = (Some(links.order()), self.meta().model.metric);
        let view = ShardView { codes: self.codes(), links: &links, order, rows: &rows, metric };
        let questions: Vec<_> =
            queries.iter().enumerate().map(|(number, query)| (number, *query, Cost::default())).collect();
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => self.walk_or_scan(&view, &questions, params, &mut scratch, &mut found),
            // `found` searches itself.
            Err(_) => self.walk_or_scan(&view, &questions, params, &mut SearchScratch::default(), &mut found),
        });
    }

    /// Decides for each question between the graph and an exact scan of what is allowed.
    fn walk_or_scan(
        &self,
        view: &View<'_>,
        questions: &Questions<'_>,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, Hits<Scored>),
    ) {
        let share = params.allowed.map_or(1.0, |allowed| allowed.len() as f64 / self.len().max(1) as f64);
        let Some(planned) = self.planned(params, share) else {
            return self.scan(questions, params, found);
        };
        let Some(allowed) = params.allowed.filter(|_| self.len() > PROBED) else {
            return self.walk(view, questions, &planned, scratch, found);
        };
        // Each question has a neighbourhood, and so a width, of its own.
        let near = SearchParams { cancel: params.cancel, rescore: false, ..SearchParams::new(PROBED, PROBED) };
        let mut probed = questions.to_vec();
        let mut shares = vec![share; questions.len()];
        let queries: Vec<&[f32]> = questions.iter().map(|(_, query, _)| *query).collect();
        view.search(&queries, &near, scratch, |at, probe| {
            let passed = probe.hits.iter().take(PROBED).filter(|hit| allowed.contains(hit.node)).count();
            if let (Some((.., spent)), Some(share)) = (probed.get_mut(at), shares.get_mut(at)) {
                *spent += probe.cost;
                *share = (passed as f64 + 0.5) / (PROBED as f64 + 1.0);
            }
        });
        let (mut usual, mut scanned) = (Vec::new(), Vec::new());
        for (question, local) in probed.into_iter().zip(shares) {
            // Chance alone halves a share now and then; that costs a wider beam and no hit.
            if local >= share / 2.0 {
                usual.push(question);
            } else if let Some(wider) = self.planned(params, local) {
                self.walk(view, &[question], &wider, scratch, found);
            } else {
                scanned.push(question);
            }
        }
        self.walk(view, &usual, &planned, scratch, found);
        self.scan(&scanned, params, found);
    }

    /// Walks for all questions, and scans for those that found too few.
    fn walk(
        &self,
        view: &View<'_>,
        questions: &Questions<'_>,
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, Hits<Scored>),
    ) {
        let wanted = params.allowed.map_or(self.len(), NodeSet::len).min(params.k);
        let queries: Vec<&[f32]> = questions.iter().map(|(_, query, _)| *query).collect();
        view.search(&queries, params, scratch, |at, mut walked| {
            let Some(&(number, query, spent)) = questions.get(at) else { return };
            walked.cost += spent;
            // A damaged walk may have met its bound as well.
            let bounded = params.max_expansions.is_some() && walked.completeness == Completeness::Damaged;
            let too_few = walked.hits.len() < wanted || walked.completeness == Completeness::Limited || bounded;
            if too_few && !walked.is_cancelled() {
                // What is allowed lies where the walk did not come. The scan sees all of it; damage is told nevertheless.
                let damaged = walked.completeness == Completeness::Damaged;
                self.scan(&[(number, query, walked.cost)], params, &mut |number, mut scanned: Hits<Scored>| {
                    if damaged {
                        scanned.completeness = scanned.completeness.max(Completeness::Damaged);
                    }
                    found(number, scanned);
                });
            } else {
                self.cut(&mut walked, params.k);
                found(number, walked);
            }
        });
    }

    /// The beam for a filter that allows this share of the nodes near a question, and for a margin; none where an exact
    /// scan of the allowed nodes is cheaper.
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
        let margin = params.margin.or_else(|| self.certificate().margin(wide(k), wide(ef)));
        // Without a margin the walk goes on until it has `ef` allowed nodes; with one its bound must be as wide as the filter asks.
        let ef = if margin.is_some() { wide(ef) } else { ef };
        // Where what is allowed lies far away, a walk would meet everything nearer first. It may cost two scans: a hard question
        // needs more than a typical one, which costs less than one.
        let max_expansions = Some((2.0 * allowed.len() as f64 / ROWS_PER_EXPANSION) as usize);
        Some(SearchParams { k, ef, margin, max_expansions, ..*params })
    }

    /// The `k` nearest by comparing with every vector, or with those that are allowed.
    pub fn search_exact(&self, query: &[f32], k: usize, allowed: Option<&NodeSet>) -> Hits<Scored> {
        let mut hits = Hits::default();
        self.search_exact_batch(&[query], k, allowed, &Never, |_, found| hits = found);
        hits
    }

    /// [`Self::search_exact`] for many questions, that can be ended: nothing is found then, nor for a question of another
    /// dimension.
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
        self.scan(&questions, &params, &mut |number, hits| found(number, self.tell_damage(hits)));
    }

    /// Keeps that a search has met damage, and says so of every search from then on.
    fn tell_damage(&self, mut hits: Hits<Scored>) -> Hits<Scored> {
        if hits.completeness == Completeness::Damaged {
            let expected = "slots, nodes and finite values of this shard";
            self.note_damage(Fault::new("GRAPH, CODES or VECTORS", expected, "others, in a search"));
        }
        if self.is_damaged() {
            hits.worsen(Completeness::Damaged);
        }
        hits
    }

    fn scan(&self, questions: &Questions<'_>, params: &SearchParams<'_>, found: &mut impl FnMut(usize, Hits<Scored>)) {
        let (rows, metric) = (self.rows(), self.meta().model.metric);
        let (sound, odd): (Vec<_>, Vec<_>) =
            questions.iter().copied().partition(|(_, query, _)| query.len() == rows.dim());
        for (number, ..) in odd {
            found(number, Hits::default());
        }
        for some in sound.chunks(SCANNED_AT_ONCE) {
            let queries: Vec<&[f32]> = some.iter().map(|(_, query, _)| *query).collect();
            let windows = Windows::new(self.len(), params.allowed);
            let scanned = exact_scan(&rows, &queries, params.k, metric, params.allowed, |node| {
                windows.after(node).into_iter().for_each(|nodes| self.read_ahead(nodes));
                !params.cancel.is_cancelled()
            });
            for ((number, _, spent), mut hits) in some.iter().zip(scanned) {
                hits.cost += *spent;
                self.cut(&mut hits, params.k);
                found(*number, hits);
            }
        }
    }

    /// How many nodes come before a document of score `score` and key `key` in the exact ranking; nothing where `cancel`
    /// ended the scan, or for a question of another dimension.
    pub fn ahead_of(&self, query: &[f32], (score, key): (f32, &str), cancel: &dyn Cancel) -> Option<u64> {
        let (rows, keys, metric) = (self.rows(), self.keys(), self.meta().model.metric);
        if query.len() != rows.dim() {
            return None;
        }
        let windows = Windows::new(self.len(), None);
        let mut ahead = 0;
        for node in 0..rows.len() as u32 {
            if u64::from(node).is_multiple_of(ROWS_BETWEEN_LOOKS) {
                windows.after(node).into_iter().for_each(|nodes| self.read_ahead(nodes));
                if cancel.is_cancelled() {
                    return None;
                }
            }
            let other = rows.score(node, query, metric);
            ahead += u64::from(other > score || (other.total_cmp(&score).is_eq() && keys.key(node) < key));
        }
        Some(ahead)
    }

    /// Breaks ties by key and cuts at `k`.
    fn cut(&self, hits: &mut Hits<Scored>, k: usize) {
        let keys = self.keys();
        hits.cut(k, |hit| hit.score, |hit| keys.key(hit.node));
    }
}
