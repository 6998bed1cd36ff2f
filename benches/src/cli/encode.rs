//! `dyad-bench encode`.

use super::comparison::{Comparison, Steps};
use crate::encode::{Measured, Workload, run, summary, write_points, write_table};

/// Texts to vectors: texts and tokens per second, memory, share of the machine's limit.
#[derive(Debug)]
pub(super) struct Encode;

impl Comparison for Encode {
    type Workload = Workload;
    type Measured = Measured;

    const STEPS: Steps<Workload, Measured> = Steps {
        run,
        conditions: |measured| &measured.conditions,
        failed: Measured::failed,
        summary,
        points: write_points,
        table: write_table,
    };
    const ENGINES: &'static str = "dyad, dyad-bf16, dyad-f16, dyad-int8, and the peers that benches/peers/encode.py knows. \
         Vectors are compared with the first one's";
    const PEERS: &'static str = "benches/peers/encode.py";
    const RECORDS: &'static str = "benches/records/encode";
    const CACHE: &'static str = "exported models and scratch files";
    const TIMEOUT_S: &'static str = "3600";
}
