//! A flag as a setting: the values that it takes from a file or a variable, and how they become arguments.

use std::any::TypeId;
use std::error::Error as _;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Command};

/// A flag that a file and variables can set.
#[derive(Debug)]
pub(super) struct Setting {
    arg: Arg,
    /// Its long name.
    pub(super) key: String,
    pub(super) shape: FlagShape,
    kind: ValueKind,
}

/// How a flag takes values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FlagShape {
    /// None: it is there or not.
    Switch,
    /// One.
    One,
    /// One or none.
    Optional,
    /// One each time it is given.
    List,
}

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Boolean,
    Integer,
    Number,
    Text,
}

/// A value of a file or a variable.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SettingValue {
    Boolean(bool),
    Integer(String),
    Float(String),
    Text(OsString),
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SettingOrigin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(String),
    CommandLine,
}

/// A setting that a file or a variable gives, as arguments: none where it says `false`.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) key: String,
    pub(super) origin: SettingOrigin,
    pub(super) arguments: Vec<OsString>,
}

impl Setting {
    /// The settings of a command that has been built: every flag with a long name that holds a value or is a switch.
    pub(super) fn all(command: &Command) -> Vec<Self> {
        command.get_arguments().filter_map(Self::of).collect()
    }

    fn of(arg: &Arg) -> Option<Self> {
        let key = arg.get_long()?.to_owned();
        let optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
        let shape = match arg.get_action() {
            ArgAction::SetTrue => FlagShape::Switch,
            ArgAction::Set if optional => FlagShape::Optional,
            ArgAction::Set => FlagShape::One,
            ArgAction::Append => FlagShape::List,
            _ => return None,
        };
        Some(Self {
            arg: arg.clone(),
            key,
            shape,
            kind: ValueKind::of(arg),
        })
    }

    /// Its identifier in matches.
    pub(super) fn id(&self) -> &str {
        self.arg.get_id().as_str()
    }

    /// The variable that clap itself would read.
    pub(super) fn own_variable(&self) -> Option<&str> {
        self.arg.get_env()?.to_str()
    }

    /// The arguments that give it these values; an error says what was expected and what is there.
    pub(super) fn arguments(&self, values: Vec<SettingValue>) -> Result<Vec<OsString>, String> {
        let mut arguments = Vec::new();
        for value in values {
            let text: OsString = match (self.kind, &value) {
                (_, SettingValue::Boolean(false)) if self.takes_booleans() => continue,
                (_, SettingValue::Boolean(true)) if self.takes_booleans() => {
                    arguments.push(format!("--{}", self.key).into());
                    continue;
                }
                (ValueKind::Boolean, SettingValue::Boolean(value)) => value.to_string().into(),
                (ValueKind::Integer | ValueKind::Number, SettingValue::Integer(text))
                | (ValueKind::Number, SettingValue::Float(text)) => text.into(),
                (ValueKind::Text, SettingValue::Text(text)) => text.clone(),
                _ => return Err(format!("expected {}, got {value}", self.expected())),
            };
            self.check(&text).map_err(|reason| {
                format!(
                    "expected a value that `--{}` accepts, got {value}: {}",
                    self.key,
                    without_credentials(&reason)
                )
            })?;
            arguments.push(assign(&self.key, &text));
        }
        Ok(arguments)
    }

    /// The text of a variable as a value of its type; text that is none stays text, which [`Self::arguments`] refuses.
    pub(super) fn value_of(&self, text: OsString) -> SettingValue {
        let Some(utf8) = text.to_str() else {
            return SettingValue::Text(text);
        };
        match (self.kind, utf8) {
            (_, "true" | "false") if self.takes_booleans() || self.kind == ValueKind::Boolean => {
                SettingValue::Boolean(utf8 == "true")
            }
            (ValueKind::Integer, _) if utf8.parse::<i128>().is_ok() => SettingValue::Integer(utf8.to_owned()),
            (ValueKind::Number, _) if utf8.parse::<f64>().is_ok() => SettingValue::Float(utf8.to_owned()),
            _ => SettingValue::Text(text),
        }
    }

    /// What it takes, in words.
    pub(super) fn expected(&self) -> String {
        let one = match self.kind {
            ValueKind::Boolean => "a boolean",
            ValueKind::Integer => "an integer",
            ValueKind::Number => "a number",
            ValueKind::Text => "a string",
        };
        match self.shape {
            FlagShape::Switch => "a boolean".to_owned(),
            FlagShape::One => one.to_owned(),
            FlagShape::Optional => format!("{one}, true or false"),
            FlagShape::List => format!("{one}, or an array of them"),
        }
    }

    /// A value of the command line in TOML.
    pub(super) fn toml(&self, text: &str) -> String {
        let text = without_credentials(text);
        let value = match self.kind {
            ValueKind::Boolean => text.parse().ok().map(toml::Value::Boolean),
            // Integers of TOML files may be larger than those of `toml::Value`.
            ValueKind::Integer => {
                return text
                    .parse::<i128>()
                    .map_or_else(|_| quoted(&text), |value| value.to_string());
            }
            ValueKind::Number => text.parse().ok().map(toml::Value::Float),
            ValueKind::Text => None,
        };
        value.map_or_else(|| quoted(&text), |value| value.to_string())
    }

    /// Whether `true` means the flag without a value, and `false` its absence.
    fn takes_booleans(&self) -> bool {
        self.shape == FlagShape::Switch || (self.shape == FlagShape::Optional && self.kind != ValueKind::Boolean)
    }

    /// Lets the flag's own parser look at a value.
    fn check(&self, text: &OsStr) -> Result<(), String> {
        // Without what relates it to other flags.
        let alone = Arg::new("value")
            .long("value")
            .action(self.arg.get_action().clone())
            .num_args(self.arg.get_num_args().unwrap_or_else(|| 1.into()))
            .value_parser(self.arg.get_value_parser().clone());
        let command = Command::new("setting")
            .no_binary_name(true)
            .disable_help_flag(true)
            .arg(alone);
        let Err(error) = command.try_get_matches_from([assign("value", text)]) else {
            return Ok(());
        };
        if let Some(source) = error.source() {
            return Err(source.to_string());
        }
        Err(match error.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(values)) => format!("it is none of {}", values.join(", ")),
            _ => error.kind().to_string(),
        })
    }
}

impl ValueKind {
    fn of(arg: &Arg) -> Self {
        let of_parser = arg.get_value_parser().type_id();
        let is = |types: &[TypeId]| types.iter().any(|one| of_parser == *one);
        let unsigned = [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
        ];
        let signed = [
            TypeId::of::<i8>(),
            TypeId::of::<i16>(),
            TypeId::of::<i32>(),
            TypeId::of::<i64>(),
        ];
        if is(&[TypeId::of::<bool>()]) {
            Self::Boolean
        } else if is(&unsigned) || is(&signed) || is(&[TypeId::of::<usize>(), TypeId::of::<isize>()]) {
            Self::Integer
        } else if is(&[TypeId::of::<f32>(), TypeId::of::<f64>()]) {
            Self::Number
        } else {
            Self::Text
        }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "the boolean {value}"),
            Self::Integer(text) => write!(f, "the integer {text}"),
            Self::Float(text) => write!(f, "the float {text}"),
            Self::Text(text) => write!(f, "the string {:?}", without_credentials(&text.to_string_lossy())),
        }
    }
}

impl fmt::Display for SettingOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, .. } => write!(f, "file {}", path.display().to_string().escape_debug()),
            Self::Variable(name) => write!(f, "environment {name}"),
            Self::CommandLine => f.write_str("command line"),
        }
    }
}

fn assign(key: &str, text: &OsStr) -> OsString {
    let mut argument = OsString::from(format!("--{key}="));
    argument.push(text);
    argument
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The text with the user and password of every URL in it replaced by `***`; of URLs of object stores (all but `http`
/// and `https`) also what follows `?`, where signatures would be.
pub(super) fn without_credentials(text: &str) -> String {
    let mut parts = text.split("://");
    let mut masked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // To the end of the word: a password may have characters that should have been encoded, such as `/`.
        let end = part.find([' ', '"', '`', '\'', ',']).unwrap_or(part.len());
        let (authority, rest) = part.split_at(end);
        let is_store = !masked.ends_with("http") && !masked.ends_with("https");
        masked.push_str("://");
        let (user, place) = authority
            .rsplit_once('@')
            .map_or((None, authority), |(user, place)| (Some(user), place));
        if user.is_some() {
            masked.push_str("***@");
        }
        match place.split_once('?').filter(|_| is_store) {
            Some((place, _)) => masked.extend([place, "?***"]),
            // Of a signature that has a `@`, its end is no place.
            None if is_store && user.is_some_and(|user| user.contains('?')) => masked.push_str("***"),
            None => masked.push_str(place),
        }
        masked.push_str(rest);
    }
    masked
}
