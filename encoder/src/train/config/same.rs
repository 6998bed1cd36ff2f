//! Checks that a run resumes with the settings that it began with.

use serde_json::Value;

use super::Config;

/// Settings that do not change what is learned, up to rounding: a run may go on under others.
const FREE: [&str; 4] = ["device", "threads", "checkpoints", "log"];
/// Settings that the model which a run begins from is made by.
const OF_START: [&str; 2] = ["model", "seed"];
/// Settings that decide, with those, which negatives are mined before the first step: of the run, and of its first
/// stage.
const OF_MINING: [&str; 2] = ["dtype", "stages"];
const OF_MINING_STAGE: [&str; 2] = ["data", "mine"];

/// How far a run has come, as what it has left tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// The initial model.
    Start,
    /// Negatives for the first stage too.
    Mined,
    /// Steps.
    Trained,
}

impl Config {
    /// All settings as JSON, for a checkpoint.
    pub(crate) fn facts(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// The first setting that differs and matters for what was made: its path, its value then and now.
pub(crate) fn difference(then: &str, now: &str, made: Made) -> Option<(String, String, String)> {
    // Read alike, so that equal texts are equal numbers.
    let read = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap_or_default();
        let Value::Object(settings) = &mut value else {
            return value;
        };
        settings.retain(|setting, _| match made {
            Made::Start => OF_START.contains(&setting.as_str()),
            Made::Mined => [OF_START, OF_MINING].concat().contains(&setting.as_str()),
            Made::Trained => !FREE.contains(&setting.as_str()),
        });
        if made == Made::Mined
            && let Some(Value::Array(stages)) = settings.get_mut("stages")
        {
            stages.truncate(1);
            for stage in stages.iter_mut().filter_map(Value::as_object_mut) {
                stage.retain(|setting, _| OF_MINING_STAGE.contains(&setting.as_str()));
            }
        }
        value
    };
    first("", &read(then), &read(now))
}

fn first(path: &str, then: &Value, now: &Value) -> Option<(String, String, String)> {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            let mut keys: Vec<&String> = then.keys().chain(now.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            let of = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or(Value::Null);
            keys.into_iter()
                .find_map(|key| first(&below(key), &of(then, key), &of(now, key)))
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => then
            .iter()
            .zip(now)
            .enumerate()
            .find_map(|(number, (then, now))| first(&format!("{path}[{number}]"), then, now)),
        _ if then == now => None,
        _ => Some((path.to_owned(), then.to_string(), now.to_string())),
    }
}
