//! What an answer shows of its documents: stored fields, snippets, and the text around passages.

use std::sync::Arc;
use std::time::Instant;

use dyad_index::lexical::{Snippet, Snippets};
use dyad_proto::v1;

use super::answer::{Answer, AnswerHit, reply_document};
use super::batch::{BatchItem, QuestionBatch, micros};
use super::surrounding::Surroundings;
use crate::error::{Error, Result};
use crate::plan::StoredFields;
use crate::run::resources::reply_memory::ReplyBudget;

impl QuestionBatch {
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

/// Counts the hits, and reads what is wanted of their documents, and of the other hits' in their groups; an error where
/// the time or the reply's budget does not suffice.
pub(super) fn fetch(batch: &QuestionBatch, item: &BatchItem, answer: &mut Answer, budget: &ReplyBudget) -> Result<()> {
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
            hit.surrounding = surroundings.read(*shard, *node, &document.text)?;
            let shown = hit.surrounding.as_ref();
            budget.take_bytes(shown.map_or(0, |shown| shown.before.len() + shown.after.len()))?;
        }
        if let Some(snippets) = &snippets {
            let snippet = snippets.extract(&document.text);
            budget.take_bytes(snippet.text.len() + size_of_val(&*snippet.highlights))?;
            hit.snippet = Some(reply_snippet(snippet));
        }
        if has_fields {
            let document = plan.fields.select(document);
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
