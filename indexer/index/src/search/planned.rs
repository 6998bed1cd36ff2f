//! Searches of a shard as they are served: by its graph or by a scan, whichever costs less.
//!
//! A filtered search takes the cheapest of three ways: a scan of the allowed nodes; a beam among all nodes, as much
//! wider as fewer are allowed; a beam among the allowed ones, with the links of the others (`SearchParams::two_hop`).

use super::filter_plan::{
    CODES_PER_EXPANSION, CODES_PER_TWO_HOPS, FilterPlan, LEAST_AMONG_ALLOWED, most_expansions, scan_cost, wide,
};
use super::interleaved::SearchScratch;
use super::params::{Far, MinCompetitive, OutOfDistribution, SearchParams};
use super::view::ShardView;
use super::{Completeness, Cost, ExactRows, NodeSet, Scored, SearchHits, SlotLinks, UpperLayers};
use crate::certificate::Certificate;

/// How much wider than `ef` the beam is for a question near which little is allowed: its hits lie on all sides of that,
/// many score nearly the same, and a margin means nothing. Measured on 100,000 MiniLM sentences, half of them allowed,
/// those farthest from the question: recall@10 at ef 40 with a beam as wide .880, 1.5 times .920, twice .936.
const FAR: usize = 2;

/// So few allowed nodes are compared by their vectors and not by their codes, and so are twice the wanted hits: exact,
/// and no slower. Measured as above, in microseconds for 100, 200, 300 and 500 nodes: by vectors 2, 4, 6, 9; by codes
/// from 300 on 5.
const EXACT: usize = 256;

/// An adaptive search takes what it lacks from a certificate: the margin between two ranks, the bound of its
/// expansions, and what becomes of questions that are out of distribution. Where margins find as much as beams of its
/// width only at a greater one, that is the width of its margin; where that would cost more, or none does, it is a
/// beam.
fn adapted<'a>(params: &SearchParams<'a>, certificate: &Certificate, near: usize, far: usize) -> SearchParams<'a> {
    if !params.adaptive {
        return *params;
    }
    let ef = params.out_of_distribution_ef.unwrap_or(params.ef);
    let by_certificate = || {
        let below = certificate.lowest_score(near)?;
        Some(OutOfDistribution { below, ef })
    };
    let out_of_distribution = params.out_of_distribution.or_else(by_certificate);
    let Some(width) = certificate.adaptive_width(params.k, params.ef) else {
        return SearchParams {
            out_of_distribution,
            ..*params
        };
    };
    let far = if width > params.ef {
        far.saturating_mul(width).div_ceil(params.ef.max(1))
    } else {
        far
    };
    let margin = params.margin.or_else(|| certificate.margin(near, far));
    let expansion_bound = params
        .expansion_bound
        .or_else(|| certificate.expansion_bound(near, far));
    SearchParams {
        margin,
        out_of_distribution,
        expansion_bound,
        ..*params
    }
}

/// A question of a search, and what was already spent on it.
#[derive(Debug, Clone, Copy)]
pub struct PlannedQuestion<'a> {
    /// The place of the question among those of the call.
    pub number: usize,
    /// The vector of the question.
    pub query: &'a [f32],
    /// Scores computed so far.
    pub cost: Cost,
    /// What was found of the shard so far: damage may not be met again.
    pub completeness: Completeness,
}

impl<'a> PlannedQuestion<'a> {
    /// All questions of a search, nothing spent on them.
    pub fn all(queries: &[&'a [f32]]) -> Vec<Self> {
        let new = |(number, query): (usize, &&'a [f32])| Self {
            number,
            query,
            cost: Cost::default(),
            completeness: Completeness::Complete,
        };
        queries.iter().enumerate().map(new).collect()
    }

    /// Its hits, with all that was spent on it.
    pub fn finish(&self, mut hits: SearchHits<Scored>) -> SearchHits<Scored> {
        hits.cost += self.cost;
        hits.worsen(self.completeness);
        hits
    }
}

/// What each of these questions has among the slots of all questions; a slot that does not exist where they are too
/// few.
fn of_questions(slots: &[u32], questions: &[PlannedQuestion<'_>]) -> Vec<u32> {
    questions
        .iter()
        .map(|question| slots.get(question.number).copied().unwrap_or(u32::MAX))
        .collect()
}

/// A shard, and what was measured of its graph.
#[derive(Debug)]
pub struct PlannedSearch<'a, L: ?Sized, R: ?Sized> {
    /// The parts that are searched.
    pub view: ShardView<'a, L, R>,
    /// Measured among all nodes.
    pub certificate: &'a Certificate,
}

impl<L: SlotLinks + UpperLayers + ?Sized, R: ExactRows + ?Sized> PlannedSearch<'_, L, R> {
    fn nodes(&self) -> usize {
        self.view.codes.len()
    }

    /// Searches for every question; `found` is called as by [`ShardView::search`]. Returns the questions that it is not
    /// called for: few nodes are allowed, or the graph is damaged, and the caller is to compare them with all nodes
    /// that are allowed and live.
    pub fn search<'q>(
        &self,
        questions: &[PlannedQuestion<'q>],
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, SearchHits<Scored>),
    ) -> Vec<PlannedQuestion<'q>> {
        let planned = match params.allowed {
            Some(allowed) => self.planned_filtered(params, allowed),
            None => self.planned(params),
        };
        let Some(planned) = planned else {
            let allowed = params.allowed.or(params.live);
            return self.scan_allowed(questions, &SearchParams { allowed, ..*params }, scratch, found);
        };
        let missed = self.search_graph(questions, &planned, scratch, found);
        self.scan_allowed(&missed, &planned, scratch, found)
    }

    /// What the graph alone finds for one question, without a filter: no scan makes up for what it lacks.
    pub fn search_graph_alone(
        &self,
        query: &[f32],
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
    ) -> SearchHits<Scored> {
        let (near, far) = (params.k.max(1), params.ef.max(params.k).max(1));
        self.view
            .search_one(query, &adapted(params, self.certificate, near, far), scratch)
    }

    /// Searches the graph for all questions; returns those that found too few.
    fn search_graph<'q>(
        &self,
        questions: &[PlannedQuestion<'q>],
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, SearchHits<Scored>),
    ) -> Vec<PlannedQuestion<'q>> {
        let wanted = params.allowed.map_or(self.nodes(), NodeSet::len).min(params.k);
        let queries: Vec<&[f32]> = questions.iter().map(|question| question.query).collect();
        let score =
            |others: MinCompetitive<'_>, number| others.scores.get(number).copied().unwrap_or(f32::NEG_INFINITY);
        let certificate = params.certificate.unwrap_or(self.certificate);
        let own_margin = params.margin.or_else(|| certificate.margin(params.k, params.ef));
        // In a shard that is too small for a margin the beam is as wide as always.
        let others = params.min_competitive.filter(|_| own_margin.is_some());
        let scores = others.map_or_else(Vec::new, |others| {
            questions
                .iter()
                .map(|question| score(others, question.number))
                .collect()
        });
        let min_competitive = others.map(|others| MinCompetitive {
            scores: &scores,
            own_margin,
            ..others
        });
        let left_out = params.left_out.map(|slots| of_questions(slots, questions));
        let params = &SearchParams {
            min_competitive,
            left_out: left_out.as_deref(),
            ..*params
        };
        let mut missed = Vec::new();
        self.view.search(&queries, params, scratch, |at, result| {
            let Some(question) = questions.get(at) else { return };
            // A damaged search may have reached `max_expansions` as well.
            let maybe_limited = params.max_expansions.is_some() && result.completeness == Completeness::Damaged;
            // Those that are missing may not be competitive.
            let few = result.hits.len() < wanted && scores.get(at).is_none_or(|score| *score == f32::NEG_INFINITY);
            let too_few = few || result.completeness == Completeness::Limited || maybe_limited;
            let result = question.finish(result);
            if too_few && !result.is_cancelled() {
                let damaged = result.completeness == Completeness::Damaged;
                let completeness = if damaged {
                    Completeness::Damaged
                } else {
                    Completeness::Complete
                };
                missed.push(PlannedQuestion {
                    cost: result.cost,
                    completeness,
                    ..*question
                });
            } else {
                found(question.number, result);
            }
        });
        missed
    }

    /// Compares the questions with all allowed nodes, by their codes; returns them all where there are few.
    fn scan_allowed<'q>(
        &self,
        questions: &[PlannedQuestion<'q>],
        params: &SearchParams<'_>,
        scratch: &mut SearchScratch,
        found: &mut impl FnMut(usize, SearchHits<Scored>),
    ) -> Vec<PlannedQuestion<'q>> {
        let Some(allowed) = params
            .allowed
            .filter(|allowed| allowed.len() > EXACT.max(params.k.saturating_mul(2)))
        else {
            return questions.to_vec();
        };
        let queries: Vec<&[f32]> = questions.iter().map(|question| question.query).collect();
        let left_out = params.left_out.map(|slots| of_questions(slots, questions));
        let params = &SearchParams {
            left_out: left_out.as_deref(),
            ..*params
        };
        self.view.scan_codes(&queries, allowed, params, scratch, |at, hits| {
            let Some(question) = questions.get(at) else { return };
            found(question.number, question.finish(hits));
        });
        Vec::new()
    }

    /// The parameters of the graph search without a filter; none where a scan of the live nodes costs less.
    fn planned<'a>(&self, params: &SearchParams<'a>) -> Option<SearchParams<'a>> {
        let (k, ef) = (params.k.max(1), params.ef.max(params.k).max(1));
        let params = SearchParams { k, ef, ..*params };
        let certificate = params.certificate.unwrap_or(self.certificate);
        let Some(nodes) = params.live else {
            return Some(adapted(&params, certificate, k, ef));
        };
        // Deleted nodes are traversed, and taken to be spread like the others.
        let (count, wide) = (nodes.len(), self.wide(ef, nodes.len(), self.nodes()));
        let max_expansions = Some(most_expansions(count));
        let planned = adapted(&params, certificate, k, ef);
        // Without a margin the search goes on until it has `ef` live nodes.
        let ef = if planned.margin.is_some() { wide } else { ef };
        let planned = SearchParams {
            ef,
            max_expansions,
            allowed: Some(nodes),
            ..planned
        };
        (scan_cost(count) > wide as f64 * CODES_PER_EXPANSION).then_some(planned)
    }

    /// The parameters of the graph search through a filter; none where a scan of the allowed nodes costs less.
    fn planned_filtered<'a>(&self, params: &SearchParams<'a>, allowed: &'a NodeSet) -> Option<SearchParams<'a>> {
        let (k, ef) = (params.k.max(1), params.ef.max(params.k).max(1));
        // Margins are between ranks among all live nodes, of which the allowed ones are a share.
        let certificate = params.certificate.unwrap_or(self.certificate);
        let of = params.live.map_or(self.nodes(), NodeSet::len);
        let rank = |count: usize| self.wide(count, allowed.len(), of);
        let far_ef = ef.saturating_mul(FAR);
        let share = allowed.len() as f64 / self.nodes() as f64;
        let walks_far = share >= LEAST_AMONG_ALLOWED && far_ef as f64 * CODES_PER_TWO_HOPS < scan_cost(allowed.len());
        let far = Far {
            share,
            ef: walks_far.then_some(far_ef),
        };
        let params = SearchParams {
            k,
            ef,
            far: Some(far),
            ..*params
        };
        // The bound is of searches without a filter.
        let expansion_bound = params.expansion_bound;
        let planned = adapted(&params, certificate, rank(k), rank(ef));
        let planned = SearchParams {
            expansion_bound,
            ..planned
        };
        match FilterPlan::new(ef, allowed.len(), self.nodes()) {
            FilterPlan::Scan => None,
            FilterPlan::AmongAllowed => Some(SearchParams {
                two_hop: true,
                ..planned
            }),
            FilterPlan::AmongAll(wide) => {
                let max_expansions = Some(most_expansions(allowed.len()));
                // Without a margin the search goes on until it has `ef` allowed nodes.
                let ef = if planned.margin.is_some() { wide } else { ef };
                Some(SearchParams {
                    ef,
                    max_expansions,
                    ..planned
                })
            }
        }
    }

    /// Nodes among which there are about `count` allowed ones, where `allowed` are of all `nodes`.
    fn wide(&self, count: usize, allowed: usize, nodes: usize) -> usize {
        wide(count, allowed, nodes).min(self.nodes())
    }
}
