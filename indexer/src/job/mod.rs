//! The whole build of an index: one pass over corpus and vectors, then one shard after another, then one publish.
//!
//! ```text
//! INDEX/.dyad-building-P-N/  the job's own directory (process, number) with a lock of its own; what a killed build left
//!                            is removed by the next one, and two builds may run side by side
//!   shard-0000.rows          f32 rows in node order; loses its name when it is complete, and is mapped until the graph
//!                            is built
//!   shard-0000/text/         tantivy; document i is node i
//!   shard-0000/dense.dyad    written last; then the directory is complete and waits for the publish
//! ```
//!
//! Memory: one shard's graph at a time; the terms of all texts and the keys of all documents; never the vectors.
//!
//! | file | what lives there |
//! |---|---|
//! | `index.rs` | the order of the steps |
//! | `spool.rs` | documents and vectors of one shard, set down as they come |
//! | `shard.rs` | a spooled shard -> a complete shard directory |
//! | `workspace.rs` | the job's directory, and what killed builds left |

mod index;
mod shard;
mod spool;
mod workspace;

pub use index::{BuildConfig, Summary, build_index};
