//! What must hold of the generation that a change is derived from, whichever that is when it is published: the
//! documents that the change replaces are such as its callers may see.

use std::collections::HashMap;

use dyad_index::Snapshot;
use dyad_index::lexical::DocumentFilter;
use rayon::prelude::*;

use crate::error::Error;

/// Conditions of a change; none by default.
#[derive(Debug, Default)]
pub struct ChangeConditions<'a> {
    /// By the keys of a change: which documents exist for who changes them.
    scopes: HashMap<&'a str, &'a DocumentFilter>,
}

/// What a change begins with.
#[derive(Debug, Default)]
pub struct ChangeStart<'a> {
    /// A generation that is open: shards that the current one has in common with it are not opened again.
    pub known: Option<&'a Snapshot>,
    /// What must hold of each generation from which the change is derived.
    pub conditions: ChangeConditions<'a>,
}

impl<'a> ChangeConditions<'a> {
    /// For who changes the document with this key, only those that pass a filter exist.
    pub fn restrict(&mut self, key: &'a str, filter: &'a DocumentFilter) {
        self.scopes.insert(key, filter);
    }

    /// The live document with a key, where it exists for who changes it.
    pub(super) fn find(&self, base: &Snapshot, key: &str) -> Result<Option<(usize, u32)>, Error> {
        let Some((shard, node)) = base.find(key)? else {
            return Ok(None);
        };
        let exists = match self.scopes.get(key) {
            Some(filter) => filter.matches(&base.document(shard, node)?),
            None => true,
        };
        Ok(exists.then_some((shard, node)))
    }

    /// Refuses to replace documents that do not exist for who replaces them: those with the keys of the change, and
    /// passages of the documents with these keys.
    pub fn check_replaced(&self, base: &Snapshot) -> Result<(), Error> {
        let is_anothers = |(key, filter): (&&str, &&DocumentFilter)| -> Result<bool, Error> {
            let passages = base.passages(key, 0)?.into_iter().map(|(shard, node, _)| (shard, node));
            for (shard, node) in base.find(key)?.into_iter().chain(passages) {
                if !filter.matches(&base.document(shard, node)?) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        let check = |(key, filter)| Ok(is_anothers((key, filter))?.then_some(*key));
        let found: Vec<Option<&str>> = self.scopes.par_iter().map(check).collect::<Result<_, Error>>()?;
        match found.into_iter().flatten().min() {
            Some(key) => Err(Error::DocumentOfAnother { key: key.to_owned() }),
            None => Ok(()),
        }
    }
}
