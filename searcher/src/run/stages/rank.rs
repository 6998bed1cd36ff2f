//! Turns the hits of a search's parts into the answer: fuses them, and reads the stored fields.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Instant;

use dyad_index::FusionMethod;
use dyad_index::lexical::FieldValue;
use dyad_index::snapshot::{DocumentHit, Snapshot};
use dyad_proto::v1::{self, Mode};
use rayon::prelude::*;

use super::answer::{Answer, AnswerHit, ComparedRankings};
use super::batch::{BatchItem, QuestionBatch, QuestionVector, micros};
use super::fetch::fetch;
use super::fuse::{NO_THRESHOLD, fusion, hits_of};
use super::groups::{Grouped, HitGroup};
use super::notes::{notes_of_fields, notes_of_words};
use super::part_results::{FilteredNodes, PartResults, Timed};
use crate::error::Result;
use crate::run::resources::reply_memory::ReplyBudget;

impl QuestionBatch {
    /// The answers to all questions, in their order, with documents unless those are read later. `budget` counts the
    /// documents of all of them. None where a ranking has to be read deeper, and this batch does not yet.
    pub(in crate::run) fn answers(&self, budget: &ReplyBudget) -> Result<Option<Vec<Answer>>> {
        let vectors = self.vectors.get().map_or(&[][..], Vec::as_slice);
        let none = QuestionVector::default();
        let one = |(number, (item, found))| {
            let mut answer = answer(self, item, vectors.get(number).unwrap_or(&none), found)?;
            if let (Some(answer), false) = (&mut answer, self.fetches_later || self.generation.on_leaves().is_some()) {
                fetch(self, item, answer, budget)?;
            }
            Ok(answer)
        };
        self.items.par_iter().zip(&self.found).enumerate().map(one).collect()
    }
}

/// One question's answer without documents. Keys are looked up for its hits alone. None where its rankings have to be
/// read deeper.
fn answer(
    batch: &QuestionBatch,
    item: &BatchItem,
    vector: &QuestionVector,
    found: &PartResults,
) -> Result<Option<Answer>> {
    let answered = item.answered_with(vector);
    let (item, ignores_threshold) = (&*answered, matches!(answered, Cow::Owned(_)));
    let plan = &item.plan;
    let fusing = Instant::now();
    let by_leaves = found.grouped.get().map(|grouped| &**grouped);
    let grouped = match &plan.group_by {
        Some(by) if by_leaves.is_none() => match batch.grouped(item, by, vector, found)? {
            Some(grouped) => Some(grouped),
            None => return Ok(None),
        },
        _ => None,
    };
    let grouped = by_leaves.or(grouped.as_ref());
    let deeper = grouped.and_then(|grouped| grouped.deeper.as_ref());
    let question = AnsweredQuestion {
        batch,
        item,
        vector,
        filtered: found.filter.get(),
        found: deeper.unwrap_or(found),
        grouped,
    };
    let AnswerRankings { hits, compared } = question.rankings()?;
    let fuse_us = micros(fusing);
    let fusion = plan.mode.fuses().then(|| fusion(plan, vector, question.found));
    let damage = match question.found.on_leaves.get() {
        Some(on_leaves) => on_leaves.damage.clone(),
        None => batch.snapshot.damage().map(|error| error.to_string()),
    };
    let degraded = degraded(vector, ignores_threshold, damage, batch.scope.is_some());
    let response = v1::SearchResponse {
        fusion: fusion
            .map_or(v1::Fusion::Unspecified, |fusion| fusion_method(fusion.method))
            .into(),
        dense_weight: fusion.map_or(0.0, |fusion| fusion.dense_weight),
        degraded: degraded.is_some(),
        degraded_reason: degraded.unwrap_or_default(),
        coverage: Some(match question.found.on_leaves.get() {
            Some(on_leaves) => on_leaves.coverage.clone(),
            None => batch.coverage()?,
        }),
        timings: Some(question.timings(fuse_us)),
        ..question.response()
    };
    Ok(Some(Answer {
        response,
        fusion,
        exactness: question.found.exactness().to_vec(),
        hits,
        compared,
        k: plan.k,
        offset: plan.offset,
    }))
}

/// The hits of an answer: one ranking, or the three of `MODE_COMPARE`.
struct AnswerRankings {
    hits: Vec<AnswerHit>,
    compared: Option<ComparedRankings>,
}

/// A question whose parts are done, and what is known of its answer.
struct AnsweredQuestion<'a> {
    batch: &'a QuestionBatch,
    item: &'a BatchItem,
    vector: &'a QuestionVector,
    filtered: Option<&'a FilteredNodes>,
    /// What the parts have found, the deeper ones where its groups needed some.
    found: &'a PartResults,
    grouped: Option<&'a Grouped>,
}

impl AnsweredQuestion<'_> {
    /// The hits that the reply shows, by the mode of the plan.
    fn rankings(&self) -> Result<AnswerRankings> {
        let (plan, dense, text) = (&self.item.plan, hits_of(&self.found.dense), hits_of(&self.found.text));
        let ranking = Ranking {
            snapshot: &self.batch.snapshot,
            found: self.found,
            dense: placements(dense),
            text: placements(text),
        };
        let single = |hits: &[DocumentHit]| ranking.hits(plan.page(hits));
        let mut compared = None;
        let hits = match (plan.mode, self.grouped) {
            (Mode::Compare, _) => {
                compared = Some(ComparedRankings {
                    dense: single(dense),
                    bm25: single(text),
                    hybrid: self.fused(&ranking)?,
                });
                Vec::new()
            }
            (_, Some(grouped)) => {
                let groups = grouped.groups.iter().skip(plan.offset);
                groups.filter_map(|group| ranking.group(group)).collect()
            }
            (Mode::Dense | Mode::Unspecified, None) => single(dense),
            (Mode::Bm25, None) => single(text),
            (Mode::Hybrid, None) => self.fused(&ranking)?,
        };
        Ok(AnswerRankings { hits, compared })
    }

    fn fused(&self, ranking: &Ranking<'_>) -> Result<Vec<AnswerHit>> {
        let plan = &self.item.plan;
        let wanted = plan.max_hits();
        let whole = self
            .batch
            .whole_ranking(plan, &self.item.query, self.vector, self.found, wanted)?;
        Ok(ranking.hits(plan.page(&whole)))
    }

    /// The depth to which rankings were read for its groups, where that is more than its plan's.
    fn deeper_depth(&self) -> Option<usize> {
        let grouped = self.grouped.filter(|grouped| grouped.deeper.is_some());
        grouped.map(|grouped| grouped.depth)
    }

    fn notes(&self) -> Vec<String> {
        let (plan, snapshot) = (&self.item.plan, &self.batch.snapshot);
        let of_filter = self.filtered.map(|filtered| filtered.notes.clone());
        let of_words = plan.text_depth.map_or_else(Vec::new, |_| {
            notes_of_words(snapshot, &self.item.query, hits_of(&self.found.text))
        });
        let of_fields = match self.found.on_leaves.get() {
            Some(on_leaves) => on_leaves.field_notes.clone(),
            None => notes_of_fields(snapshot, &plan.fields, self.batch.scope.is_some()),
        };
        let of_documents = self
            .found
            .on_leaves
            .get()
            .and_then(|on_leaves| on_leaves.documents_note.clone());
        let of_groups = self.grouped.and_then(|grouped| grouped.note.clone());
        let of_depth = self.deeper_depth().map(deeper_note);
        let of_depth = of_depth.filter(|_| plan.mode == Mode::Hybrid);
        of_filter
            .into_iter()
            .flatten()
            .chain(of_fields)
            .chain(of_words)
            .chain(of_documents)
            .chain(of_groups)
            .chain(of_depth)
            .collect()
    }

    /// The beam width of its search; 0 where it was answered without a vector.
    fn ef(&self) -> u32 {
        let plan = &self.item.plan;
        if self.vector.values.is_none() {
            return 0;
        }
        self.deeper_depth()
            .map_or(plan.ef(), |depth| plan.with_depth(depth).ef())
    }

    /// What the reply says of the search, but for its fusion, its degradation and its times.
    fn response(&self) -> v1::SearchResponse {
        let (batch, plan, vector, found) = (self.batch, &self.item.plan, self.vector, self.found);
        let manifest = batch.snapshot.manifest();
        let cost = found.dense.get().map(|(hits, _)| hits.cost);
        let scans = cost.map(|cost| cost.scans);
        let filter = self
            .filtered
            .map(|filtered| filter_execution(filtered, scans, manifest.shards.len() as u32));
        // The recall of scans does not depend on what was measured of graphs.
        let by_graph = vector.values.is_some() && filter.as_ref().is_none_or(|filter| filter.graph_shards > 0);
        let cost = cost.unwrap_or_default();
        v1::SearchResponse {
            mode: plan.mode.into(),
            document_weight: found.document_weight.get().copied().unwrap_or_default(),
            index: batch.index.name.to_string(),
            generation: manifest.generation,
            fingerprint: manifest.model.fingerprint.clone(),
            ef: self.ef(),
            recall_note: plan
                .recall_note(cost.out_of_distribution)
                .filter(|_| by_graph)
                .unwrap_or_default(),
            distance_computations: cost.total(),
            out_of_distribution_shards: cost.out_of_distribution,
            query_tokens: vector.tokens,
            query_truncated: vector.truncated,
            notes: self.notes(),
            filter,
            ..v1::SearchResponse::default()
        }
    }

    fn timings(&self, fuse_us: u64) -> v1::Timings {
        let took = |part: &OnceLock<Timed>| part.get().map_or(0, |(_, took)| *took);
        v1::Timings {
            total_us: micros(self.batch.started),
            dense_us: took(&self.found.dense),
            bm25_us: took(&self.found.text),
            filter_us: self.filtered.map_or(0, |filtered| filtered.took_us),
            fuse_us,
            ..self.vector.timings
        }
    }
}

/// How an index records its fusion, as replies name it.
pub(crate) fn fusion_method(method: FusionMethod) -> v1::Fusion {
    match method {
        FusionMethod::Rrf => v1::Fusion::Rrf,
        FusionMethod::WeightedSum => v1::Fusion::WeightedSum,
        FusionMethod::MinMax => v1::Fusion::MinMax,
        FusionMethod::LogOdds => v1::Fusion::LogOdds,
    }
}

/// How a filter was run; `scans` are the shards that were scanned, where any were searched.
fn filter_execution(filtered: &FilteredNodes, scans: Option<u32>, shards: u32) -> v1::FilterExecution {
    let scanned_shards = scans.unwrap_or_default();
    let graph_shards = scans.map_or(0, |scans| shards.saturating_sub(scans));
    v1::FilterExecution {
        documents: filtered.documents,
        scanned_shards,
        graph_shards,
        cached: filtered.cached,
    }
}

fn deeper_note(depth: usize) -> String {
    format!("{depth} hits of each ranking were read for these groups; a page that needs fewer may rank them otherwise")
}

/// What is missing from the answer, and why.
fn degraded(
    vector: &QuestionVector,
    ignores_threshold: bool,
    damage: Option<String>,
    is_restricted: bool,
) -> Option<String> {
    // The reason names files.
    let damage = damage.map(|reason| {
        if is_restricted {
            "a shard is damaged".to_owned()
        } else {
            reason
        }
    });
    let damage = damage.map(|reason| format!("hits may be missing: {reason}"));
    let threshold = ignores_threshold.then(|| NO_THRESHOLD.to_owned());
    let reasons: Vec<String> = vector
        .degraded
        .clone()
        .into_iter()
        .chain(threshold)
        .chain(damage)
        .collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// Every document's placement in a ranking.
fn placements(hits: &[DocumentHit]) -> HashMap<(usize, u32), v1::Placement> {
    let place = |(rank, hit): (u32, &DocumentHit)| ((hit.shard, hit.node), v1::Placement { rank, score: hit.score });
    (1u32..).zip(hits).map(place).collect()
}

/// The placements of documents in the rankings that ran, and their keys.
struct Ranking<'a> {
    snapshot: &'a Snapshot,
    found: &'a PartResults,
    dense: HashMap<(usize, u32), v1::Placement>,
    text: HashMap<(usize, u32), v1::Placement>,
}

impl Ranking<'_> {
    fn hits<'h>(&self, hits: impl IntoIterator<Item = &'h DocumentHit>) -> Vec<AnswerHit> {
        hits.into_iter().filter_map(|hit| self.with_placements(hit)).collect()
    }

    /// None where the keys are damaged.
    fn with_placements(&self, hit: &DocumentHit) -> Option<AnswerHit> {
        let &DocumentHit { score, shard, node } = hit;
        let hit = v1::Hit {
            key: self.found.key(self.snapshot, hit)?.to_owned(),
            score,
            dense: self.dense.get(&(shard, node)).copied(),
            bm25: self.text.get(&(shard, node)).copied(),
            ..v1::Hit::default()
        };
        Some(AnswerHit {
            hit,
            shard,
            node,
            members: Vec::new(),
        })
    }

    /// The best hit of a group, with the others.
    fn group(&self, group: &HitGroup) -> Option<AnswerHit> {
        let mut hits = self.hits(&group.hits).into_iter();
        let mut best = hits.next()?;
        let value = group.value.clone().map(field_value);
        best.hit.group = Some(v1::Group {
            value,
            hits: Vec::new(),
        });
        best.members = hits.collect();
        Some(best)
    }
}

/// A field's value as replies have it.
pub(in crate::run) fn field_value(value: FieldValue) -> v1::FilterValue {
    use v1::filter_value::Value;
    let value = match value {
        FieldValue::Text(text) => Value::Text(text),
        FieldValue::Number(number) => number.digits().map_or(Value::Number(number.nearest()), Value::Integer),
        FieldValue::Flag(flag) => Value::Flag(flag),
    };
    v1::FilterValue { value: Some(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_once_and_with_all_its_reasons() {
        let without = QuestionVector {
            degraded: Some("no question vector".into()),
            ..QuestionVector::default()
        };
        let damage = || Some("damage in /there".to_owned());
        let said = format!("hits may be missing: {}", damage().unwrap());
        assert_eq!(degraded(&QuestionVector::default(), false, None, false), None);
        assert_eq!(
            degraded(&without, false, None, false).as_deref(),
            Some("no question vector")
        );
        assert_eq!(
            degraded(&QuestionVector::default(), false, damage(), false),
            Some(said.clone())
        );
        assert_eq!(
            degraded(&without, false, damage(), false).unwrap(),
            format!("no question vector; {said}")
        );
        let threshold = degraded(&without, true, None, false).unwrap();
        assert_eq!(threshold, format!("no question vector; {NO_THRESHOLD}"));
        let told = degraded(&QuestionVector::default(), false, damage(), true);
        assert_eq!(told.as_deref(), Some("hits may be missing: a shard is damaged"));
    }
}
