//! What the command line of a server gets here: `--config` and `--log` of `serve`, and `config print`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::logs;

/// The subcommand that is configured.
pub(super) const SERVE: &str = "serve";
pub(super) const CONFIG: &str = "config";
pub(super) const PRINT: &str = "print";
/// Key of the log filter.
pub(super) const LOG: &str = "log";

/// A program's command with these.
pub(super) fn configured(command: Command) -> Command {
    let after = help(command.get_name());
    let command = command.mut_subcommand(SERVE, |serve| serve.arg(config()).arg(log()).after_help(after));
    let Some(serve) = command.find_subcommand(SERVE) else {
        return command;
    };
    let about =
        "Print the configuration that `serve` with the same options has, as TOML, and where each value comes from";
    let print = serve.clone().name(PRINT).about(about).long_about(None::<&str>);
    let about = "Print the configuration of `serve`";
    command.subcommand(
        Command::new(CONFIG)
            .about(about)
            .subcommand_required(true)
            .subcommand(print),
    )
}

/// The command without the variables that clap would read by itself: they are a layer here.
pub(super) fn without_variables(command: Command) -> Command {
    let strip = |command: Command| command.mut_args(|arg| arg.env(None));
    command
        .mut_subcommand(SERVE, strip)
        .mut_subcommand(CONFIG, |config| config.mut_subcommand(PRINT, strip))
}

/// The subcommand that matches are of, if it is configured, and its path.
pub(super) fn chosen(matches: &ArgMatches) -> Option<(&'static [&'static str], &ArgMatches)> {
    match matches.subcommand()? {
        (SERVE, matches) => Some((&[SERVE], matches)),
        (CONFIG, matches) => Some((&[CONFIG, PRINT], matches.subcommand_matches(PRINT)?)),
        _ => None,
    }
}

fn config() -> Arg {
    let help = "TOML file with options; its keys are their long names. It is followed while the server runs";
    let parser = value_parser!(PathBuf);
    Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .value_parser(parser)
        .help(help)
}

fn log() -> Arg {
    let help = "What is logged: a level, or a filter as of `RUST_LOG`, which is its default";
    let parser = |text: &str| logs::check_filter(text).map(|()| text.to_owned());
    Arg::new(LOG)
        .long(LOG)
        .value_name("FILTER")
        .value_parser(parser)
        .default_value(logs::default_filter())
        .help(help)
}

fn help(program: &str) -> String {
    let upper = program.replace('-', "_").to_ascii_uppercase();
    format!(
        "Every option can also be set in the file of --config, or by a variable: --drain-s by {upper}_DRAIN_S for this \
         program, or by DYAD_DRAIN_S for all of ours. Options come before variables, variables before the file. \
         `{program} config print` tells the outcome."
    )
}
