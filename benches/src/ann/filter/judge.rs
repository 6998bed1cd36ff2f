//! A cell's filters, its exact answers, and how good an engine's are.

use dyad_index::search::NodeSet;

use super::attributes::{GroupFilter, RowAttributes};
use crate::ann::cells::FilterCell;
use crate::ann::data::ReadyVectors;
use crate::ann::protocol::QueryFilter;
use crate::ann::recall::RecallJudge;
use crate::ann::session::AnnRun;
use crate::ann::workload::AnnJob;
use crate::dataset::{Matrix, Neighbours, exact_among, npy};
use crate::error::BenchResult;

/// Judges what is found under the filters of a cell.
pub(super) struct CellJudge<'a> {
    judge: RecallJudge<'a>,
    /// Rows that pass, by group.
    allowed: Vec<NodeSet>,
    /// Group of each query.
    group_of: Vec<usize>,
    /// Hits that each query has to have.
    wanted: usize,
    /// What engines are told.
    pub(super) filters: Vec<QueryFilter>,
    /// Share of each query's nearest rows that pass, over the share of all rows: above 1 where filter and question are
    /// correlated.
    pub(super) lift: f64,
}

/// What is wrong with hits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct JudgedHits {
    /// Mean share of the nearest rows that pass and were found.
    pub(super) recall: f64,
    /// Queries with fewer hits than `k`, and than rows that pass.
    pub(super) short: usize,
}

impl<'a> CellJudge<'a> {
    /// Computes the exact answers under the filters of a cell, and writes the rows that pass into the scratch folder.
    pub(super) fn new(run: &AnnRun<'a>, attributes: &RowAttributes, cell: FilterCell) -> BenchResult<Self> {
        let (ready, AnnJob { workload, settings, .. }) = (run.ready, run.job);
        let ReadyVectors {
            base, queries, truth, ..
        } = ready;
        let (k, metric) = (workload.k, workload.metric);
        let wanted = k.min(cell.passing(base.len()));
        let (mut allowed, mut filters) = (Vec::new(), Vec::new());
        let mut group_of = vec![0; queries.len()];
        let mut nearest = vec![0; queries.len() * wanted];
        for (group, members) in attributes.groups.iter().enumerate() {
            let GroupFilter { rows, all } = attributes.filter(cell, group);
            let path = run.scratch.join(format!("rows-{group}.npy"));
            npy::write_ids(&path, 1, &rows.iter().map(|row| *row as i32).collect::<Vec<_>>())?;
            let mut nodes = NodeSet::new(base.len());
            nodes.extend(rows);
            let of_group = members.iter().flat_map(|query| queries.row(*query)).copied().collect();
            let of_group = Matrix::new(queries.dim(), of_group);
            let (found, _) = exact_among(base, &of_group, k, metric, Some(&nodes), &settings.cancel)?;
            for (query, found) in members.iter().zip(found.rows()) {
                group_of[*query] = group;
                nearest[query * wanted..(query + 1) * wanted].copy_from_slice(found);
            }
            allowed.push(nodes);
            filters.push(QueryFilter {
                queries: members.clone(),
                rows: path,
                all,
            });
        }
        let judge = RecallJudge::new(base, queries, &Neighbours::new(wanted, nearest), k, metric);
        let near = k.min(base.len());
        let passing = |(query, group): (usize, &usize)| {
            let near = truth.row(query).iter().take(near);
            near.filter(|row| allowed.get(*group).is_some_and(|allowed| allowed.contains(**row)))
                .count()
        };
        let passing: usize = group_of.iter().enumerate().map(passing).sum();
        let share = passing as f64 / (near * queries.len()).max(1) as f64;
        let lift = share * base.len() as f64 / cell.passing(base.len()) as f64;
        Ok(Self {
            judge,
            allowed,
            group_of,
            wanted,
            filters,
            lift,
        })
    }

    /// Judges `k` ids per query; or gives a hit that does not pass.
    pub(super) fn judge(&self, ids: &[i64]) -> Result<JudgedHits, i64> {
        let mut short = 0;
        for (hits, group) in ids.chunks(self.judge.k.max(1)).zip(&self.group_of) {
            let hits: Vec<i64> = hits.iter().copied().filter(|id| *id >= 0).collect();
            let passes = |id: &i64| {
                self.allowed
                    .get(*group)
                    .is_some_and(|allowed| allowed.contains(*id as u32))
            };
            if let Some(wrong) = hits.iter().find(|id| !passes(id)) {
                return Err(*wrong);
            }
            let repeated = (0..hits.len()).filter(|at| hits[..*at].contains(&hits[*at])).count();
            short += usize::from(hits.len() - repeated < self.wanted);
        }
        Ok(JudgedHits {
            recall: self.judge.recall(ids),
            short,
        })
    }
}
