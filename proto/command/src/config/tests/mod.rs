//! Tests of the configuration, on a program with a flag of each shape.
//!
//! | file | contents |
//! |---|---|
//! | `precedence.rs` | random layers against a simple oracle; what is printed is read back |
//! | `refusals.rs` | what is refused, and the words |
//! | `reread.rs` | a configuration that is read again |

mod precedence;
mod refusals;
mod reread;

use std::ffi::OsString;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, value_parser};

use super::command::chosen;
use super::layers::{ConfigRefusal, Configuration};
use super::print;

#[derive(Debug, Parser)]
#[command(name = "dyad-tester", version)]
struct Tester {
    #[command(subcommand)]
    command: Commands,
}

#[derive(Debug, Subcommand)]
enum Commands {
    Serve(Serve),
    Ask { question: String },
}

#[derive(Debug, Args, PartialEq)]
struct Serve {
    #[arg(long, default_value = "127.0.0.1:1")]
    listen: String,
    #[arg(long, default_value_t = 7, value_parser = value_parser!(u32).range(1..=1000))]
    max_count: u32,
    #[arg(long, default_value_t = 0.5)]
    ratio: f64,
    #[arg(long, env = "DYAD_OF_NAMES", required = true)]
    names: Vec<String>,
    #[arg(long)]
    switch: bool,
    #[arg(long, num_args = 0..=1, default_missing_value = "1", conflicts_with = "generation")]
    watch: Option<u64>,
    #[arg(long)]
    generation: Option<u64>,
    #[arg(long, value_parser = ["big", "small"])]
    size: Option<String>,
}

/// A program's configuration with these arguments after its name, and these variables.
fn configuration<S: Into<OsString>>(
    arguments: impl IntoIterator<Item = S>,
    variables: &[(&str, &str)],
) -> Configuration {
    let arguments = [OsString::from("dyad-tester")]
        .into_iter()
        .chain(arguments.into_iter().map(Into::into));
    let variables: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    Configuration::new(Tester::command(), arguments.collect(), variables.into_iter())
}

/// The arguments of `serve` that all layers give.
fn merge(configuration: &Configuration, file: Option<&str>) -> Result<Serve, ConfigRefusal> {
    let merged = configuration.merge(file.map(|text| Ok(text.to_owned())).as_ref())?;
    Ok(Serve::from_arg_matches(chosen(&merged.matches).unwrap().1).unwrap())
}

/// What `config print` prints.
fn printed(configuration: &Configuration, file: Option<&str>) -> Result<String, ConfigRefusal> {
    let merged = configuration.merge(file.map(|text| Ok(text.to_owned())).as_ref())?;
    Ok(print::toml(configuration, &merged.values))
}
