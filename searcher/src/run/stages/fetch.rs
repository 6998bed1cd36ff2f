//! What an answer shows of its documents: stored fields, snippets, and the text around passages.

use std::sync::Arc;
use std::time::Instant;

use dyad_index::Snapshot;
use dyad_index::lexical::{Snippet, Snippets};
use dyad_proto::v1;

use super::answer::{Answer, AnswerHit, reply_document};
use super::batch::{BatchItem, QuestionBatch, micros};
use super::surrounding::Surroundings;
use crate::error::Result;
use crate::plan::StoredFields;
use crate::run::resources::cancellation::SearchCancellation;
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

pub(in crate::run) fn bytes_of_hits(answer: &Answer) -> usize {
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
    let fetching = Instant::now();
    let question = (plan.snippet_bytes > 0).then(|| snapshot.question(&item.query));
    let weighed = question.as_ref().map(|question| {
        question
            .weigh(batch.statistics()?, &**cancel)?
            .ok_or_else(|| cancel.deadline_error())
    });
    let snippets = weighed
        .transpose()?
        .map(|weighed| Snippets::new(&weighed, plan.snippet_bytes));
    let surroundings = if plan.surrounding_bytes > 0 {
        let scope = batch.allowed_to_caller()?.map(|allowed| Arc::clone(&allowed.shards));
        Some(Surroundings::new(snapshot, plan.surrounding_bytes, scope))
    } else {
        None
    };
    let shown = ShownOfDocuments {
        fields: &plan.fields,
        max_text_bytes: plan.max_text_bytes,
        snippets,
        surroundings,
    };
    let mut filler = HitFiller::new(snapshot, cancel, shown, budget);
    let lists = answer
        .compared
        .as_mut()
        .map(|all| [&mut all.dense, &mut all.bm25, &mut all.hybrid]);
    for hit in answer.hits.iter_mut().chain(lists.into_iter().flatten().flatten()) {
        filler.fill(hit)?;
        hit.members.iter_mut().try_for_each(|member| filler.fill(member))?;
    }
    let timings = answer.timings();
    (timings.fetch_us, timings.total_us) = (micros(fetching), micros(batch.started));
    Ok(())
}

/// What is shown of documents.
pub(in crate::run) struct ShownOfDocuments<'a> {
    pub(in crate::run) fields: &'a StoredFields,
    /// Most bytes of a text that is shown.
    pub(in crate::run) max_text_bytes: usize,
    /// Makes the snippets, where they are wanted.
    pub(in crate::run) snippets: Option<Snippets>,
    /// Reads the text around passages, where it is wanted.
    pub(in crate::run) surroundings: Option<Surroundings<'a>>,
}

/// Fills hits with what is wanted of their documents.
pub(in crate::run) struct HitFiller<'a> {
    snapshot: &'a Snapshot,
    cancel: &'a SearchCancellation,
    shown: ShownOfDocuments<'a>,
    budget: &'a ReplyBudget,
}

impl<'a> HitFiller<'a> {
    pub(in crate::run) fn new(
        snapshot: &'a Snapshot,
        cancel: &'a SearchCancellation,
        shown: ShownOfDocuments<'a>,
        budget: &'a ReplyBudget,
    ) -> Self {
        Self {
            snapshot,
            cancel,
            shown,
            budget,
        }
    }

    /// Reads the document of a hit, in the shards that are open.
    pub(in crate::run) fn fill(&mut self, filled: &mut AnswerHit) -> Result<()> {
        let AnswerHit { hit, shard, node, .. } = filled;
        self.cancel.check()?;
        let document = self.snapshot.document(*shard, *node)?;
        if let Some(surroundings) = &mut self.shown.surroundings {
            hit.surrounding = surroundings.read(*shard, *node, &document.text)?;
            let shown = hit.surrounding.as_ref();
            self.budget
                .take_bytes(shown.map_or(0, |shown| shown.before.len() + shown.after.len()))?;
        }
        if let Some(snippets) = &self.shown.snippets {
            let snippet = snippets.extract(&document.text);
            self.budget
                .take_bytes(snippet.text.len() + size_of_val(&*snippet.highlights))?;
            hit.snippet = Some(reply_snippet(snippet));
        }
        if *self.shown.fields != StoredFields::None {
            let mut document = self.shown.fields.select(document);
            cut(&mut document.text, self.shown.max_text_bytes);
            self.budget.take(&document)?;
            hit.document = Some(reply_document(document));
        }
        Ok(())
    }
}

/// Cuts a text to at most `most` bytes, in whole characters, and frees the memory of the rest, which is not counted.
fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.shrink_to_fit();
    }
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
