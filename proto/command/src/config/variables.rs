//! The `DYAD_` variables: of a flag `--max-requests` of `dyad-searcher`, `DYAD_SEARCHER_MAX_REQUESTS`, else
//! `DYAD_MAX_REQUESTS`.
//!
//! The name with the program sets the flag of that program alone, where programs share an environment.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::setting::{FlagShape, Given, Setting, SettingOrigin};

const PREFIX: &str = "DYAD_";
/// Variables of all programs that are no flags.
const OTHERS: [&str; 2] = ["DYAD_KERNELS", "DYAD_LOG_FORMAT"];

/// The variables of a process that begin with `DYAD_` and are not empty.
#[derive(Debug)]
pub(super) struct Variables {
    /// `DYAD_SEARCHER_`.
    program: String,
    values: BTreeMap<String, OsString>,
}

impl Variables {
    /// Those of `all` that concern a program.
    pub(super) fn new(program: &str, all: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let ours = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        let values = all
            .filter_map(ours)
            .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty());
        Self {
            program: format!("{}_", constant_case(program)),
            values: values.collect(),
        }
    }

    /// The value of a flag, with the name of the variable that it comes from.
    pub(super) fn get(&self, key: &str, own: Option<&str>) -> Option<(String, OsString)> {
        let found = self
            .names(key, own)
            .into_iter()
            .find_map(|name| self.values.get_key_value(&name));
        found.map(|(name, value)| (name.clone(), value.clone()))
    }

    /// A setting that a variable gives. An error names the variable.
    pub(super) fn setting(&self, setting: &Setting) -> Result<Option<Given>, String> {
        let Some((name, text)) = self.get(&setting.key, setting.own_variable()) else {
            return Ok(None);
        };
        let arguments = setting.arguments(vec![setting.value_of(text)]).map_err(|reason| {
            let only = if setting.shape == FlagShape::List {
                ". A variable holds one value"
            } else {
                ""
            };
            format!("{name}: {reason}{only}")
        })?;
        Ok(Some(Given {
            key: setting.key.clone(),
            origin: SettingOrigin::Variable(name),
            arguments,
        }))
    }

    /// A warning for each variable that is not known and looks like one that is.
    pub(super) fn warnings(&self, settings: &[Setting]) -> Vec<String> {
        let mut known: Vec<String> = OTHERS.map(str::to_owned).into();
        known.extend(self.names("config", None));
        known.extend(
            settings
                .iter()
                .flat_map(|setting| self.names(&setting.key, setting.own_variable())),
        );
        let unknown = self.values.keys().filter(|name| !known.contains(name));
        let near = |name: &String| {
            let near = nearest(
                name.strip_prefix(PREFIX)?,
                known.iter().filter_map(|one| one.strip_prefix(PREFIX)),
            )?;
            Some(format!(
                "the variable `{name}` is unknown and sets nothing, did you mean `{PREFIX}{near}`?"
            ))
        };
        unknown.filter_map(near).collect()
    }

    /// The names of a flag's variables, the one that counts first.
    fn names(&self, key: &str, own: Option<&str>) -> [String; 2] {
        let name = constant_case(key);
        [
            format!("{}{name}", self.program),
            own.map_or_else(|| format!("{PREFIX}{name}"), str::to_owned),
        ]
    }
}

fn constant_case(name: &str) -> String {
    name.replace('-', "_").to_ascii_uppercase()
}

/// The name that a misspelt one probably means: one letter in five may differ, always one, at most three.
pub(super) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let allowed = (name.chars().count() / 5).clamp(1, 3);
    let near = known.map(|one| (strsim::damerau_levenshtein(name, one), one)).min()?;
    (near.0 <= allowed).then_some(near.1)
}
