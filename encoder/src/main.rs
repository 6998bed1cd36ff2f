//! `dyad-encoder`: embeds corpora and serves models.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;
use dyad_encoder::cli::{Cli, INTERRUPTED, told};
#[cfg(feature = "train")]
use dyad_encoder::data::DataError;
use dyad_encoder::embed::JobError;
#[cfg(feature = "train")]
use dyad_encoder::train::TrainError;

/// Also of libtorch (`override`): the C library's gives large blocks back to the kernel at every free, and a layer's
/// activations are such blocks; faulting their pages in again was a sixth of an f32 embedding job.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    dyad_proto::service::init_logs();
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when standard error is closed.
            let _ = writeln!(std::io::stderr().lock(), "error: {}", told(&error));
            if is_interrupted(&error) { ExitCode::from(INTERRUPTED) } else { ExitCode::FAILURE }
        }
    }
}

/// Whether a long job was told to end.
fn is_interrupted(error: &anyhow::Error) -> bool {
    let embedding = matches!(error.downcast_ref(), Some(JobError::Interrupted { .. }));
    #[cfg(feature = "train")]
    let training = matches!(error.downcast_ref(), Some(DataError::Interrupted))
        || matches!(error.downcast_ref(), Some(TrainError::Interrupted { .. }));
    #[cfg(not(feature = "train"))]
    let training = false;
    embedding || training
}

/// Whoever read our output has had enough, as in `dyad-encoder encode ... | head`.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
