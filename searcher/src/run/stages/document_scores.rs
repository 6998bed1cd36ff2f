//! What the documents of passages add to the BM25 scores of a search.

use dyad_index::lexical::{DocumentScores, Weighed, WeighedDocuments};

use super::batch::QuestionBatch;
use crate::error::Result;
use crate::plan::SearchPlan;

impl QuestionBatch {
    /// For a question whose terms have their weights: none where the plan gives documents no weight, or no two passages
    /// that exist for the caller are of one document.
    pub(in crate::run) fn document_scores(
        &self,
        weighed: &Weighed<'_>,
        plan: &SearchPlan,
    ) -> Result<Option<DocumentScores>> {
        let weight = plan.fusion.document_weight;
        if weight <= 0.0 {
            return Ok(None);
        }
        let cancel = &*self.cancel;
        match self
            .snapshot
            .document_scores(weighed, self.statistics()?, weight as f32, cancel)?
        {
            WeighedDocuments::Scores(scores) => Ok(Some(scores)),
            WeighedDocuments::Absent => Ok(None),
            WeighedDocuments::Cancelled => Err(cancel.deadline_error()),
        }
    }
}
