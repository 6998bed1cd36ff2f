//! `dyad-bench train-step-worker`: one of our engines, for `dyad-bench train-step`.

use clap::Args;

use crate::train_step::worker;

/// Serve one engine on stdin and stdout. Started by `dyad-bench train-step`; not for use by hand.
#[derive(Debug, Args)]
pub(super) struct TrainStepWorker {
    /// Which engine.
    #[arg(long, value_parser = worker::ENGINES)]
    engine: String,
}

impl TrainStepWorker {
    pub(super) fn run(self) -> anyhow::Result<()> {
        worker::serve(&self.engine, std::io::stdin().lock(), std::io::stdout())
    }
}
