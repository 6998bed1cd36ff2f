//! Graph building against slow oracles, on hand-made, random, synthetic and real data.
//!
//! | file | contents |
//! |---|---|
//! | `synthetic.rs` | clustered and duplicated vectors |
//! | `any_question.rs` | searches against a plain beam, for questions like and unlike documents |
//! | `certify.rs` | certificates of small graphs whose recall is known |
//! | `copies.rs` | documents with the same vector |
//! | `dot.rs` | inner products of rows of any length |
//! | `freeze.rs` | derived layers against their definition |
//! | `repair.rs` | hard graphs: unreachable components, duplicates, full nodes |
//! | `deleted.rs` | what is claimed of recall between a deletion and the next measurement |
//! | `documents_as_questions.rs` | certificates by documents against questions that are none |
//! | `filtered.rs` | recall through filters against the served shard |
//! | `hnsw_rs.rs` | recall against the crate's own search, reachability, reproducibility |
//! | `initial.rs` | builds that start from an existing graph |
//! | `native.rs` | recall against the exact scan, hard sets, cancelling, all metrics |
//! | `real.rs` | real text embeddings |

use dyad_command::JobCancellation;

mod any_question;
mod certify;
mod copies;
mod deleted;
mod documents_as_questions;
mod dot;
mod filtered;
mod freeze;
mod hnsw_rs;
mod initial;
mod native;
mod real;
mod repair;
pub(super) mod synthetic;

/// Of a job that was cancelled before it began.
pub(super) fn cancelled() -> JobCancellation {
    let cancellation = JobCancellation::new();
    cancellation.cancel();
    cancellation
}
