//! Turns the hits of a search's parts into the answer: fuses them, and reads the stored fields.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use dyad_index::FusionMethod;
use dyad_index::lexical::{FieldValue, MAX_WORD_BYTES, Snippet, Snippets, question_note, script_note};
use dyad_index::snapshot::{DocumentHit, Snapshot};
use dyad_proto::v1;
use dyad_proto::v1::Mode;
use rayon::prelude::*;

use super::answer::{Answer, AnswerHit, ComparedRankings, reply_document};
use super::batch::{BatchItem, FilteredNodes, PartResults, QuestionBatch, QuestionVector, micros};
use super::fuse::{NO_THRESHOLD, fusion};
use super::groups::HitGroup;
use super::surrounding::Surroundings;
use crate::error::{Error, Result};
use crate::plan::StoredFields;
use crate::run::resources::reply_memory::ReplyBudget;

impl QuestionBatch {
    /// The answers to all questions, in their order, with documents unless those are read later. `budget` counts the
    /// documents of all of them. None where a ranking has to be read deeper, and this batch does not yet.
    pub(in crate::run) fn answers(&self, budget: &ReplyBudget) -> Result<Option<Vec<Answer>>> {
        let vectors = self.vectors.get().map_or(&[][..], Vec::as_slice);
        let none = QuestionVector::default();
        let one = |(number, (item, found))| {
            let mut answer = answer(self, item, vectors.get(number).unwrap_or(&none), found)?;
            if let (Some(answer), false) = (&mut answer, self.fetches_later) {
                fetch(self, item, answer, budget)?;
            }
            Ok(answer)
        };
        self.items.par_iter().zip(&self.found).enumerate().map(one).collect()
    }

    /// Reads the documents of answers that have none yet.
    pub(in crate::run) fn fetch(&self, answers: &mut [Answer], budget: &ReplyBudget) -> Result<()> {
        self.items
            .iter()
            .zip(answers)
            .try_for_each(|(item, answer)| fetch(self, item, answer, budget))
    }
}

/// About what a hit without its document takes, next to its key, in the answer and in the reply.
const HIT_BYTES: usize = 128;

fn bytes_of_hits(answer: &Answer) -> usize {
    let lists = answer
        .compared
        .iter()
        .flat_map(|all| [&all.dense, &all.bm25, &all.hybrid]);
    let hits = answer.hits.iter().chain(lists.flatten());
    let with_groups = hits.flat_map(|best| std::iter::once(best).chain(&best.members));
    with_groups.map(|answer| HIT_BYTES + answer.hit.key.len()).sum()
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
    let (QuestionBatch { snapshot, started, .. }, plan) = (batch, &item.plan);
    let fusing = Instant::now();
    let grouped = match &plan.group_by {
        Some(by) => match batch.grouped(item, by, vector, found)? {
            Some(grouped) => Some(grouped),
            None => return Ok(None),
        },
        None => None,
    };
    let filtered = found.filter.get();
    let found = grouped
        .as_ref()
        .and_then(|grouped| grouped.deeper.as_ref())
        .unwrap_or(found);
    let deeper = grouped
        .as_ref()
        .filter(|grouped| grouped.deeper.is_some())
        .map(|grouped| grouped.depth);
    let deeper_note = deeper.map(deeper_note);
    let none = Default::default();
    let (dense, text) = (found.dense.get().unwrap_or(&none), found.text.get().unwrap_or(&none));

    let ranking = Ranking {
        snapshot,
        dense: placements(&dense.0.hits),
        text: placements(&text.0.hits),
    };
    let single = |hits: &[DocumentHit]| ranking.hits(plan.page(hits));
    let wanted = plan.wanted();
    let fused = || {
        let whole = batch.whole_ranking((plan, &item.query), vector, found, wanted)?;
        Ok::<_, Error>(ranking.hits(plan.page(&whole)))
    };
    let (mut hits, mut compared) = (Vec::new(), None);
    match (plan.mode, &grouped) {
        (Mode::Compare, _) => {
            let (dense, bm25) = (single(&dense.0.hits), single(&text.0.hits));
            compared = Some(ComparedRankings {
                dense,
                bm25,
                hybrid: fused()?,
            });
        }
        (_, Some(grouped)) => {
            hits = grouped
                .groups
                .iter()
                .skip(plan.offset)
                .filter_map(|group| ranking.group(group))
                .collect();
        }
        (Mode::Dense | Mode::Unspecified, None) => hits = single(&dense.0.hits),
        (Mode::Bm25, None) => hits = single(&text.0.hits),
        (Mode::Hybrid, None) => hits = fused()?,
    }
    let fuse_us = micros(fusing);

    let of_filter = filtered.map(|filtered| filtered.notes.clone());
    let of_words = plan
        .text_depth
        .map_or_else(Vec::new, |_| notes_of_words(snapshot, &item.query, &text.0.hits));
    let of_groups = grouped.as_ref().and_then(|grouped| grouped.note.clone());
    let of_depth = deeper_note.filter(|_| plan.mode == Mode::Hybrid);
    let notes = of_filter
        .into_iter()
        .flatten()
        .chain(of_words)
        .chain(of_groups)
        .chain(of_depth)
        .collect();
    let scans = found.dense.get().map(|(hits, _)| hits.cost.scans);
    let filter = filtered.map(|filtered| filter_execution(filtered, scans, snapshot.shards().len() as u32));
    // The recall of scans does not depend on what was measured of graphs.
    let by_graph = vector.values.is_some() && filter.as_ref().is_none_or(|filter| filter.graph_shards > 0);
    let manifest = snapshot.manifest();
    let fusion = plan.mode.fuses().then(|| fusion(plan, vector, found));
    let degraded = degraded(vector, ignores_threshold, snapshot.damage(), batch.scope.is_some());
    let response = v1::SearchResponse {
        mode: plan.mode.into(),
        fusion: fusion
            .map_or(v1::Fusion::Unspecified, |fusion| fusion_method(fusion.method))
            .into(),
        dense_weight: fusion.map_or(0.0, |fusion| fusion.dense_weight),
        document_weight: found.document_weight.get().copied().unwrap_or_default(),
        degraded: degraded.is_some(),
        degraded_reason: degraded.unwrap_or_default(),
        index: batch.index.name.to_string(),
        generation: manifest.generation,
        fingerprint: manifest.model.fingerprint.clone(),
        ef: if vector.values.is_some() {
            deeper.map_or(plan.ef(), |depth| plan.with_depth(depth).ef())
        } else {
            0
        },
        recall_note: plan
            .recall_note(dense.0.cost.out_of_distribution)
            .filter(|_| by_graph)
            .unwrap_or_default(),
        distance_computations: dense.0.cost.total(),
        out_of_distribution_shards: dense.0.cost.out_of_distribution,
        query_tokens: vector.tokens,
        query_truncated: vector.truncated,
        notes,
        coverage: Some(batch.coverage()?),
        filter,
        timings: Some(v1::Timings {
            total_us: micros(*started),
            dense_us: dense.1,
            bm25_us: text.1,
            filter_us: filtered.map_or(0, |filtered| filtered.took_us),
            fuse_us,
            ..vector.timings
        }),
        ..v1::SearchResponse::default()
    };
    let (exactness, k, offset) = (found.exactness().to_vec(), plan.k, plan.offset);
    Ok(Some(Answer {
        response,
        fusion,
        exactness,
        hits,
        compared,
        k,
        offset,
    }))
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

/// What BM25 has left out of a question, and what it does not analyse. If it has found something, all words of an
/// ordinary length count.
fn notes_of_words(snapshot: &Snapshot, question: &str, found: &[DocumentHit]) -> Vec<String> {
    let language = snapshot.manifest().language;
    let may_leave_out = found.is_empty() || question.len() > MAX_WORD_BYTES;
    let left_out = may_leave_out.then(|| question_note(language, question)).flatten();
    left_out.into_iter().chain(script_note(language, question)).collect()
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

/// Counts the hits, and reads what is wanted of their documents, and of the other hits' in their groups; an error where
/// the time or the reply's budget does not suffice.
fn fetch(batch: &QuestionBatch, item: &BatchItem, answer: &mut Answer, budget: &ReplyBudget) -> Result<()> {
    let (QuestionBatch { snapshot, cancel, .. }, plan) = (batch, &item.plan);
    budget.take_hits(bytes_of_hits(answer))?;
    if !plan.wants_documents() {
        return Ok(());
    }
    let (fetching, has_fields) = (Instant::now(), plan.fields != StoredFields::None);
    let question = (plan.snippet_bytes > 0).then(|| snapshot.question(&item.query));
    let weighed = question.as_ref().map(|question| {
        question
            .weigh(batch.statistics()?, &**cancel)?
            .ok_or_else(|| cancel.deadline_error())
    });
    let snippets = weighed
        .transpose()?
        .map(|weighed| Snippets::new(&weighed, plan.snippet_bytes));
    let surroundings = |bytes| {
        Ok::<_, Error>(Surroundings::new(
            snapshot,
            bytes,
            batch.allowed_to_caller()?.map(|allowed| Arc::clone(&allowed.shards)),
        ))
    };
    let mut surroundings = Some(plan.surrounding_bytes)
        .filter(|bytes| *bytes > 0)
        .map(surroundings)
        .transpose()?;
    let mut fill = |AnswerHit { hit, shard, node, .. }: &mut AnswerHit| -> Result<()> {
        cancel.check()?;
        let document = snapshot.document(*shard, *node)?;
        if let Some(surroundings) = &mut surroundings {
            hit.surrounding = surroundings.of(*shard, *node, &document.text)?;
            let shown = hit.surrounding.as_ref();
            budget.take_bytes(shown.map_or(0, |shown| shown.before.len() + shown.after.len()))?;
        }
        if let Some(snippets) = &snippets {
            let snippet = snippets.of(&document.text);
            budget.take_bytes(snippet.text.len() + size_of_val(&*snippet.highlights))?;
            hit.snippet = Some(reply_snippet(snippet));
        }
        if has_fields {
            let document = plan.fields.of(document);
            budget.take(&document)?;
            hit.document = Some(reply_document(document));
        }
        Ok(())
    };
    let lists = answer
        .compared
        .as_mut()
        .map(|all| [&mut all.dense, &mut all.bm25, &mut all.hybrid]);
    for hit in answer.hits.iter_mut().chain(lists.into_iter().flatten().flatten()) {
        fill(hit)?;
        hit.members.iter_mut().try_for_each(&mut fill)?;
    }
    let timings = answer.timings();
    (timings.fetch_us, timings.total_us) = (micros(fetching), micros(batch.started));
    Ok(())
}

/// A snippet as replies have it.
fn reply_snippet(snippet: Snippet) -> v1::Snippet {
    let highlight = |range: std::ops::Range<usize>| v1::Highlight {
        start: range.start as u32,
        end: range.end as u32,
    };
    v1::Snippet {
        text: snippet.text,
        highlights: snippet.highlights.into_iter().map(highlight).collect(),
    }
}

/// What is missing from the answer, and why.
fn degraded(
    vector: &QuestionVector,
    ignores_threshold: bool,
    damage: Option<dyad_index::Error>,
    is_restricted: bool,
) -> Option<String> {
    // The error names files.
    let damage = damage.map(|error| {
        if is_restricted {
            "a shard is damaged".to_owned()
        } else {
            error.to_string()
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
            key: self.snapshot.key(shard, node)?.to_owned(),
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
fn field_value(value: FieldValue) -> v1::FilterValue {
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
        let damage = || Some(dyad_index::Error::NoIndex { path: "/there".into() });
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
