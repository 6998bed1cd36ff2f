//! Documents of a generation in the order of their keys, page by page: the sorted keys of its shards are read side by
//! side, from the place of a key on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Snapshot;
use crate::error::Result;
use crate::format::FormatFault;
use crate::search::NodeSet;
use crate::shard::DenseShard;
use dyad_files::Cancel;

/// Nodes between two checks for cancellation.
const NODES_BETWEEN_CHECKS: u32 = 1 << 12;

/// A document and its place. Ordered by the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedDocument<'a> {
    /// Its key.
    pub key: &'a str,
    /// Shard of the snapshot.
    pub shard: usize,
    /// Node of the shard.
    pub node: u32,
}

/// Documents that follow each other in the order of all keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeyPage<'a> {
    /// In this order.
    pub documents: Vec<KeyedDocument<'a>>,
    /// Whether there are documents after them.
    pub has_more: bool,
}

/// What of a shard's keys has not been read.
struct ShardKeys<'a, 'b> {
    dense: &'a DenseShard,
    shard: usize,
    nodes: &'a [u32],
    allowed: Option<&'b NodeSet>,
    /// The key before them.
    last: &'a str,
}

/// What comes next.
enum NextKey<'a> {
    Document(KeyedDocument<'a>),
    End,
    Cancelled,
}

impl<'a> ShardKeys<'a, '_> {
    /// Leaves out what is not allowed. An error where the keys are not in order.
    fn advance(&mut self, cancel: &dyn Cancel) -> Result<NextKey<'a>> {
        let mut read = 0_u32;
        while let Some((node, rest)) = self.nodes.split_first() {
            if read.is_multiple_of(NODES_BETWEEN_CHECKS) && cancel.is_cancelled() {
                return Ok(NextKey::Cancelled);
            }
            read = read.wrapping_add(1);
            self.nodes = rest;
            if self.allowed.is_some_and(|allowed| !allowed.contains(*node)) {
                continue;
            }
            let key = self.dense.keys().key(*node);
            if key <= self.last {
                let got = format!("`{key}` after `{}`", self.last);
                return Err(self
                    .dense
                    .damaged(FormatFault::new("KEYS", "ascending, distinct keys", got)));
            }
            self.last = key;
            return Ok(NextKey::Document(KeyedDocument {
                key,
                shard: self.shard,
                node: *node,
            }));
        }
        Ok(NextKey::End)
    }
}

impl Snapshot {
    /// The first `most` documents that are not deleted and whose keys are greater than `after`, in the order of their
    /// keys as bytes. With `allowed`, as [`Self::allowed`] returns it, those that it has. Memory depends on `most` and
    /// the number of shards alone. None where the work was cancelled, an error where the keys of a shard are damaged.
    pub fn in_key_order(
        &self,
        after: &str,
        most: usize,
        allowed: Option<&[NodeSet]>,
        cancel: &dyn Cancel,
    ) -> Result<Option<KeyPage<'_>>> {
        self.check_allowed(allowed)?;
        let (mut shards, mut next) = (Vec::with_capacity(self.shards.len()), BinaryHeap::new());
        for (number, shard) in self.shards.iter().enumerate() {
            let allowed = allowed.and_then(|all| all.get(number)).or(shard.live());
            let mut keys = ShardKeys {
                dense: &shard.dense,
                shard: number,
                nodes: shard.dense.after(after)?,
                allowed,
                last: "",
            };
            if allowed.is_some_and(NodeSet::is_empty) {
                keys.nodes = &[];
            }
            match keys.advance(cancel)? {
                NextKey::Document(first) => next.push(Reverse(first)),
                NextKey::End => {}
                NextKey::Cancelled => return Ok(None),
            }
            shards.push(keys);
        }
        let mut page = KeyPage::default();
        while let Some(Reverse(document)) = next.pop() {
            if page.documents.len() == most {
                page.has_more = true;
                break;
            }
            page.documents.push(document);
            let Some(keys) = shards.get_mut(document.shard) else {
                continue;
            };
            match keys.advance(cancel)? {
                NextKey::Document(following) => next.push(Reverse(following)),
                NextKey::End => {}
                NextKey::Cancelled => return Ok(None),
            }
        }
        Ok(Some(page))
    }
}
