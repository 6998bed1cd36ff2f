//! Changes of an index: documents added, replaced and deleted, shards merged. Each is one generation.
//!
//! A change is prepared from the current generation without the lock, and published only where that one is still
//! current; otherwise it is prepared again, from the one that is. What takes long (vectors, graphs) is done once.
//!
//! | file | contents |
//! |---|---|
//! | `transaction.rs` | a change from its beginning to its publication |
//! | `conditions.rs` | what must hold of the generation that a change is derived from |
//! | `outcome.rs` | what a change did, or would do |
//! | `difference.rs` | which documents set one generation apart from another |
//! | `deletions.rs` | shards of a generation without some of their documents |
//! | `upsert.rs` | `append` and `upsert`: documents in, shards out |
//! | `upsert_config.rs` | its parameters |
//! | `upsert_job.rs` | passes over a batch, and again over what others have changed meanwhile |
//! | `upsert_progress.rs` | what these have come to |
//! | `triage.rs` | which documents of a batch are new, need another vector, or are in the index as they are |
//! | `staged.rs` | a batch on disk, of which the last record of each key counts |
//! | `passages.rs` | passages of documents: those that an index has, and those that a document no longer has |
//! | `delete.rs` | `delete` by keys |
//! | `delete_matching.rs` | `delete` by a filter |
//! | `calibrate.rs` | `calibrate`: recall measured again, by other questions |
//! | `question_sample.rs` | such questions from a log |
//! | `metadata.rs` | `upsert --metadata-only` |
//! | `merge.rs` | `merge`: which shards are written again as one |
//! | `merge_config.rs` | its parameters |
//! | `rewrite.rs` | shards written again, for `merge` and `purge` |
//! | `rewritten.rs` | the new shards in the place of the old ones |
//! | `merge_policy.rs` | which shards should be merged |
//! | `reembed.rs` | `reembed`: the vectors of another model, from the stored texts |
//! | `reembed_job.rs` | documents on their way to these |
//! | `last_document.rs` | where documents stand in those of which they are passages |
//! | `context.rs` | what of their documents vectors have, one for an index |
//! | `stored.rs` | the live documents of a generation as a batch of a corpus |
//! | `purge.rs` | `purge`: documents removed from every generation |
//! | `purged_texts.rs` | the texts of purged passages in the documents of others |

mod calibrate;
mod conditions;
mod context;
mod delete;
mod delete_matching;
mod deletions;
mod difference;
mod last_document;
mod merge;
mod merge_config;
mod merge_policy;
mod metadata;
mod outcome;
mod passages;
mod purge;
mod purged_texts;
mod question_sample;
mod reembed;
mod reembed_job;
mod rewrite;
mod rewritten;
mod staged;
mod stored;
mod transaction;
mod triage;
mod upsert;
mod upsert_config;
mod upsert_job;
mod upsert_progress;

pub use calibrate::{CalibrateConfig, calibrate};
pub use conditions::{CallRecorder, ChangeConditions, ChangeStart, ExpectedContent};
pub use delete::{DeleteConfig, delete, delete_documents};
pub use delete_matching::delete_matching;
pub use merge::merge;
pub use merge_config::MergeConfig;
pub(crate) use merge_policy::SMALL_SHARDS;
pub use merge_policy::{MergeCandidates, select_mergeable};
pub use metadata::{MetadataConfig, update_metadata};
pub use outcome::{ChangeOutcome, KeptRecords, MissingKeys, RecordFate};
pub(crate) use passages::documents_of;
pub use passages::{Passages, passages_of};
pub use purge::{PurgeConfig, Purged, purge};
pub use question_sample::embed_questions;
pub use reembed::{ReembedConfig, ReembedEstimate, estimate, reembed};
pub use triage::Operation;
pub use upsert::{upsert, upsert_after};
pub use upsert_config::UpsertConfig;
