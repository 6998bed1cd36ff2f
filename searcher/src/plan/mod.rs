//! Plans: a request as pure data that says which stages run, and with which parameters. Nothing is executed here.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the plan |
//! | `defaults.rs` | what an operator has set for requests that leave it open |
//! | `cost/` | its expected cost |
//! | `stored_fields.rs` | which stored fields of a document are wanted |
//! | `beam.rs` | the dense searches of a request, for one page or for all |

mod beam;
mod cost;
mod defaults;
mod stored_fields;

use std::time::Duration;

use dyad_filter::document_filter;
use dyad_index::certificate::TIE_SLACK;
use dyad_index::lexical::DocumentFilter;
use dyad_index::snapshot::{DenseParams, DocumentHit, SearchMode};
use dyad_index::{Certificate, FusionMethod};
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use dyad_proto::validate::ranking_depth;

use crate::fusion::Fusion;
use beam::Beam;
pub(crate) use beam::WIDER;
pub use cost::{IndexSize, RankedParts, SearchCost};
pub use defaults::{NamedSearchDefaults, SearchDefaults, ServedSearchDefaults};
pub use stored_fields::StoredFields;

/// Hits that each ranking gives to the fusion by default.
pub(crate) const DEFAULT_FUSION_DEPTH: usize = 100;
/// The question tower's share of the deadline in modes that can answer without it.
const TOWER_SHARE: f64 = 0.7;

/// Groups hits by a field of their documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupBy {
    /// The name of the field, as filters spell it.
    pub field: String,
    /// Hits of each group, the best of all included.
    pub hits: usize,
}

/// The stages of a request and their parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPlan {
    /// The ranking, or the rankings, that the reply holds.
    pub mode: Mode,
    /// Hits of the reply.
    pub k: usize,
    /// Best hits that are left out of it.
    pub offset: usize,
    /// Least score of a hit.
    pub score_threshold: Option<f32>,
    /// The dense stage, if it runs.
    pub dense: Option<DenseParams>,
    /// What a dense ranking is joined of that is read page by page, [`Self::dense_searches`]; empty where one search
    /// gives it.
    paged: Vec<DenseParams>,
    /// Hits wanted of the BM25 stage, if it runs.
    pub text_depth: Option<usize>,
    /// How the two rankings are fused, where both run.
    pub fusion: Fusion,
    /// Stored fields of the hits.
    pub fields: StoredFields,
    /// Most bytes of a hit's text.
    pub max_text_bytes: usize,
    /// Most bytes of a hit's snippet; 0 for none.
    pub snippet_bytes: usize,
    /// Most bytes of what stands around a hit in its document; 0 for none.
    pub surrounding_bytes: usize,
    /// How hits are grouped, if they are.
    pub group_by: Option<GroupBy>,
    /// Best hits that a cross encoder scores again; 0 for none.
    pub rerank_depth: usize,
    /// Weight of its scores in their order; none where that is the index's.
    pub rerank_weight: Option<f64>,
    /// Which documents may be hits; all where absent.
    pub filter: Option<DocumentFilter>,
    /// Why the target recall is not guaranteed.
    pub recall_note: Option<String>,
    /// Time for the question tower.
    pub tower_time: Duration,
    /// Least share of the documents that must be searched, where leaves hold the shards.
    pub min_coverage: f64,
}

impl SearchPlan {
    /// Plans a request that [`dyad_proto::validate`] has accepted; `time` is what is left of its deadline,
    /// `certificates` are those of all shards, and `own` is the index's fusion.
    pub fn new(request: &v1::SearchRequest, time: Duration, certificates: &[&Certificate], own: Fusion) -> Self {
        let mode = request.mode();
        let or = |value: u32, default: usize| if value == 0 { default } else { value as usize };
        let (k, offset) = (request.k as usize, request.offset as usize);
        let wanted = ranking_depth(request) as usize;
        let fuses = mode.fuses();
        let fusion = fusion(request, own);
        let fused = or(request.fusion_depth, DEFAULT_FUSION_DEPTH).max(fusion.least_depth());
        let depth = if fuses { fused.max(wanted) } else { wanted };
        let uses_graph = mode != Mode::Bm25 && !request.exact;
        let beam = Beam {
            request,
            uses_graph,
            certificates,
        };
        // Fused rankings have one depth, and exact ones are the same at any.
        let paged = if fuses || !uses_graph { Vec::new() } else { beam.paged() };
        let needed = paged
            .iter()
            .find(|params| params.k >= depth)
            .map_or(depth, |params| params.k);
        let (search, recall_note) = beam.search(needed);
        Self {
            mode,
            k,
            offset,
            score_threshold: request.score_threshold,
            dense: (mode != Mode::Bm25).then_some(DenseParams { k: depth, mode: search }),
            paged,
            text_depth: (mode != Mode::Dense).then_some(depth),
            fusion,
            fields: if request.keys_only {
                StoredFields::None
            } else {
                StoredFields::named(&request.fields)
            },
            max_text_bytes: or(request.max_text_bytes, usize::MAX),
            snippet_bytes: request.snippet_bytes as usize,
            surrounding_bytes: request.surrounding_bytes as usize,
            group_by: request.group_by.as_ref().map(|v1::GroupBy { field, hits }| GroupBy {
                field: field.clone(),
                hits: (*hits).max(1) as usize,
            }),
            rerank_depth: request.rerank_depth as usize,
            rerank_weight: request.rerank_weight,
            filter: request.filter.as_ref().map(document_filter),
            recall_note,
            tower_time: if fuses { time.mul_f64(TOWER_SHARE) } else { time },
            min_coverage: request.min_coverage.unwrap_or(1.0),
        }
    }

    /// The dense searches whose hits make the ranking, narrowest first; none where no vectors are compared.
    ///
    /// The first page is one search, and so is a ranking that is fused or exact. A later page, whose hits that search
    /// does not reach, is read from others that are four times as deep each, until one reaches them. The hits of each
    /// that the narrower ones have not found come after theirs, so that the ranking of every page begins with those of
    /// the pages before.
    pub fn dense_searches(&self) -> &[DenseParams] {
        let Some(dense) = &self.dense else { return &[] };
        let last = self.paged.iter().position(|params| params.k >= dense.k);
        last.and_then(|last| self.paged.get(..=last))
            .unwrap_or(std::slice::from_ref(dense))
    }

    /// The hits of a whole ranking that reach the threshold.
    pub fn above_threshold<'h>(&self, ranking: &'h [DocumentHit]) -> impl Iterator<Item = &'h DocumentHit> + use<'h> {
        let least = self.score_threshold;
        ranking
            .iter()
            .filter(move |hit| least.is_none_or(|least| hit.score >= least))
    }

    /// The hits of the reply among those of a whole ranking, where they are not grouped: of one that is ranked again,
    /// all that may come to be among them.
    pub fn page<'h>(&self, ranking: &'h [DocumentHit]) -> impl Iterator<Item = &'h DocumentHit> + use<'h> {
        let (offset, k) = if self.rerank_depth > 0 {
            (0, self.max_hits())
        } else {
            (self.offset, self.k)
        };
        // By rank, and not by the number of hits before that reach the threshold: where pages are joined of several
        // searches, a hit may be better than one before it.
        let end = (offset + k).min(ranking.len());
        self.above_threshold(ranking.get(offset..end).unwrap_or_default())
    }

    /// Hits of the whole ranking that are looked at, where they are not grouped.
    pub fn max_hits(&self) -> usize {
        (self.offset + self.k).max(self.rerank_depth)
    }

    /// Why the target recall is not guaranteed, for a question that is out of distribution in `out_of_distribution`
    /// shards.
    pub fn recall_note(&self, out_of_distribution: u32) -> Option<String> {
        let is_certified = self
            .dense
            .is_some_and(|params| matches!(params.mode, SearchMode::Certified { .. }));
        let far = (is_certified && out_of_distribution > 0).then(|| {
            format!(
                "the question is farther from the documents of {out_of_distribution} shards than those that measured recall: \
                 `dyad-indexer calibrate --queries` measures it with such questions"
            )
        });
        let notes: Vec<String> = self.recall_note.clone().into_iter().chain(far).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    /// Whether the reply has anything of the hits' documents but their keys.
    pub fn wants_documents(&self) -> bool {
        self.fields != StoredFields::None || self.snippet_bytes > 0 || self.surrounding_bytes > 0
    }

    /// Hits that each ranking is asked for.
    pub fn depth(&self) -> usize {
        self.dense
            .map(|params| params.k)
            .or(self.text_depth)
            .unwrap_or_default()
    }

    /// The same search with other such hits.
    #[must_use]
    pub fn with_depth(&self, depth: usize) -> Self {
        let paged = self
            .paged
            .iter()
            .find(|params| params.k >= depth)
            .map(|params| params.mode);
        let mode = |mode| paged.unwrap_or_else(|| wider(mode, depth + TIE_SLACK));
        let dense = self.dense.map(|params| DenseParams {
            k: depth,
            mode: mode(params.mode),
        });
        Self {
            dense,
            text_depth: self.text_depth.map(|_| depth),
            ..self.clone()
        }
    }

    /// The same search with every score.
    #[must_use]
    pub fn without_threshold(&self) -> Self {
        Self {
            score_threshold: None,
            ..self.clone()
        }
    }

    /// Beam width, 0 where no graph is searched.
    pub fn ef(&self) -> u32 {
        self.dense.and_then(|params| params.mode.ef()).unwrap_or_default() as u32
    }
}

/// A mode whose beams have at least this width.
fn wider(mode: SearchMode, least: usize) -> SearchMode {
    match mode {
        SearchMode::Exact => SearchMode::Exact,
        SearchMode::Certified {
            ef,
            out_of_distribution_ef,
        } => SearchMode::Certified {
            ef: ef.max(least),
            out_of_distribution_ef: out_of_distribution_ef.max(least),
        },
        SearchMode::Beam { ef } => SearchMode::Beam { ef: ef.max(least) },
        SearchMode::Adaptive { ef } => SearchMode::Adaptive { ef: ef.max(least) },
    }
}

/// What the request says of the fusion, and the index's own for the rest.
fn fusion(request: &v1::SearchRequest, own: Fusion) -> Fusion {
    let method = match request.fusion() {
        v1::Fusion::Rrf => FusionMethod::Rrf,
        v1::Fusion::WeightedSum => FusionMethod::WeightedSum,
        v1::Fusion::MinMax => FusionMethod::MinMax,
        v1::Fusion::LogOdds => FusionMethod::LogOdds,
        v1::Fusion::Unspecified if request.rrf_k > 0 => FusionMethod::Rrf,
        v1::Fusion::Unspecified => own.method,
    };
    let mut fusion = if method == own.method { own } else { own.by(method) };
    if request.rrf_k > 0 {
        fusion.rrf_k = request.rrf_k;
    }
    fusion.dense_weight = request.dense_weight.unwrap_or(fusion.dense_weight);
    fusion.document_weight = request.document_weight.unwrap_or(fusion.document_weight);
    fusion
}

#[cfg(test)]
mod tests;
