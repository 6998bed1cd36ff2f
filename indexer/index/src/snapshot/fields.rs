//! The fields that documents of a generation have, and how many have each.

use rayon::prelude::*;

use super::{Shard, Snapshot};
use crate::error::Result;
use crate::lexical::{CountsByPath, FieldCounts, MetadataUpdates, name_of_path};
use crate::search::NodeSet;
use dyad_files::Cancel;

/// Some fields, and the documents that have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldListing {
    /// Fields as filters name them, in the order of their names in the metadata, and then `title`.
    pub fields: Vec<(String, FieldCounts)>,
    /// Whether there are more.
    pub has_more: bool,
}

impl Snapshot {
    /// The first `most` fields that a document has which is not deleted; with `allowed`, as [`Self::allowed`] returns
    /// it, one that it has. Every term of the index's fields is read. None where the work was cancelled.
    pub fn fields(
        &self,
        most: usize,
        allowed: Option<&[NodeSet]>,
        cancel: &dyn Cancel,
    ) -> Result<Option<FieldListing>> {
        self.check_allowed(allowed)?;
        let of_shard = |(number, shard): (usize, &Shard)| {
            let among = allowed.and_then(|all| all.get(number)).or(shard.live());
            // A field that is not among the first of its shard is not among the first of all.
            field_counts(shard, most + 1, among, cancel)
        };
        let shards: Vec<_> = self
            .shards
            .par_iter()
            .enumerate()
            .map(of_shard)
            .collect::<Result<_>>()?;
        let mut all = CountsByPath::new();
        for counts in shards {
            let Some(counts) = counts else { return Ok(None) };
            add(&mut all, counts);
        }
        let has_more = all.len() > most;
        let named = |(path, counts): (String, FieldCounts)| (name_of_path(&path).to_owned(), counts);
        let fields = all.into_iter().take(most).map(named).collect();
        Ok(Some(FieldListing { fields, has_more }))
    }
}

fn add(sum: &mut CountsByPath, counts: CountsByPath) {
    for (path, counts) in counts {
        *sum.entry(path).or_default() += counts;
    }
}

/// Of one shard, by the metadata of the generation.
fn field_counts(
    shard: &Shard,
    most: usize,
    among: Option<&NodeSet>,
    cancel: &dyn Cancel,
) -> Result<Option<CountsByPath>> {
    let Some(updates) = &shard.updates else {
        return shard.text.field_counts(most, among, cancel);
    };
    let mut unchanged = among.cloned().unwrap_or_else(|| NodeSet::all(shard.text.len()));
    for node in updates.nodes() {
        unchanged.remove(*node);
    }
    let own = shard.text.field_counts(most, Some(&unchanged), cancel)?;
    let changed = updates
        .text()
        .field_counts(most, Some(&changed(updates, among)), cancel)?;
    Ok(own.zip(changed).map(|(mut own, changed)| {
        add(&mut own, changed);
        own
    }))
}

/// The documents of updates whose nodes are among these, or all.
fn changed(updates: &MetadataUpdates, among: Option<&NodeSet>) -> NodeSet {
    let mut changed = NodeSet::new(updates.len());
    for (at, node) in (0..).zip(updates.nodes()) {
        if among.is_none_or(|among| among.contains(*node)) {
            changed.insert(at);
        }
    }
    changed
}
