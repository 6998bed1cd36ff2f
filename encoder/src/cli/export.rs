//! `dyad-encoder export`: the same model in another number type.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use crate::config::PromptOptions;
use crate::device::{Compute, Dtype};
use crate::model::{CrossEncoder, Model, export_with};

#[derive(Debug, Args)]
pub(crate) struct ExportOptions {
    /// Directory of the model
    #[arg(long, value_name = "DIR")]
    model: PathBuf,
    /// Data type of the new weights: f32, bf16 or f16
    #[arg(long)]
    dtype: Dtype,
    /// Directory of the new model
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    prompts: PromptOptions,
}

pub(crate) fn run(options: &ExportOptions) -> anyhow::Result<()> {
    export_with(&options.model, &options.out, options.dtype, &options.prompts)?;
    let fingerprint = if CrossEncoder::is_at(&options.out)? {
        CrossEncoder::open(&options.out, &Compute::default())?
            .info()
            .fingerprint
            .clone()
    } else {
        Model::open(&options.out, &Compute::default())?
            .info()
            .fingerprint
            .clone()
    };
    writeln!(
        std::io::stdout().lock(),
        "exported {} ({}), fingerprint {fingerprint}",
        options.out.display(),
        options.dtype
    )?;
    Ok(())
}
