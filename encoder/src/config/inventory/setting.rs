//! A list of settings, and what a file has of it.

use serde_json::Value;

use crate::config::json::JsonFile;
use crate::error::Error;

/// Characters of a value that are shown.
const SHOWN: usize = 120;

/// Reasons why settings change no vector.
pub(super) const TRAINING: &str = "it is for training";
pub(super) const GENERATION: &str = "it is for generating text";
pub(super) const OUTPUTS: &str = "it says what else Python returns";
pub(super) const ORIGIN: &str = "it says where the model is from";

/// What is done with a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingUse {
    /// It is read, and decides what the text says.
    Read(&'static str),
    /// It changes no vector, for this reason.
    NoEffect(&'static str),
    /// Any value but these is refused, written as in JSON; `null` is as if it were absent.
    Only(&'static [&'static str]),
}

/// Settings of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownSettings {
    /// Names, with spaces between them; one that begins with `*` is the end of many.
    pub(super) names: &'static str,
    pub(super) used: SettingUse,
}

pub(super) const fn known(names: &'static str, used: SettingUse) -> KnownSettings {
    KnownSettings { names, used }
}

/// The settings of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct SettingsFile {
    /// The name of the file, as it is shown.
    pub(super) name: &'static str,
    pub(super) settings: &'static [KnownSettings],
}

impl KnownSettings {
    pub(super) fn has(&self, name: &str) -> bool {
        self.names
            .split_whitespace()
            .any(|known| match known.strip_prefix('*') {
                Some(end) => name.ends_with(end),
                None => known == name,
            })
    }
}

impl SettingsFile {
    /// Refuses a value that the list does not allow; gives the names that it does not know.
    pub(super) fn check(&self, file: &JsonFile) -> Result<Vec<String>, Error> {
        let mut unknown = Vec::new();
        for name in file.names() {
            let Some(known) = self.settings.iter().find(|settings| settings.has(name)) else {
                // `null` is as if it were absent.
                if file.get(name).is_some() {
                    unknown.push(name.to_owned());
                }
                continue;
            };
            let SettingUse::Only(allowed) = known.used else {
                continue;
            };
            let Some(value) = file.get(name) else { continue };
            let is_allowed =
                |allowed: &&str| serde_json::from_str::<Value>(allowed).is_ok_and(|allowed| allowed == *value);
            if !allowed.iter().any(is_allowed) {
                let values: Vec<String> = allowed.iter().map(|value| format!("`{value}`")).collect();
                return Err(Error::SettingNotSupported {
                    path: file.path().to_owned(),
                    name: name.to_owned(),
                    supported: if values.is_empty() {
                        "none".to_owned()
                    } else {
                        values.join(" or ")
                    },
                    got: value.to_string().chars().take(SHOWN).collect(),
                });
            }
        }
        Ok(unknown)
    }
}
