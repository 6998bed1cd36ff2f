//! What needs files: metrics against trec_eval's own values, readers on real data.
#![expect(clippy::unwrap_used, reason = "tests")]

mod real_data;
mod trec_eval;
