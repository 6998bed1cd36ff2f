//! `dyad-searcher`: see [`dyad_searcher::cli`].

fn main() -> std::process::ExitCode {
    dyad_searcher::cli::main()
}
