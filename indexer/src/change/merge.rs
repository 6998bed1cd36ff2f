//! `merge`: which shards are written again as one, and how.

use std::collections::BTreeSet;

use dyad_index::manifest::{Change, ShardEntry};

use super::merge_config::MergeConfig;
use super::outcome::ChangeOutcome;
use super::rewrite::{RewriteJob, group_plan};
use super::transaction::{Publication, Transaction};
use crate::control::JobControl;
use crate::error::Error;

/// Merges the shards that need it, in one new generation. Documents that others delete meanwhile are deleted in the new
/// shards too.
pub fn merge(config: &MergeConfig, control: JobControl<'_>) -> Result<ChangeOutcome, Error> {
    let transaction = Transaction::begin(&config.index, None, Publication::unless(config.dry_run))?;
    let base = transaction.base();
    let max_documents = match config.memory {
        Some(memory) => {
            // The smallest merge that there can be.
            let mut live: Vec<u64> = base.manifest().shards.iter().map(ShardEntry::live).collect();
            live.sort_unstable();
            let least = live.iter().take(2).fold(0, |sum: u64, live| sum.saturating_add(*live));
            group_plan(base, config, least).within(memory, 1)?;
            let most = group_plan(base, config, 0).documents_within(memory, u64::from(u32::MAX));
            config.max_documents.min(most)
        }
        None => config.max_documents,
    };
    let shards = &base.manifest().shards;
    let mut groups = config.candidates.select(shards, max_documents, config.all);
    let has_other_language = config.language_of(base) != base.manifest().language;
    if has_other_language && !config.all {
        return Err(Error::LanguageOfSome {
            index: config.index.clone(),
            language: base.manifest().language,
        });
    }
    if config.all && (config.rebuild || has_other_language) {
        // Also those that would otherwise be copied: they get what this release writes.
        let is_left = |at: &usize| !groups.iter().any(|group| group.contains(at));
        let left: Vec<Vec<usize>> = (0..base.manifest().shards.len())
            .filter(is_left)
            .map(|at| vec![at])
            .collect();
        groups.extend(left);
    }
    let entries = groups.iter().flatten().filter_map(|at| base.manifest().shards.get(*at));
    let read = entries.map(ShardEntry::live).sum();
    let change = Change {
        operation: "merge".to_owned(),
        read,
        indexed: read,
        ..Change::default()
    };
    let job = RewriteJob {
        config,
        groups: &groups,
        without: &BTreeSet::new(),
        control,
    };
    job.publish(transaction, change)
}
