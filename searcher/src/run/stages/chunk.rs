//! Filters of a batch that are processed at a time.

use std::ops::Range;

use crate::plan::SearchPlan;

/// Filters that are processed at a time: a range of the batch's groups, and the parts that their questions have.
#[derive(Debug, Clone)]
pub(in crate::run) struct Chunk {
    pub(in crate::run) groups: Range<usize>,
    pub(in crate::run) has_filter: bool,
    pub(in crate::run) has_text: bool,
    pub(in crate::run) has_dense: bool,
}

impl Chunk {
    /// Some of the groups of questions with equal filters.
    pub(in crate::run) fn new(numbers: Range<usize>, groups: &[Vec<usize>], plans: &[&SearchPlan]) -> Self {
        let members = groups.get(numbers.clone()).unwrap_or_default().iter().flatten();
        let plans: Vec<&SearchPlan> = members.filter_map(|number| plans.get(*number)).copied().collect();
        Self {
            groups: numbers,
            has_filter: plans.iter().any(|plan| plan.filter.is_some()),
            has_text: plans.iter().any(|plan| plan.text_depth.is_some()),
            has_dense: plans.iter().any(|plan| plan.dense.is_some()),
        }
    }
}
