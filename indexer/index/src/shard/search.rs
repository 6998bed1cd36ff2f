//! Searching one shard: by its graph or exactly, with and without a filter.

use std::cell::RefCell;

use super::reader::DenseShard;
use super::windows::Windows;
use crate::format::FormatFault;
use crate::search::{
    Completeness, ExactRows as _, NodeSet, PlannedQuestion, PlannedSearch, ROWS_BETWEEN_CHECKS, RowQuestion,
    SCAN_BATCH, Scored, SearchHits, SearchParams, SearchScratch, ShardView, SlotLinks as _, exact_scan,
    slots_of_vector,
};
use dyad_files::{Cancel, Never};

thread_local! {
    /// Search threads are long-lived, so each keeps its scratch memory for the next search.
    static SCRATCH: RefCell<SearchScratch> = RefCell::default();
}

impl DenseShard {
    /// The `k` nearest by the graph, score descending, then key ascending. `query` holds `dim` finite values. Without a
    /// margin in `params`, that of the certificate is used; where the filter allows few nodes, those are compared
    /// exactly.
    pub fn search(&self, query: &[f32], params: &SearchParams<'_>) -> SearchHits<Scored> {
        let mut hits = SearchHits::default();
        self.search_batch(&[query], params, |_, found| hits = found);
        hits
    }

    /// Searches for many questions on this thread, interleaved to hide the latency of memory. `found` is called once
    /// for each question, with its number and its hits, in no fixed order.
    pub fn search_batch(
        &self,
        queries: &[&[f32]],
        params: &SearchParams<'_>,
        mut found: impl FnMut(usize, SearchHits<Scored>),
    ) {
        if params.k == 0 {
            return (0..queries.len()).for_each(|number| found(number, SearchHits::default()));
        }
        let left_out_slots = params.left_out.unwrap_or_default();
        let left_out: Vec<Vec<u32>> = left_out_slots.iter().map(|slot| self.same_vector(*slot)).collect();
        let mut found = |number: usize, mut hits: SearchHits<Scored>| {
            if let Some(nodes) = left_out.get(number) {
                hits.hits.retain(|hit| !nodes.contains(&hit.node));
            }
            self.keep_top_k(&mut hits, params.k);
            found(number, self.report_damage(hits));
        };
        let (links, rows) = (self.graph(), self.rows());
        let (order, metric) = (Some(links.order()), self.meta().model.metric);
        let view = ShardView {
            codes: self.codes(),
            links: &links,
            order,
            rows: &rows,
            metric,
        };
        let (planned, questions) = (
            PlannedSearch {
                view,
                certificate: self.certificate(),
            },
            PlannedQuestion::all(queries),
        );
        let left = SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            Ok(mut scratch) => planned.search(&questions, params, &mut scratch, &mut found),
            // `found` itself is searching on this thread.
            Err(_) => planned.search(&questions, params, &mut SearchScratch::default(), &mut found),
        });
        let allowed = params.allowed.or(params.live);
        // A scan finds what is left out.
        let k = params.k + left_out.iter().map(Vec::len).max().unwrap_or(0);
        self.scan(&left, &SearchParams { k, allowed, ..*params }, &mut found);
    }

    /// The nodes that have the vector of a slot.
    pub fn same_vector(&self, slot: u32) -> Vec<u32> {
        let links = self.graph();
        let slots = slots_of_vector(&links, links.representative(slot));
        slots
            .filter_map(|slot| links.order().get(slot as usize))
            .copied()
            .collect()
    }

    /// The `k` nearest by comparing with every vector, or with those that are allowed.
    pub fn search_exact(&self, query: &[f32], k: usize, allowed: Option<&NodeSet>) -> SearchHits<Scored> {
        let mut hits = SearchHits::default();
        self.search_exact_batch(&[query], k, allowed, &Never, |_, found| hits = found);
        hits
    }

    /// [`Self::search_exact`] for many questions, cancellable. A cancelled search and a question of another dimension
    /// find nothing.
    pub fn search_exact_batch(
        &self,
        queries: &[&[f32]],
        k: usize,
        allowed: Option<&NodeSet>,
        cancel: &dyn Cancel,
        mut found: impl FnMut(usize, SearchHits<Scored>),
    ) {
        let params = SearchParams {
            allowed,
            cancel,
            ..SearchParams::new(k, k)
        };
        self.scan(&PlannedQuestion::all(queries), &params, &mut |number, mut hits| {
            self.keep_top_k(&mut hits, k);
            found(number, self.report_damage(hits));
        });
    }

    /// The exact score of a node; none where its vector is damaged, which is recorded as [`Self::damage`].
    pub fn score(&self, node: u32, query: &[f32]) -> Option<f32> {
        self.scores(std::iter::once(node), query).pop().flatten()
    }

    /// As [`Self::score`], of many nodes in their order.
    pub fn scores(&self, nodes: impl Iterator<Item = u32>, query: &[f32]) -> Vec<Option<f32>> {
        let rows = self.rows();
        let question = RowQuestion::new(&rows, query, self.meta().model.metric);
        let score_of = |node| {
            let score = question.score(node);
            if score.is_nan() && !rows.is_valid(node) {
                self.note_damage(FormatFault::new(
                    "VECTORS",
                    "finite values",
                    format!("others for node {node}"),
                ));
            }
            Some(score).filter(|score| !score.is_nan())
        };
        nodes.map(score_of).collect()
    }

    /// Records the damage that a search has found; from then on every search of this shard is reported as damaged.
    fn report_damage(&self, mut hits: SearchHits<Scored>) -> SearchHits<Scored> {
        if hits.completeness == Completeness::Damaged {
            let expected = "slots and nodes of this shard, and finite values";
            self.note_damage(FormatFault::new(
                "GRAPH, CODES or VECTORS",
                expected,
                "others, found by a search",
            ));
        }
        if self.is_damaged() {
            hits.worsen(Completeness::Damaged);
        }
        hits
    }

    fn scan(
        &self,
        questions: &[PlannedQuestion<'_>],
        params: &SearchParams<'_>,
        found: &mut impl FnMut(usize, SearchHits<Scored>),
    ) {
        let (rows, metric) = (self.rows(), self.meta().model.metric);
        let (valid, mismatched): (Vec<_>, Vec<_>) = questions
            .iter()
            .copied()
            .partition(|question| question.query.len() == rows.dim());
        for question in mismatched {
            found(question.number, SearchHits::default());
        }
        for batch in valid.chunks(SCAN_BATCH) {
            let queries: Vec<&[f32]> = batch.iter().map(|question| question.query).collect();
            let windows = Windows::new(self.len(), params.allowed);
            let scanned = exact_scan(&rows, &queries, params.k, metric, params.allowed, |node| {
                windows.next(node).into_iter().for_each(|nodes| self.read_ahead(nodes));
                !params.cancel.is_cancelled()
            });
            for (question, hits) in batch.iter().zip(scanned) {
                found(question.number, question.finish(hits));
            }
        }
    }

    /// Number of nodes, of all or of the live ones, that rank before a document of score `score` and key `key` in the
    /// exact ranking; none where the scan was cancelled, or for a question of another dimension.
    pub fn ahead_of(
        &self,
        query: &[f32],
        score: f32,
        key: &str,
        live: Option<&NodeSet>,
        cancel: &dyn Cancel,
    ) -> Option<u64> {
        let (rows, keys) = (self.rows(), self.keys());
        let question = RowQuestion::new(&rows, query, self.meta().model.metric);
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
            let other = question.score(node);
            ahead += u64::from(other > score || (other.total_cmp(&score).is_eq() && keys.key(node) < key));
        }
        Some(ahead)
    }

    /// Keeps the best `k`, ties broken by key.
    fn keep_top_k(&self, hits: &mut SearchHits<Scored>, k: usize) {
        let keys = self.keys();
        hits.keep_top_k(k, |hit| hit.score, |hit| keys.key(hit.node));
    }
}
