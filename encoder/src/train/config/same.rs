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
pub(crate) enum RunProgress {
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
pub(crate) fn first_difference(then: &str, now: &str, progress: RunProgress) -> Option<(String, String, String)> {
    let [then, now] = [then, now].map(|text| relevant_settings(text, progress));
    difference_below("", &then, &now)
}

/// The settings that matter for what was made. Both texts are read alike, so that equal texts are equal numbers.
fn relevant_settings(text: &str, progress: RunProgress) -> Value {
    let mut value: Value = serde_json::from_str(text).unwrap_or_default();
    let Value::Object(settings) = &mut value else {
        return value;
    };
    settings.retain(|setting, _| match progress {
        RunProgress::Start => OF_START.contains(&setting.as_str()),
        RunProgress::Mined => [OF_START, OF_MINING].concat().contains(&setting.as_str()),
        RunProgress::Trained => !FREE.contains(&setting.as_str()),
    });
    if progress == RunProgress::Mined
        && let Some(Value::Array(stages)) = settings.get_mut("stages")
    {
        stages.truncate(1);
        for stage in stages.iter_mut().filter_map(Value::as_object_mut) {
            stage.retain(|setting, _| OF_MINING_STAGE.contains(&setting.as_str()));
        }
    }
    value
}

fn path_below(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// The first value that differs, depth first; `path` leads to both.
fn difference_below(path: &str, then: &Value, now: &Value) -> Option<(String, String, String)> {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            let mut keys: Vec<&String> = then.keys().chain(now.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys.into_iter().find_map(|key| {
                let [then, now] = [then, now].map(|map| map.get(key).unwrap_or(&Value::Null));
                difference_below(&path_below(path, key), then, now)
            })
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => then
            .iter()
            .zip(now)
            .enumerate()
            .find_map(|(number, (then, now))| difference_below(&format!("{path}[{number}]"), then, now)),
        _ if then == now => None,
        _ => Some((path.to_owned(), then.to_string(), now.to_string())),
    }
}
