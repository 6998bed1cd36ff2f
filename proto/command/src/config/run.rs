//! [`run_server`]: runs the command line of a server with its configuration.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Parser;

use super::follow::{Follower, log_filter};
use super::layers::{ConfigRefusal, Configuration, Merged};
use super::print;
use crate::exit::{USAGE, finish, parsed, refused};
use crate::logs;
use crate::release::released;

/// As [`run`](crate::run), for a program whose `serve` is configured by a file and variables too. `command` gets what
/// follows the configuration while the server runs.
pub fn run_server<A: Parser>(
    revision: &'static str,
    command: impl FnOnce(A, Follower) -> anyhow::Result<ExitCode>,
    code: impl FnOnce(&anyhow::Error) -> u8,
) -> ExitCode {
    let command_line = released(A::command(), revision);
    let configuration = Configuration::new(command_line, std::env::args_os().collect(), std::env::vars_os());
    let text = configuration.text();
    let Merged { mut matches, values } = match configuration.merge(text.as_ref()) {
        Ok(merged) => merged,
        Err(refusal) => return print_refusal(&refusal),
    };
    if configuration.is_print() {
        for warning in configuration.warnings() {
            // If standard error is closed, the configuration is still printed.
            let _ = writeln!(io::stderr().lock(), "warning: {warning}");
        }
        let toml = print::toml(&configuration, &values);
        let written = io::stdout().lock().write_all(toml.as_bytes());
        return finish(written.map(|()| ExitCode::SUCCESS).map_err(Into::into), code);
    }
    let arguments = match parsed(&mut matches) {
        Ok(arguments) => arguments,
        Err(error) => return refused(&error),
    };
    logs::init_logs(&log_filter(&values));
    for warning in configuration.warnings() {
        tracing::warn!("{warning}");
    }
    finish(command(arguments, Follower::new(configuration, text, values)), code)
}

fn print_refusal(refusal: &ConfigRefusal) -> ExitCode {
    let mut lines = match refusal {
        ConfigRefusal::CommandLine(error, origins) => {
            let code = refused(error);
            if origins.is_empty() {
                return code;
            }
            origins.join("\n")
        }
        ConfigRefusal::Layer(reason) => format!("error: {reason}"),
    };
    lines.push('\n');
    // If standard error is closed, the exit code remains.
    let _ = io::stderr().lock().write_all(lines.as_bytes());
    ExitCode::from(USAGE)
}
