//! `dyad-bench train-step`.

use super::comparison::{Comparison, Steps};
use crate::train_step::{Measured, Workload, run, summary, write_points, write_table};

/// A step of training: forward of both towers, in-batch loss, backward, clipping, optimizer.
#[derive(Debug)]
pub(super) struct TrainStep;

impl Comparison for TrainStep {
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
    const ENGINES: &'static str =
        "dyad, and the peers that `benches/peers/train_step.py` knows. Losses are compared with the first one's";
    const PEERS: &'static str = "benches/peers/train_step.py";
    const RECORDS: &'static str = "benches/records/train-step";
    const CACHE: &'static str = "scratch files";
    const TIMEOUT_S: &'static str = "600";
}
