//! `dyad-bench encode-worker`: one of our engines, for `dyad-bench encode`.

use clap::Args;

use crate::encode::worker;

/// Serve one engine on stdin and stdout. Started by `dyad-bench encode`; not for use by hand.
#[derive(Debug, Args)]
pub(super) struct EncodeWorker {
    /// Which engine.
    #[arg(long, value_parser = worker::ENGINES)]
    engine: String,
}

impl EncodeWorker {
    pub(super) fn run(self) -> anyhow::Result<()> {
        worker::serve(&self.engine, std::io::stdin().lock(), std::io::stdout())
    }
}
