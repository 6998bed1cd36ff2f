//! Graph building against slow oracles, on hand-made, random, synthetic and real data.
//!
//! | file | what lives there |
//! |---|---|
//! | `synthetic.rs` | clustered and duplicated vectors |
//! | `freeze.rs` | derived layers against their definition |
//! | `repair.rs` | hard graphs: islands, duplicates, full nodes |
//! | `hnsw_rs.rs` | recall beside the crate's own search, reachability, reproducibility |
//! | `native.rs` | recall beside the exact scan, hard sets, cancelling, both metrics |
//! | `real.rs` | real text embeddings |

mod freeze;
mod hnsw_rs;
mod native;
mod real;
mod repair;
pub(super) mod synthetic;
