//! The expected cost of the questions of a batch.

use std::collections::HashSet;

use dyad_proto::limits::MAX_K;

use super::batch::{BatchItem, QuestionBatch};
use crate::plan::{IndexSize, SearchCost};

impl QuestionBatch {
    /// Expected of what is done here, of all questions. A filter that several have counts once, one that is known not
    /// at all.
    pub(in crate::run) fn cost(&self) -> SearchCost {
        self.cost_of_size(IndexSize::from_snapshot(&self.snapshot))
    }

    /// The same for an index of this size.
    pub(in crate::run) fn cost_of_size(&self, size: IndexSize) -> SearchCost {
        let mut seen = HashSet::new();
        let one = |item: &BatchItem| {
            let is_known = |filter: &[u8]| {
                let cached = self
                    .filters
                    .as_ref()
                    .is_some_and(|cache| cache.has(&self.snapshot, filter));
                !seen.insert(filter.to_vec()) || cached
            };
            let is_known = item.filter.as_deref().is_some_and(is_known);
            SearchCost::estimate(&item.plan, &item.query, size, is_known)
        };
        self.items.iter().map(one).sum()
    }

    /// The same of reads that are as deep as may be.
    pub(in crate::run) fn cost_of_deeper_reads(&self) -> SearchCost {
        let size = IndexSize::from_snapshot(&self.snapshot);
        let one = |item: &BatchItem| {
            let plan = item.plan.with_depth(MAX_K as usize);
            SearchCost::estimate(&plan, &item.query, size, true)
        };
        self.items.iter().map(one).sum()
    }
}
