//! Why a document is, or is not, among the hits of a search whose shards leaves hold: one leaf knows the document, and
//! all of them how many are ahead of it.

use std::sync::Arc;

use dyad_filter::field_value;
use dyad_proto::v1;

use super::super::engine::Engine;
use super::super::parts::Jobs;
use super::super::resources::reply_memory::ReplyBudget;
use super::super::stages::batch::{QuestionBatch, QuestionVector};
use super::super::stages::explain::{ExplainedDocument, ExplainedSearch};
use super::asked::LeavesOfBatch;
use super::counts::CountedQuestion;
use super::parts::search_question;
use super::request::scope_message;
use crate::error::{Error, Result};
use crate::leaves::wire::counts_message;

impl Engine {
    /// Explains one document for a batch of one question.
    pub(in crate::run) async fn explain_by_leaves(
        &self,
        batch: Arc<QuestionBatch>,
        key: String,
        jobs: &Jobs<'_>,
    ) -> Result<(v1::ExplainResponse, ReplyBudget)> {
        let (Some(leaves), Some(generation)) = (&self.leaves, batch.generation.on_leaves()) else {
            return Err(Error::Internal);
        };
        let asked = LeavesOfBatch {
            leaves,
            generation,
            cancel: &batch.cancel,
        };
        let item = batch.items.first().ok_or(Error::Internal)?;
        let ((), counted) = tokio::try_join!(self.embed(&batch), asked.count_terms(&batch, item))?;
        // Before the search, whose time does not tell then which keys others have.
        let document = asked.document(&batch, &key, &counted).await?;
        let replied = search_question(asked, &batch, jobs, 0, counted).await?;
        let (budget, of) = (self.memory.budget(), Arc::clone(&batch));
        let told = jobs.start(move || {
            if let Some(replied) = replied {
                replied.put_into(&of)?;
            }
            let (Some(item), Some(found)) = (of.items.first(), of.found.first()) else {
                return Err(Error::Internal);
            };
            let none = QuestionVector::default();
            let vector = of.vectors.get().and_then(|all| all.first()).unwrap_or(&none);
            let answered = item.answered_with(vector);
            let explained = ExplainedSearch {
                batch: &of,
                item: &answered,
                vector,
                found,
                grouped: found.grouped.get().map(|grouped| &**grouped),
            };
            let told = explained.told(document)?;
            budget.take_bytes(told.bm25_explanation_json.len())?;
            Ok((told, budget))
        });
        told.await
    }
}

impl LeavesOfBatch<'_> {
    /// What is known of a document by all leaves together.
    async fn document(&self, batch: &QuestionBatch, key: &str, counted: &CountedQuestion) -> Result<ExplainedDocument> {
        let item = batch.items.first().ok_or(Error::Internal)?;
        let vector = batch
            .vectors
            .get()
            .and_then(|all| all.first())
            .and_then(|vector| vector.values.clone());
        let mut request = v1::LeafExplainRequest {
            generation: Some(self.generation.name.clone()),
            shards: Vec::new(),
            filter: item.request_filter.clone(),
            scope: scope_message(batch),
            key: key.to_owned(),
            query: item.query.clone(),
            counts: counted.counts.as_ref().map(counts_message),
            vector: vector.unwrap_or_default(),
            group_by: item
                .plan
                .group_by
                .as_ref()
                .map_or_else(String::new, |by| by.field.clone()),
            scores: None,
        };
        let all = self.generation.numbers();
        let found = self.ask(&all, &request).await?;
        let own = found.into_iter().find_map(|reply| reply.document);
        let own = own.ok_or_else(|| Error::NoDocument(key.to_owned()))?;
        let scores = own.scores.unwrap_or_default();
        request.scores = Some(scores);
        let (mut by_vector, mut by_bm25) = (0, 0);
        for reply in self.ask(&all, &request).await? {
            by_vector += reply.ahead_by_vector;
            by_bm25 += reply.ahead_by_bm25;
        }
        let place = |score: Option<f32>, ahead: u64| {
            let rank = ahead as u32 + 1;
            score.map(|score| v1::Placement { rank, score })
        };
        Ok(ExplainedDocument {
            place: (own.shard as usize, own.node),
            allowed: own.allowed,
            dense_exact: place(scores.dense, by_vector),
            bm25: place(scores.bm25, by_bm25),
            bm25_explanation_json: own.bm25_explanation_json,
            bm25_of_document: 0.0,
            value: own.value.as_ref().and_then(field_value),
        })
    }
}
