//! `config print`: the configuration as TOML that `--config` reads, with the origin of each value.

use std::fmt::Write as _;

use super::layers::{Configuration, Effective};
use super::setting::{FlagShape, Setting, SettingOrigin};

/// The TOML of these values, one in a line.
pub(super) fn toml(configuration: &Configuration, values: &[Effective]) -> String {
    let mut toml = String::new();
    for value in values {
        let Some(setting) = configuration.setting(&value.key) else {
            continue;
        };
        // Writing to a string cannot fail.
        let _ = writeln!(toml, "{}", line(setting, value));
    }
    toml
}

fn line(setting: &Setting, value: &Effective) -> String {
    let (key, origin) = (&value.key, &value.origin);
    let texts = value
        .values
        .iter()
        .flatten()
        .map(|text| setting.toml(&text.to_string_lossy()));
    let texts: Vec<String> = texts.collect();
    match (texts.as_slice(), setting.shape) {
        ([], FlagShape::Optional) if *origin != SettingOrigin::Default => format!("{key} = false # {origin}"),
        ([], _) => format!("# {key} is not set"),
        (all, FlagShape::List) => format!("{key} = [{}] # {origin}", all.join(", ")),
        ([one, ..], _) => format!("{key} = {one} # {origin}"),
    }
}
