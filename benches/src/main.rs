//! `dyad-bench`: see [`dyad_bench::cli`].

fn main() -> std::process::ExitCode {
    dyad_bench::cli::main()
}
