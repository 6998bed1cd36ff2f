//! The TOML file: its keys are long names of flags, all at the top level.

use std::io::Read as _;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::setting::{FlagShape, Given, Setting, SettingOrigin, SettingValue};
use super::variables::nearest;

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// The text of a configuration file.
pub(super) fn text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = fs_err::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text));
    match read {
        Err(error) => Err(format!("--config: {error}")),
        Ok(bytes) if bytes as u64 > MAX_BYTES => Err(format!(
            "--config `{}`: expected at most {MAX_BYTES} bytes, got more",
            path.display()
        )),
        Ok(_) => Ok(text),
    }
}

/// The settings that a file gives, in its order. An error names file, line and key.
pub(super) fn settings(path: &Path, text: &str, known: &[Setting]) -> Result<Vec<Given>, String> {
    let line = |at: usize| text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
    let refused = |at: usize, reason: String| format!("{}:{}: {reason}", path.display(), line(at));
    let table = DeTable::parse(text)
        .map_err(|error| refused(error.span().map_or(0, |span| span.start), error.message().to_owned()))?;
    let mut entries: Vec<_> = table.get_ref().iter().collect();
    entries.sort_unstable_by_key(|(key, _)| key.span().start);
    let mut all = Vec::new();
    for (key, value) in entries {
        let at = key.span().start;
        let key = key.get_ref().as_ref();
        let Some(setting) = known.iter().find(|setting| setting.key == key) else {
            return Err(refused(at, unknown(key, known)));
        };
        let arguments = values(setting, value.get_ref()).and_then(|values| setting.arguments(values));
        let arguments = arguments.map_err(|reason| refused(at, format!("`{key}`: {reason}")))?;
        let origin = SettingOrigin::File {
            path: path.to_owned(),
            line: line(at),
        };
        all.push(Given {
            key: key.to_owned(),
            origin,
            arguments,
        });
    }
    Ok(all)
}

fn unknown(key: &str, known: &[Setting]) -> String {
    match nearest(&key.replace('_', "-"), known.iter().map(|setting| setting.key.as_str())) {
        Some(near) => format!("unknown key `{key}`, did you mean `{near}`?"),
        None => format!("unknown key `{key}`: expected the long name of an option of `serve`, without its dashes"),
    }
}

fn values(setting: &Setting, value: &DeValue<'_>) -> Result<Vec<SettingValue>, String> {
    let wrong = |got: &str| format!("expected {}, got {got}", setting.expected());
    match value {
        DeValue::Array(array) if setting.shape == FlagShape::List => {
            if array.is_empty() {
                return Err(wrong("an empty array. Leave the key out"));
            }
            array
                .iter()
                .map(Spanned::get_ref)
                .map(|one| scalar(one).map_err(wrong))
                .collect()
        }
        value => Ok(vec![scalar(value).map_err(wrong)?]),
    }
}

/// A value that is one; else what it is.
fn scalar(value: &DeValue<'_>) -> Result<SettingValue, &'static str> {
    Ok(match value {
        DeValue::Boolean(value) => SettingValue::Boolean(*value),
        DeValue::Integer(value) => match i128::from_str_radix(value.as_str(), value.radix()) {
            Ok(value) => SettingValue::Integer(value.to_string()),
            Err(_) => return Err("an integer that is too large"),
        },
        DeValue::Float(value) => SettingValue::Float(value.as_str().to_owned()),
        DeValue::String(text) => SettingValue::Text(text.as_ref().into()),
        DeValue::Datetime(_) => return Err("a date"),
        DeValue::Array(_) => return Err("an array"),
        DeValue::Table(_) => return Err("a table"),
    })
}
