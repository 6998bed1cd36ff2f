//! What needs files and processes: writers that die, metrics against trec_eval's own values, readers on real data.
#![expect(clippy::unwrap_used, reason = "tests")]

mod crash;
mod real_data;
mod trec_eval;
