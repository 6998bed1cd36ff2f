//! The build of an index: one pass over corpus and vectors, then the shards one by one, then one publish.
//!
//! ```text
//! INDEX/.dyad-building-P-N/  the job's own directory (process, number) with a lock of its own; that of a killed build is
//!                            removed by the next one, and two builds may run at the same time
//!   shard-0000.rows          f32 rows in node order; loses its name when it is complete, and is mapped until the graph
//!                            is built
//!   shard-0000/text/         tantivy; document i is node i
//!   shard-0000/dense.dyad    written last; then the directory is complete
//! INDEX/.built-DIGEST/       a complete shard that waits for the publish, also of a build that was killed
//! ```
//!
//! Memory: one shard's graph at a time; the terms of all texts and the keys of all documents; never the vectors.
//!
//! | file | contents |
//! |---|---|
//! | `index.rs` | the steps in order |
//! | `pass.rs` | one pass over corpus and vectors |
//! | `language.rs` | the language of the first documents |
//! | `spool.rs` | documents and vectors of one shard, spooled to disk in order of arrival |
//! | `shard_job.rs` | the shards that one job writes: of a build, and of every change |
//! | `shard.rs` | a spooled shard -> a complete shard directory |
//! | `kept.rs` | built shards that are kept until they are published |
//! | `workspace.rs` | the job's directory, and the remains of killed builds |

mod index;
mod kept;
mod language;
mod pass;
mod shard;
mod shard_job;
mod spool;
mod workspace;

pub use index::{BuildConfig, BuildSummary, build_index};
pub(crate) use kept::{left_in as kept_shards_in, remove as remove_kept_shard};
pub(crate) use language::LanguageSample;
pub(crate) use shard::{ShardBuilder, entries_of, file_entries};
pub(crate) use shard_job::{ShardJob, SpoolConfig, shard_label, thread_pool};
pub(crate) use spool::{Spool, Spooled, metadata_json};
pub(crate) use workspace::Workspace;
