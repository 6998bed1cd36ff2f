//! The terms of documents that are already indexed: what BM25 subtracts for those that are deleted.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use super::TextShard;
use crate::deletions::DeletedTerms;
use crate::error::Result;
use dyad_files::Cancel;

/// Documents analysed by one thread at a time.
const CHUNK: usize = 1 << 10;

/// Numbers of documents by term, and tokens.
type Counts = (BTreeMap<Vec<u8>, u32>, u64);

impl TextShard {
    /// Analyses the stored title and text of documents again, in parallel, and adds what they hold to `before`. None
    /// where the work was cancelled.
    pub fn terms_of(&self, nodes: &[u32], before: &DeletedTerms, cancel: &dyn Cancel) -> Result<Option<DeletedTerms>> {
        let parts: Vec<Option<Counts>> = nodes
            .par_chunks(CHUNK)
            .map(|nodes| self.count(nodes, cancel))
            .collect::<Result<_>>()?;
        let (mut terms, mut tokens) = Counts::default();
        for part in parts {
            let Some((part, more)) = part else { return Ok(None) };
            tokens += more;
            for (term, documents) in part {
                *terms.entry(term).or_default() += documents;
            }
        }
        Ok(Some(before.and(&terms, tokens)))
    }

    fn count(&self, nodes: &[u32], cancel: &dyn Cancel) -> Result<Option<Counts>> {
        let (mut analyzer, mut counts) = (self.analyzer.build(), Counts::default());
        let mut own = BTreeSet::new();
        for &node in nodes {
            if cancel.is_cancelled() {
                return Ok(None);
            }
            let document = self.document(node)?;
            for text in [&document.title, &document.text] {
                analyzer.token_stream(text).process(&mut |token| {
                    counts.1 += 1;
                    if !own.contains(&token.text) {
                        own.insert(token.text.clone());
                    }
                });
            }
            for term in std::mem::take(&mut own) {
                *counts.0.entry(term.into_bytes()).or_default() += 1;
            }
        }
        Ok(Some(counts))
    }
}
