//! Groups of hits with the same value of a field, and the ranking that they are made of: read deeper until there are
//! enough of them. What one look at a ranking gives is in `pass.rs`.

mod pass;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use dyad_index::lexical::{ColumnValue, ExactNumber, FieldValue};
use dyad_index::search::NodeSet;
use dyad_index::snapshot::{DocumentHit, Snapshot, SnapshotColumns};
use dyad_proto::limits::MAX_K;
use dyad_proto::v1::Mode;

pub(in crate::run) use self::pass::{GroupedQuestion, GroupingPass, are_full, few_groups};
use super::batch::{BatchItem, QuestionBatch, QuestionVector, SearchedIndex};
use super::part_results::{Allowed, PartResults};
pub(in crate::run) use super::part_results::{Grouped, HitGroup};
use crate::error::{Error, Result};
use crate::plan::{GroupBy, WIDER};
use crate::run::resources::cancellation::SearchCancellation;

/// Stored documents that are looked at for groups that no hit is in.
const MOST_LOOKED_AT: usize = 64;

/// Documents of an index whose columns are looked through by an ordinary request: a millisecond at most.
const MOST_SCANNED: usize = 1 << 20;

/// Nodes between two checks for cancellation.
const NODES_BETWEEN_CHECKS: u32 = 4096;

/// What makes hits members of one group.
#[derive(Debug, PartialEq, Eq, Hash)]
enum GroupKey {
    Text(String),
    Number(ExactNumber),
    Flag(bool),
    /// A document without a value.
    Alone(usize, u32),
}

impl GroupKey {
    fn new(value: Option<&FieldValue>, hit: &DocumentHit) -> Self {
        match value {
            Some(FieldValue::Text(text)) => Self::Text(text.clone()),
            Some(FieldValue::Number(number)) => Self::Number(number.clone()),
            Some(FieldValue::Flag(flag)) => Self::Flag(*flag),
            None => Self::Alone(hit.shard, hit.node),
        }
    }
}

/// Whose value is known: that of a document, or of all documents of a shard with this number in the field's column.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Owner {
    Document(usize, u32),
    Shared(usize, u32),
}

/// Whether some documents of the shards that are open, of those that are allowed, are in none of these groups, or may
/// be.
pub(in crate::run) fn have_other_groups(
    snapshot: &Snapshot,
    field: &str,
    groups: &[HitGroup],
    allowed: Option<&[NodeSet]>,
    cancel: &SearchCancellation,
) -> Result<bool> {
    let columns = snapshot.columns(field, cancel)?;
    let mut values = GroupValues {
        snapshot,
        field,
        columns: Some(columns.ok_or_else(|| cancel.deadline_error())?),
        known: HashMap::new(),
    };
    values.have_others(groups, allowed, cancel)
}

/// Values of one field. A stored document is read once, and where there is a column, once for each value.
struct GroupValues<'a> {
    snapshot: &'a Snapshot,
    field: &'a str,
    columns: Option<SnapshotColumns>,
    known: HashMap<Owner, Option<FieldValue>>,
}

impl GroupValues<'_> {
    fn read(&mut self, shard: usize, node: u32) -> Result<Option<FieldValue>> {
        let owner = match self.columns.as_ref().map(|columns| columns.value(shard, node)) {
            Some(ColumnValue::Absent) => return Ok(None),
            Some(ColumnValue::Shared(number)) => Owner::Shared(shard, number),
            Some(ColumnValue::Stored) | None => Owner::Document(shard, node),
        };
        match self.known.entry(owner) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(free) => {
                let value = self.snapshot.document(shard, node)?.value(self.field);
                Ok(free.insert(value).clone())
            }
        }
    }

    /// Whether some of the allowed documents is in none of these groups, or may be: by the column, and at most
    /// [`MOST_LOOKED_AT`] stored documents.
    fn have_others(
        &mut self,
        groups: &[HitGroup],
        allowed: Option<&[NodeSet]>,
        cancel: &SearchCancellation,
    ) -> Result<bool> {
        let snapshot = self.snapshot;
        let key = |group: &HitGroup| Some(GroupKey::new(group.value.as_ref(), group.hits.first()?));
        let mut others = OtherDocuments {
            known: groups.iter().filter_map(key).collect(),
            left: MOST_LOOKED_AT,
            looked_at: Vec::new(),
        };
        for (at, shard) in snapshot.shards().iter().enumerate() {
            others.looked_at.clear();
            let nodes = allowed.and_then(|all| all.get(at)).or(shard.live());
            let all: &mut dyn Iterator<Item = u32> = match nodes {
                Some(nodes) => &mut nodes.iter(),
                None => &mut (0..shard.dense.len() as u32),
            };
            for node in all {
                if node.is_multiple_of(NODES_BETWEEN_CHECKS) {
                    cancel.check()?;
                }
                if others.may_have(self, at, node)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The documents that are in none of some groups.
struct OtherDocuments {
    /// The keys of the groups.
    known: HashSet<GroupKey>,
    /// How many stored documents may still be read.
    left: usize,
    /// Which values of the shard's column were looked at, by their numbers.
    looked_at: Vec<bool>,
}

impl OtherDocuments {
    /// Whether a document is in none of the groups, or may be, as nothing tells it.
    fn may_have(&mut self, values: &mut GroupValues<'_>, shard: usize, node: u32) -> Result<bool> {
        match values.columns.as_ref().map(|columns| columns.value(shard, node)) {
            Some(ColumnValue::Shared(number)) => {
                let number = number as usize;
                if self.looked_at.get(number).copied().unwrap_or(false) {
                    return Ok(false);
                }
                self.looked_at.resize(self.looked_at.len().max(number + 1), false);
                self.looked_at
                    .get_mut(number)
                    .into_iter()
                    .for_each(|place| *place = true);
            }
            Some(ColumnValue::Absent) => return Ok(!self.known.contains(&GroupKey::Alone(shard, node))),
            Some(ColumnValue::Stored) => {}
            None => return Ok(true),
        }
        if self.left == 0 {
            return Ok(true);
        }
        self.left -= 1;
        let score = 0.0;
        let value = values.read(shard, node)?;
        Ok(!self
            .known
            .contains(&GroupKey::new(value.as_ref(), &DocumentHit { score, shard, node })))
    }
}

/// The first `wanted` groups of a ranking, with at most `members` hits each.
fn group(
    ranking: impl Iterator<Item = DocumentHit>,
    wanted: usize,
    members: usize,
    mut value_of: impl FnMut(&DocumentHit) -> Result<Option<FieldValue>>,
) -> Result<Vec<HitGroup>> {
    let mut groups: Vec<HitGroup> = Vec::new();
    let mut places: HashMap<GroupKey, usize> = HashMap::new();
    let mut full = 0;
    for hit in ranking {
        if full == wanted {
            break;
        }
        let value = value_of(&hit)?;
        let place = match places.entry(GroupKey::new(value.as_ref(), &hit)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) if groups.len() == wanted => continue,
            Entry::Vacant(free) => {
                groups.push(HitGroup {
                    value,
                    hits: Vec::new(),
                });
                *free.insert(groups.len() - 1)
            }
        };
        if let Some(group) = groups.get_mut(place).filter(|group| group.hits.len() < members) {
            group.hits.push(hit);
            full += usize::from(group.hits.len() == members);
        }
    }
    Ok(groups)
}

/// The depth after this one. Where the last read has brought no new group, those that are missing are far away: of a
/// ranking of one kind, whose first hits stay the same, all is read at once.
pub(in crate::run) fn next_depth(mode: Mode, depth: usize, brought_none: bool) -> usize {
    let next = if brought_none && !mode.fuses() {
        usize::MAX
    } else {
        depth.saturating_mul(WIDER)
    };
    next.min(MAX_K as usize)
}

impl Grouped {
    /// The rank of a document's group, from 1, and whether the document is among its hits; none where it is none of
    /// these groups.
    pub(in crate::run) fn place(
        &self,
        value: Option<&FieldValue>,
        is_it: impl Fn(&DocumentHit) -> bool,
    ) -> Option<(u32, bool)> {
        (1..).zip(&self.groups).find_map(|(rank, group)| {
            let is_hit = group.hits.iter().any(&is_it);
            (is_hit || value.is_some() && group.value.as_ref() == value).then_some((rank, is_hit))
        })
    }
}

impl QuestionBatch {
    /// Groups the hits of a question, and reads its rankings deeper where they have too few groups; none where that is
    /// to be done by others.
    pub(in crate::run) fn grouped(
        &self,
        item: &BatchItem,
        by: &GroupBy,
        vector: &QuestionVector,
        found: &PartResults,
    ) -> Result<Option<Grouped>> {
        let (snapshot, plan, cancel) = (&*self.snapshot, &item.plan, &*self.cancel);
        let wanted = plan.offset + plan.k;
        let nodes: Allowed = found.filter.get().and_then(|filtered| filtered.allowed.clone());
        let allowed = nodes.as_ref().map(|nodes| &*nodes.shards);
        let kept = (snapshot.len() <= MOST_SCANNED)
            .then(|| snapshot.kept_columns(&by.field))
            .flatten();
        let mut values = GroupValues {
            snapshot,
            field: &by.field,
            columns: kept,
            known: HashMap::new(),
        };
        let (mut depth, mut deeper, mut before) = (plan.depth(), None, None);
        loop {
            let found = deeper.as_ref().unwrap_or(found);
            let question = GroupedQuestion { item, by, vector };
            let pass = self.group_pass(question, found, depth, |hit| values.read(hit.shard, hit.node))?;
            let GroupingPass { groups, is_complete } = pass;
            if is_complete {
                return Ok(Some(Grouped {
                    groups,
                    depth,
                    deeper,
                    note: None,
                }));
            }
            if values.columns.is_none() && self.reads_deeper() {
                let columns = snapshot.columns(&by.field, cancel)?;
                values.columns = Some(columns.ok_or_else(|| cancel.deadline_error())?);
            }
            if are_full(&groups, by) && !values.have_others(&groups, allowed, cancel)? {
                return Ok(Some(Grouped {
                    groups,
                    depth,
                    deeper,
                    note: None,
                }));
            }
            if depth >= MAX_K as usize {
                let note = Some(few_groups(&groups, by, wanted));
                return Ok(Some(Grouped {
                    groups,
                    depth,
                    deeper,
                    note,
                }));
            }
            if !self.reads_deeper() {
                return Ok(None);
            }
            depth = next_depth(plan.mode, depth, before == Some(groups.len()));
            before = Some(groups.len());
            deeper = Some(self.read_deeper(item, vector, &nodes, found, depth)?);
        }
    }

    /// The same parts with more hits. Their costs include those of `before`.
    fn read_deeper(
        &self,
        item: &BatchItem,
        vector: &QuestionVector,
        allowed: &Allowed,
        before: &PartResults,
        depth: usize,
    ) -> Result<PartResults> {
        let again = BatchItem {
            plan: item.plan.with_depth(depth),
            query: item.query.clone(),
            vector: None,
            filter: item.filter.clone(),
            request_filter: None,
        };
        let vector = QuestionVector {
            values: vector.values.clone(),
            ..QuestionVector::default()
        };
        let cancel: Arc<SearchCancellation> = Arc::clone(&self.cancel);
        let mut batch = Self::new(
            SearchedIndex {
                index: Arc::clone(&self.index),
                generation: Arc::clone(&self.generation),
                filters: self.filters.clone(),
                scope: self.scope.clone(),
            },
            vec![again],
            1,
            cancel,
            self.started,
        );
        batch.vectors = OnceLock::from(vec![vector]);
        batch.search_allowed(allowed)?;
        let mut found = batch.found.pop().ok_or(Error::Internal)?;
        found.add_costs_of(before);
        Ok(found)
    }
}

impl PartResults {
    /// Adds what shallower reads of the same rankings have cost.
    pub(in crate::run) fn add_costs_of(&mut self, before: &Self) {
        for (part, before) in [(&mut self.dense, &before.dense), (&mut self.text, &before.text)] {
            if let (Some((hits, took)), Some((shallow, also))) = (part.get_mut(), before.get()) {
                hits.cost.estimated += shallow.cost.estimated;
                hits.cost.scored += shallow.cost.scored;
                hits.worsen(shallow.completeness);
                *took += also;
            }
        }
    }
}

#[cfg(test)]
mod tests;
