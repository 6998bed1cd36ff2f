//! Runs a command: parses arguments, prints errors, and returns the exit code.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{ArgMatches, Parser};

use crate::logs::{default_filter, end_traces, init_logs};
use crate::release::released;

/// Exit code of a command that failed.
pub const FAILURE: u8 = 1;
/// Exit code of a usage error, as clap has it.
pub const USAGE: u8 = 2;
/// Exit code of an interrupted command, as shells have it: 128 + SIGINT.
pub const INTERRUPTED: u8 = 130;

/// An argument, or a setting of the environment, that cannot be used: ends with [`USAGE`].
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Runs the command line of this process, of which `revision` is the commit: parses it, starts the logs, runs
/// `command`. An error is printed to standard error with its causes; `code` returns its exit code. A closed pipe, as
/// in `COMMAND | head`, is success.
pub fn run<A: Parser>(
    revision: &'static str,
    command: impl FnOnce(A) -> anyhow::Result<ExitCode>,
    code: impl FnOnce(&anyhow::Error) -> u8,
) -> ExitCode {
    let parsed = released(A::command(), revision)
        .try_get_matches()
        .and_then(|mut matches| parsed::<A>(&mut matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    init_logs(default_filter());
    finish(command(arguments), code)
}

/// The arguments of matches.
pub(crate) fn parsed<A: Parser>(matches: &mut ArgMatches) -> Result<A, clap::Error> {
    A::from_arg_matches_mut(matches).map_err(|error| error.format(&mut A::command()))
}

/// Prints what clap says in place of a command, and returns its exit code.
pub(crate) fn refused(error: &clap::Error) -> ExitCode {
    // Help and version are not failures, and neither is a closed pipe.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE))
}

/// Ends a command: prints its error, and returns its exit code.
pub(crate) fn finish(result: anyhow::Result<ExitCode>, code: impl FnOnce(&anyhow::Error) -> u8) -> ExitCode {
    end_traces();
    match result {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed too, the exit code remains.
            let _ = writeln!(io::stderr().lock(), "error: {}", chain(&error));
            ExitCode::from(if error.is::<UsageError>() { USAGE } else { code(&error) })
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    error.chain().filter_map(|cause| cause.downcast_ref()).any(broken)
}

/// An error with its causes, from the outside in. A cause whose text is already in the message before it is not
/// repeated.
pub fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            // Writing to a string cannot fail.
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read: {source}")]
    struct Outer {
        source: io::Error,
    }

    #[test]
    fn a_cause_is_told_once() {
        let missing = || fs_err::read("nope.toml").unwrap_err();
        let message = "failed to open file `nope.toml`: No such file or directory (os error 2)";
        assert_eq!(chain(&missing().into()), message);
        let within = Err::<(), _>(missing()).context("cannot train").unwrap_err();
        assert_eq!(chain(&within), format!("cannot train: {message}"));
        assert_eq!(
            chain(&Outer { source: missing() }.into()),
            format!("cannot read: {message}")
        );
    }

    #[test]
    fn a_broken_pipe_is_known_wherever_it_stands() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&broken().into()));
        assert!(is_broken_pipe(&Err::<(), _>(broken()).context("printing").unwrap_err()));
        assert!(is_broken_pipe(&Outer { source: broken() }.into()));
        assert!(!is_broken_pipe(&io::Error::from(io::ErrorKind::NotFound).into()));
    }
}
