//! `dyad-bench ann-worker`: one of our engines, for `dyad-bench ann`.

use clap::Args;

use crate::ann::worker;

/// Serve one engine on stdin and stdout. Started by `dyad-bench ann`; not for use by hand.
#[derive(Debug, Args)]
pub(super) struct AnnWorker {
    /// Which engine.
    #[arg(long, value_parser = worker::ENGINES)]
    engine: String,
}

impl AnnWorker {
    pub(super) fn run(self) -> anyhow::Result<()> {
        worker::serve(&self.engine, std::io::stdin().lock(), std::io::stdout())
    }
}
