//! `dyad-searcher`: see [`dyad_searcher::cli`].

/// Also of libtorch (`override`): the C library's gives large blocks back to the kernel at every free, and a layer's
/// activations are such blocks; faulting their pages in again was a sixth of an f32 embedding job.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    dyad_searcher::cli::main(dyad_revision::revision!())
}
