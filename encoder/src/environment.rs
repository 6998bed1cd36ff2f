//! Settings of libtorch that it reads from the environment alone: the program executes itself again with them.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// cuDNN's attention compiles a kernel for each shape, which takes longer than most batches: the shapes of real texts
/// differ all the time. With this, PyTorch's own kernels come first
/// (`aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`).
const ATTENTION: &str = "TORCH_CUDNN_SDPA_DEPRIORITIZED";

/// Executes the program again, in its place, where a GPU is there and the environment does not say which attention
/// comes first; returns where nothing is to be done, or where the system refuses.
pub fn begin_again() {
    if !is_needed(std::env::var_os(ATTENTION).as_deref(), tch::Cuda::is_available()) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).env(ATTENTION, "1").exec();
    tracing::warn!("cannot begin again with {ATTENTION}=1: {error}. Attention of new shapes is slow on a GPU");
}

fn is_needed(set: Option<&OsStr>, has_gpu: bool) -> bool {
    set.is_none() && has_gpu
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_again_once_and_only_with_a_gpu() {
        assert!(is_needed(None, true));
        assert!(!is_needed(None, false));
        // Also where the user wants cuDNN's.
        for set in ["1", "0", ""] {
            assert!(!is_needed(Some(OsStr::new(set)), true));
        }
    }
}
