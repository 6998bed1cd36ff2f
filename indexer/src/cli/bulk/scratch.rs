//! The directory for files in use.

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct ScratchArguments {
    /// Directory for files in use; what killed tasks have left there is removed by the next one [default: `dyad-bulk`
    /// in the system's directory for temporary files]
    #[arg(long = "scratch", value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl ScratchArguments {
    pub(super) fn path(&self) -> PathBuf {
        self.dir
            .clone()
            .unwrap_or_else(|| std::env::temp_dir().join("dyad-bulk"))
    }
}
