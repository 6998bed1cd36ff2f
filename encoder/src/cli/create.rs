//! `dyad-encoder create`: a dual encoder from one pretrained model.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::dual::{Creation, Sharing, create};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pretrained model that both towers start from
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    /// Directory of the new bundle
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// sde, ade, ade-ste, ade-fte, ade-spl, or token=T,transformer=T,projection=T with shared, separate or frozen
    #[arg(long, default_value_t = Sharing::SDE)]
    sharing: Sharing,
    /// Values per vector
    #[arg(long, value_name = "N", default_value_t = 768, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    dim: u32,
    /// Of the projection's random values
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let creation = Creation { sharing: options.sharing, dim: options.dim as usize, seed: options.seed };
    create(&options.from, &options.to, &creation)?;
    writeln!(std::io::stdout().lock(), "created {} ({})", options.to.display(), options.sharing)?;
    Ok(())
}
