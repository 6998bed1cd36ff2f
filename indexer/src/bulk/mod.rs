//! Bulk jobs: a corpus of any size embedded and indexed by tasks that any engine can schedule, repeat and kill. All
//! state is in objects of a store.
//!
//! ```text
//! plan ──> embed (one task per partition) ──> shard (one task per shard) ──> commit (one conditional put)
//!
//! OUT/plan.json                            put if absent
//! OUT/partitions/NAME/DIGEST/...           documents, vectors and keys of a partition, under a digest of their content
//! OUT/partitions/NAME/DONE.json            put if absent, after these: the first attempt to end counts
//! OUT/attempts/ID                          put before the files of a shard are
//! OUT/shards/NUMBER/DONE.json              the same as for a partition, of a shard, whose files are INDEX/shards/ID/...
//! INDEX/manifest-N.json, INDEX/CURRENT     put by the commit
//! OUT/COMMITTED.json                       put after these
//! ```
//!
//! A task that was killed leaves objects that no record names; `gc` removes them by age. Where the files of a record
//! are gone, its task does its work again.
//!
//! | file | contents |
//! |---|---|
//! | `record.rs` | the plan, and the records of tasks that have ended |
//! | `place.rs` | a job's place in a store |
//! | `input.rs` | inputs cut into slices, and fetched |
//! | `partitions.rs` | slices grouped into partitions, and partitions into shards |
//! | `plan.rs` | `bulk plan` |
//! | `graph_settings.rs` | how its graphs are built |
//! | `embed.rs` | `bulk embed` |
//! | `shard.rs` | `bulk shard` |
//! | `keys.rs` | keys that come more than once |
//! | `commit.rs` | `bulk commit`, `bulk status` |
//! | `gc.rs` | `bulk gc` |

mod commit;
mod embed;
mod gc;
mod graph_settings;
mod input;
mod keys;
mod partitions;
mod place;
mod plan;
mod record;
mod shard;

pub use commit::{CommitSummary, Status, commit, status};
pub use embed::{EmbeddedPartition, embed};
pub use gc::{Swept, gc};
pub use graph_settings::GraphSettings;
pub use plan::{PlanConfig, PlannedJob, VectorOrigin, plan};
pub use record::{BulkEstimate, BulkJob, BulkPlan, Partition, PartitionDone, Reading, ShardDone, Slice};
pub use shard::{BuiltShard, shard};
