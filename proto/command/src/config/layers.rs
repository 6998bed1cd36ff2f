//! [`Configuration`]: the layers of a command line, put together as often as the file is read.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::command::{CONFIG, LOG, chosen, configured, without_variables};
use super::file;
use super::setting::{Given, Setting, SettingOrigin};
use super::variables::Variables;
use crate::logs;

/// The configuration of a server, and all that is needed to read it again.
#[derive(Debug)]
pub(super) struct Configuration {
    command: Command,
    arguments: Vec<OsString>,
    /// The subcommand that is configured: `serve`, or `config print`; empty for others.
    path: &'static [&'static str],
    settings: Vec<Setting>,
    variables: Variables,
    file: Option<PathBuf>,
}

/// All layers put together.
#[derive(Debug)]
pub(super) struct Merged {
    /// Of the whole command line.
    pub(super) matches: ArgMatches,
    /// In the order of the command's flags.
    pub(super) values: Vec<Effective>,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Effective {
    pub(super) key: String,
    /// None if it is not set.
    pub(super) values: Option<Vec<OsString>>,
    pub(super) origin: SettingOrigin,
}

/// A configuration that cannot be used.
#[derive(Debug)]
pub(super) enum ConfigRefusal {
    /// By clap; with a line for each flag that it names and that is not from the command line.
    CommandLine(Box<clap::Error>, Vec<String>),
    /// By a layer below.
    Layer(String),
}

impl Configuration {
    /// The configuration of a program with these arguments, of which the first is its name, and variables. Nothing is
    /// read yet.
    pub(super) fn new(
        command: Command,
        arguments: Vec<OsString>,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Self {
        let command = configured(command);
        let variables = Variables::new(command.get_name(), variables);
        let mut new = Self {
            command,
            arguments,
            path: &[],
            settings: Vec::new(),
            variables,
            file: None,
        };
        let Some(matches) = new.lenient() else { return new };
        let Some((path, matches)) = chosen(&matches) else {
            return new;
        };
        let mut built = new.command.clone();
        built.build();
        let leaf = path
            .iter()
            .try_fold(&built, |command, name| command.find_subcommand(name));
        new.settings = leaf.map(Setting::all).unwrap_or_default();
        new.settings.retain(|setting| setting.key != CONFIG);
        new.path = path;
        new.command = without_variables(new.command);
        let of_variable = || new.variables.get(CONFIG, None).map(|(_, path)| path.into());
        new.file = matches.get_one::<PathBuf>(CONFIG).cloned().or_else(of_variable);
        new
    }

    /// Whether `config print` is asked for.
    pub(super) fn is_print(&self) -> bool {
        self.path.first() == Some(&CONFIG)
    }

    pub(super) fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    pub(super) fn setting(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    /// A warning for each variable that looks misspelt.
    pub(super) fn warnings(&self) -> Vec<String> {
        if self.path.is_empty() {
            Vec::new()
        } else {
            self.variables.warnings(&self.settings)
        }
    }

    /// The text of the file; none if there is no file.
    pub(super) fn text(&self) -> Option<Result<String, String>> {
        self.file.as_deref().map(file::text)
    }

    /// Puts the layers together, with this text of the file.
    pub(super) fn merge(&self, text: Option<&Result<String, String>>) -> Result<Merged, ConfigRefusal> {
        let given = self.lower_layers(text).map_err(ConfigRefusal::Layer)?;
        let mut arguments = self.arguments.clone();
        let mut at = arguments.len().min(1);
        for name in self.path {
            at += arguments
                .iter()
                .skip(at)
                .position(|argument| argument == name)
                .map_or(0, |found| found + 1);
        }
        arguments.splice(at..at, given.iter().flat_map(|one| one.arguments.clone()));
        let matches = self.command.clone().try_get_matches_from(arguments).map_err(|error| {
            let lines = origins(&error, &given);
            ConfigRefusal::CommandLine(Box::new(error), lines)
        })?;
        let values = match chosen(&matches) {
            Some((_, matches)) => self
                .settings
                .iter()
                .map(|setting| effective(setting, matches, &given))
                .collect(),
            None => Vec::new(),
        };
        Ok(Merged { matches, values })
    }

    /// What file and variables give to flags that are not on the command line. All of the file is checked.
    fn lower_layers(&self, text: Option<&Result<String, String>>) -> Result<Vec<Given>, String> {
        let Some(matches) = self.lenient() else {
            return Ok(Vec::new());
        };
        let Some((_, matches)) = chosen(&matches) else {
            return Ok(Vec::new());
        };
        let mut of_file = match (&self.file, text) {
            (Some(path), Some(text)) => file::settings(path, text.as_ref().map_err(Clone::clone)?, &self.settings)?,
            _ => Vec::new(),
        };
        let mut given = Vec::new();
        for setting in &self.settings {
            let in_file = of_file
                .iter()
                .position(|one| one.key == setting.key)
                .map(|at| of_file.swap_remove(at));
            if matches.value_source(setting.id()) == Some(ValueSource::CommandLine) {
                continue;
            }
            given.extend(self.variables.setting(setting)?.or(in_file));
        }
        Ok(given)
    }

    /// What the command line alone says, whether or not it is complete. None where it asks for help or the version.
    fn lenient(&self) -> Option<ArgMatches> {
        // Parsing ends at the first argument that clap refuses. It will refuse that one again when all layers are
        // there.
        self.command
            .clone()
            .ignore_errors(true)
            .try_get_matches_from(&self.arguments)
            .ok()
    }
}

fn effective(setting: &Setting, matches: &ArgMatches, given: &[Given]) -> Effective {
    let values = matches
        .get_raw(setting.id())
        .map(|values| values.map(OsStr::to_owned).collect());
    let origin = match given.iter().find(|one| one.key == setting.key) {
        Some(given) => given.origin.clone(),
        None if matches.value_source(setting.id()) == Some(ValueSource::CommandLine) => SettingOrigin::CommandLine,
        None if setting.key == LOG && logs::is_from_environment() => SettingOrigin::Variable(logs::VARIABLE.to_owned()),
        None => SettingOrigin::Default,
    };
    Effective {
        key: setting.key.clone(),
        values,
        origin,
    }
}

/// A line for each flag that clap's error names and that does not come from the command line.
fn origins(error: &clap::Error, given: &[Given]) -> Vec<String> {
    let mut named: Vec<&str> = Vec::new();
    for context in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        match error.get(context) {
            Some(ContextValue::String(name)) => named.push(name),
            Some(ContextValue::Strings(names)) => named.extend(names.iter().map(String::as_str)),
            _ => {}
        }
    }
    let is_named = |key: &str| {
        named
            .iter()
            .any(|name| name.split([' ', '=', '[']).next() == Some(&*format!("--{key}")))
    };
    let from = |one: &Given| match &one.origin {
        SettingOrigin::File { path, line } => format!("`--{}` comes from {}:{line}", one.key, path.display()),
        origin => format!("`--{}` comes from the {origin}", one.key),
    };
    given.iter().filter(|one| is_named(&one.key)).map(from).collect()
}

impl fmt::Display for ConfigRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer(reason) => f.write_str(reason),
            Self::CommandLine(error, origins) => {
                // Without the usage, which follows an empty line.
                let text = error.to_string();
                let told = text.split("\n\n").next().unwrap_or_default();
                let words: Vec<&str> = told.trim_start_matches("error: ").split_whitespace().collect();
                f.write_str(&words.join(" "))?;
                origins.iter().try_for_each(|line| write!(f, "; {line}"))
            }
        }
    }
}
