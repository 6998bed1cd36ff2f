//! One query's hits in trec_eval's order, reduced to grades.
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// trec_eval's order of hits: score descending, equal scores by document key descending in byte order.
pub fn trec_order(left: &(String, f32), right: &(String, f32)) -> Ordering {
    // Adding zero makes -0.0 and 0.0 one value, as they are for trec_eval.
    (right.1 + 0.0)
        .total_cmp(&(left.1 + 0.0))
        .then_with(|| right.0.as_bytes().cmp(left.0.as_bytes()))
}

/// What a metric needs to know of one query: the grades in rank order, and the grades that an ideal ranking would have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GradedRanking {
    /// Grade of each hit from rank 1 on; 0 for unjudged documents and for those judged not relevant.
    pub grades: Vec<i32>,
    /// Grades of all relevant documents, descending.
    pub ideal: Vec<i32>,
}

impl GradedRanking {
    /// Orders `hits` as trec_eval does and looks up their grades.
    pub fn new(hits: &[(String, f32)], judgements: &BTreeMap<String, i32>) -> Self {
        let mut ordered: Vec<&(String, f32)> = hits.iter().collect();
        ordered.sort_unstable_by(|left, right| trec_order(left, right));
        let grades = ordered
            .iter()
            .map(|(key, _)| judgements.get(key).map_or(0, |grade| (*grade).max(0)))
            .collect();
        let mut ideal: Vec<i32> = judgements.values().copied().filter(|&grade| grade > 0).collect();
        ideal.sort_unstable_by(|left, right| right.cmp(left));
        Self { grades, ideal }
    }
}
