//! Whether a run goes on under the settings it began with.

use serde_json::Value;

use super::Config;

/// Settings that do not change what is learned, up to rounding: a run may go on under others.
const FREE: [&str; 4] = ["device", "threads", "checkpoints", "log"];

impl Config {
    /// All settings as JSON, for a checkpoint.
    pub(crate) fn facts(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}

/// The first setting that differs and matters: its path, its value then and now.
pub(crate) fn difference(then: &str, now: &str) -> Option<(String, String, String)> {
    // Read alike, so that equal texts are equal numbers.
    let without = |text: &str| {
        let mut value: Value = serde_json::from_str(text).unwrap_or_default();
        if let Value::Object(settings) = &mut value {
            for free in FREE {
                settings.remove(free);
            }
        }
        value
    };
    first("", &without(then), &without(now))
}

fn first(path: &str, then: &Value, now: &Value) -> Option<(String, String, String)> {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            let mut keys: Vec<&String> = then.keys().chain(now.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            let of = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or(Value::Null);
            keys.into_iter().find_map(|key| first(&below(key), &of(then, key), &of(now, key)))
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
