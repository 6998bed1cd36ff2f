//! Columns of a generation: which of its documents have the same value of a field, with the metadata of the generation.

use std::sync::Arc;

use super::{Shard, Snapshot};
use crate::error::Result;
use crate::lexical::{ColumnValue, FieldColumn, MetadataUpdates, TextShard};
use dyad_files::Cancel;

/// A field's values in one shard.
#[derive(Debug)]
struct ShardColumn {
    own: Arc<FieldColumn>,
    /// The values of the documents whose metadata were changed.
    updated: Option<(Arc<MetadataUpdates>, Arc<FieldColumn>)>,
}

/// A field's values in all shards.
#[derive(Debug)]
pub struct SnapshotColumns(Vec<ShardColumn>);

impl ShardColumn {
    /// `of` returns the column of a text index, or none where there is none.
    fn new(shard: &Shard, of: impl Fn(&TextShard) -> Result<Option<Arc<FieldColumn>>>) -> Result<Option<Self>> {
        let Some(own) = of(&shard.text)? else { return Ok(None) };
        let Some(updates) = &shard.updates else {
            return Ok(Some(Self { own, updated: None }));
        };
        let updated = of(updates.text())?.map(|column| (Arc::clone(updates), column));
        Ok(updated.map(|updated| Self {
            own,
            updated: Some(updated),
        }))
    }

    fn value(&self, node: u32) -> ColumnValue {
        if let Some((updates, column)) = &self.updated
            && let Ok(at) = updates.nodes().binary_search(&node)
        {
            // After the numbers of the shard's own values, of which some may be equal.
            return match column.value(at as u32) {
                ColumnValue::Shared(number) => ColumnValue::Shared(self.own.values() + number),
                other => other,
            };
        }
        self.own.value(node)
    }
}

impl SnapshotColumns {
    /// What is known of a document's value. Documents of one shard with the same number have the same value; those with
    /// different numbers may.
    pub fn value(&self, shard: usize, node: u32) -> ColumnValue {
        self.0
            .get(shard)
            .map_or(ColumnValue::Stored, |column| column.value(node))
    }

    /// Numbers of a shard's own values are below this; those of values that its documents were given later are not.
    pub(super) fn own_values(&self, shard: usize) -> u32 {
        self.0.get(shard).map_or(0, |column| column.own.values())
    }
}

impl Snapshot {
    /// The columns of a field, where those of all shards are kept in memory.
    pub fn kept_columns(&self, field: &str) -> Option<SnapshotColumns> {
        let of = |shard| ShardColumn::new(shard, |text| Ok(text.kept_column(field)));
        let all: Result<Option<Vec<_>>> = self.shards.iter().map(of).collect();
        all.ok().flatten().map(SnapshotColumns)
    }

    /// The columns of a field. Those that are not kept in memory are read: an entry of the dictionary for each value,
    /// and one of its postings for each document. None where the work was cancelled.
    pub fn columns(&self, field: &str, cancel: &dyn Cancel) -> Result<Option<SnapshotColumns>> {
        let of = |shard| ShardColumn::new(shard, |text| text.column(field, cancel));
        let all: Result<Option<Vec<_>>> = self.shards.iter().map(of).collect();
        Ok(all?.map(SnapshotColumns))
    }
}
