//! Short forms that people write in the JSON of requests, in place of the mapping of proto3.
//!
//! | short | standard |
//! |---|---|
//! | `"mode": "hybrid"` | `"mode": "MODE_HYBRID"`; so for every enum, in any case |
//! | `"filter": "year>=2020"` | `{"range": {"field": "year", "min": {"number": 2020}}}`, as on the command line |
//! | `"filter": {"lang": "en"}` | `{"equals": {"field": "lang", "value": {"text": "en"}}}` |
//! | `"filter": {"lang": ["en", "de"]}` | `{"one_of": {...}}` |
//! | `"filter": {"year": {">=": 2020, "<": 2024}}` | both; `=`, `!=`, `>`, `>=`, `<`, `<=`, `^=`, `in`, `exists` |
//! | `"filter": ["lang=en", {"year": 2020}]` | all of them |
//!
//! Requests of more than 8 KiB have none. An object whose members are all conditions of `Filter` (`all`, `any`, `not`,
//! `equals`, ...) is a standard one. Its parts may be short again.

use dyad_proto::json::{MessageJson, MessageJsonError, ShortForms};
use dyad_proto::limits::MAX_FILTER_DEPTH;
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value;
use prost::Name as _;
use prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value};

use crate::syntax::{self, FilterOperator};

/// What the names of enums' values that say nothing end in.
const UNSPECIFIED: &str = "UNSPECIFIED";
/// Longest request that may have short forms.
const MAX_BYTES: usize = 8 << 10;
/// Characters of a value that an error repeats.
const TOLD_CHARACTERS: usize = 40;

/// Messages as JSON, whose requests may have short forms.
pub fn message_json() -> Result<MessageJson, MessageJsonError> {
    let short_forms = ShortForms {
        max_bytes: MAX_BYTES,
        expand,
    };
    Ok(MessageJson::new()?.with_short_forms(short_forms))
}

/// Replaces the short forms in a message's JSON by standard ones; whether there were any. What is neither is left for
/// the reader to refuse.
fn expand(json: &mut Value, message: &MessageDescriptor) -> Result<bool, String> {
    expand_at(json, message, 0)
}

/// The same inside of `filters` filters.
fn expand_at(json: &mut Value, message: &MessageDescriptor, filters: usize) -> Result<bool, String> {
    let Value::Object(members) = json else {
        return Ok(false);
    };
    let mut has_changed = false;
    for (name, value) in members.iter_mut() {
        let Some(field) = field_of(message, name) else { continue };
        match value {
            Value::Array(entries) if field.is_list() => {
                for entry in entries {
                    has_changed |= expand_field(entry, &field, filters)?;
                }
            }
            value => has_changed |= expand_field(value, &field, filters)?,
        }
    }
    Ok(has_changed)
}

/// A field by either of its names.
fn field_of(message: &MessageDescriptor, name: &str) -> Option<FieldDescriptor> {
    message
        .get_field_by_name(name)
        .or_else(|| message.get_field_by_json_name(name))
}

fn expand_field(value: &mut Value, field: &FieldDescriptor, filters: usize) -> Result<bool, String> {
    match field.kind() {
        Kind::Enum(values) => expand_word(value, &values, field.name()),
        Kind::Message(filter) if filter.full_name() == v1::Filter::full_name() => {
            expand_filter(value, &filter, filters + 1)
        }
        Kind::Message(message) => expand_at(value, &message, filters),
        _ => Ok(false),
    }
}

/// The name of an enum's value in the place of its word.
fn expand_word(value: &mut Value, values: &EnumDescriptor, field: &str) -> Result<bool, String> {
    let Some(prefix) = values
        .default_value()
        .name()
        .strip_suffix(UNSPECIFIED)
        .map(str::to_owned)
    else {
        return Ok(false);
    };
    let Value::String(given) = value else {
        return Ok(false);
    };
    if values.get_value_by_name(given).is_some() {
        return Ok(false);
    }
    let word = |name: &str| {
        name.strip_prefix(&prefix)
            .unwrap_or(name)
            .to_ascii_lowercase()
            .replace('_', "-")
    };
    let wanted = given.to_ascii_lowercase().replace('_', "-");
    let found = values.values().find(|one| word(one.name()) == wanted);
    if let Some(found) = found.filter(|one| one.number() != 0) {
        *value = Value::String(found.name().to_owned());
        return Ok(true);
    }
    let known: Vec<String> = values
        .values()
        .filter(|one| one.number() != 0)
        .map(|one| format!("`{}`", word(one.name())))
        .collect();
    let known = known.join(", ");
    Err(format!(
        "`{field}`: expected one of {known}, got `{}`",
        given.escape_debug()
    ))
}

/// A standard filter in the place of a short one.
fn expand_filter(value: &mut Value, filter: &MessageDescriptor, depth: usize) -> Result<bool, String> {
    if depth > MAX_FILTER_DEPTH {
        return Err(format!(
            "`filter`: expected at most {MAX_FILTER_DEPTH} filters inside each other"
        ));
    }
    let short = match value {
        Value::String(text) => syntax::parse(text).map_err(|error| format!("`filter`: {error}"))?,
        Value::Array(parts) => {
            for part in parts.iter_mut() {
                expand_filter(part, filter, depth + 1)?;
            }
            let mut list = Map::new();
            list.insert("filters".to_owned(), Value::Array(std::mem::take(parts)));
            let mut all = Map::new();
            all.insert("all".to_owned(), Value::Object(list));
            *value = Value::Object(all);
            return Ok(true);
        }
        Value::Object(members) if members.keys().any(|name| field_of(filter, name).is_none()) => {
            if let Some(condition) = members.keys().find(|name| field_of(filter, name).is_some()) {
                return Err(format!(
                    "`filter`: `{condition}` is a condition, and stands next to fields: write a list, `[{{\"lang\": \"en\"}}, {{\"{condition}\": ...}}]`"
                ));
            }
            let mut conditions = Vec::new();
            for (field, wanted) in members {
                add_conditions(&mut conditions, field, wanted)?;
            }
            syntax::all(conditions).unwrap_or_default()
        }
        value => return expand_at(value, filter, depth),
    };
    *value = standard(filter, &short)?;
    Ok(true)
}

/// A filter as the mapping of proto3 has it.
fn standard(descriptor: &MessageDescriptor, filter: &v1::Filter) -> Result<Value, String> {
    let mut message = DynamicMessage::new(descriptor.clone());
    message.transcode_from(filter).map_err(|error| error.to_string())?;
    serde_json::to_value(&message).map_err(|error| error.to_string())
}

/// Adds what a short filter asks of one field.
fn add_conditions(conditions: &mut Vec<v1::Filter>, field: &str, wanted: &Value) -> Result<(), String> {
    match wanted {
        Value::Object(comparisons) => {
            if comparisons.is_empty() {
                let operators = syntax::operator_names();
                return Err(format!("`filter`: `{field}`: expected {operators}, got nothing"));
            }
            for (operator, operand) in comparisons {
                conditions.push(compared(field, operator, operand)?);
            }
        }
        Value::Array(_) => conditions.push(compared(field, "in", wanted)?),
        _ => conditions.push(compared(field, "=", wanted)?),
    }
    Ok(())
}

/// The condition that a field compares so with an operand.
fn compared(field: &str, operator: &str, operand: &Value) -> Result<v1::Filter, String> {
    let field = field.to_owned();
    match (operator, operand) {
        ("in", Value::Array(values)) => {
            let values = values.iter().map(|value| operand_value(&field, value));
            let values = values.collect::<Result<_, _>>()?;
            Ok(syntax::from_condition(Condition::OneOf(v1::FieldOneOf {
                field,
                values,
            })))
        }
        ("exists", Value::Bool(exists)) => {
            let condition = syntax::from_condition(Condition::Exists(v1::FieldExists { field }));
            Ok(if *exists {
                condition
            } else {
                syntax::from_condition(Condition::Not(Box::new(condition)))
            })
        }
        ("in", got) => Err(format!(
            "`filter`: `{field}`: expected a list after `in`, got {}",
            beginning(got)
        )),
        ("exists", got) => Err(format!(
            "`filter`: `{field}`: expected true or false after `exists`, got {}",
            beginning(got)
        )),
        _ => {
            let operator = FilterOperator::of_symbol(operator).ok_or_else(|| {
                let operators = syntax::operator_names();
                let got = operator.escape_debug();
                format!("`filter`: `{field}`: expected {operators}, got `{got}`")
            })?;
            let value = operand_value(&field, operand)?;
            let compared = operator.compare(&field, value);
            compared.map_err(|error| format!("`filter`: {error}, got {}", beginning(operand)))
        }
    }
}

/// The beginning of a value's JSON, as an error repeats it.
fn beginning(value: &Value) -> String {
    // The precision of a format does not shorten JSON.
    value.to_string().chars().take(TOLD_CHARACTERS).collect()
}

/// A text, a number or a flag.
fn operand_value(field: &str, operand: &Value) -> Result<v1::FilterValue, String> {
    let value = match operand {
        Value::String(text) => filter_value::Value::Text(text.clone()),
        Value::Bool(flag) => filter_value::Value::Flag(*flag),
        // Keys and titles are texts, as on the command line.
        Value::Number(number) if matches!(field, "key" | "title") => filter_value::Value::Text(number.to_string()),
        Value::Number(number) => {
            let nearest = number.as_f64().unwrap_or(f64::NAN);
            syntax::exact_number(&number.to_string(), nearest)
        }
        Value::Null | Value::Array(_) | Value::Object(_) => {
            return Err(format!(
                "`filter`: `{field}`: expected a text, a number, true or false, got {}. `{{\"exists\": false}}` finds \
                 documents without the field",
                beginning(operand)
            ));
        }
    };
    Ok(v1::FilterValue { value: Some(value) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: &Value) -> Result<v1::SearchRequest, String> {
        let text = json.to_string();
        let read = message_json().unwrap().read(text.as_bytes());
        read.map_err(|error| error.to_string())
    }

    fn filter(json: &Value) -> v1::Filter {
        read(&json!({"query": "why", "filter": json})).unwrap().filter.unwrap()
    }

    #[test]
    fn words_of_enums_are_read_in_any_case() {
        for (given, mode) in [
            ("hybrid", v1::Mode::Hybrid),
            ("BM25", v1::Mode::Bm25),
            ("MODE_DENSE", v1::Mode::Dense),
        ] {
            assert_eq!(read(&json!({"query": "why", "mode": given})).unwrap().mode(), mode);
        }
        for given in ["log-odds", "LOG_ODDS", "FUSION_LOG_ODDS"] {
            let request = read(&json!({"fusion": given})).unwrap();
            assert_eq!(request.fusion(), v1::Fusion::LogOdds);
        }
        let error = read(&json!({"mode": "sparse"})).unwrap_err();
        assert!(
            error.contains("`mode`: expected one of `dense`, `bm25`, `hybrid`, `compare`, got `sparse`"),
            "{error}"
        );
        assert!(read(&json!({"mode": "unspecified"})).is_err());
    }

    #[test]
    fn short_filters_mean_what_the_command_line_means() {
        let parsed = |text: &str| syntax::parse(text).unwrap();
        for (short, text) in [
            (json!("lang=en"), "lang=en"),
            (json!({"lang": "en"}), "lang=en"),
            (json!({"year": "1999"}), "year=\"1999\""),
            (json!({"year": 1999}), "year=1999"),
            (json!({"id": 1_234_567_890_123_456_789_u64}), "id=1234567890123456789"),
            (json!({"open": true}), "open=true"),
            (json!({"key": 17}), "key=17"),
            (json!({"lang": ["en", 7]}), "lang in en|7"),
            (json!({"lang": {"in": ["en", 7]}}), "lang in en|7"),
            (json!({"lang": {"!=": "en"}}), "lang!=en"),
            (json!({"lang": {"==": "en"}}), "lang=en"),
            (json!({"year": {">": 2020}}), "year>2020"),
            (json!({"lang": {"exists": true}}), "lang exists"),
            (json!({"lang": {"^=": "e"}}), "lang^=e"),
            (json!("lang^=e"), "lang^=e"),
            // Standard ones stay.
            (json!({"exists": {"field": "lang"}}), "lang exists"),
            (json!({"equals": {"field": "lang", "value": {"text": "en"}}}), "lang=en"),
        ] {
            assert_eq!(filter(&short), parsed(text), "{short}");
        }
        let two = |texts: [&str; 2]| syntax::all(texts.map(parsed).into()).unwrap();
        for short in [
            json!({"lang": "en", "year": {">=": 2020}}),
            json!(["lang=en", {"year": {">=": 2020}}]),
            json!({"all": {"filters": ["lang=en", {"range": {"field": "year", "min": {"number": 2020}}}]}}),
        ] {
            assert_eq!(filter(&short), two(["lang=en", "year>=2020"]), "{short}");
        }
        assert_eq!(
            filter(&json!({"year": {">=": 2020, "<": 2024}})),
            two(["year>=2020", "year<2024"])
        );
        let without = Condition::Not(Box::new(parsed("lang exists")));
        assert_eq!(filter(&json!({"lang": {"exists": false}})).condition, Some(without));
        let not = Condition::Not(Box::new(parsed("lang=en")));
        assert_eq!(filter(&json!({"not": {"lang": "en"}})).condition, Some(not));
    }

    /// A list in a list, and so on.
    fn nested(depth: usize) -> Value {
        (0..depth).fold(json!("lang=en"), |inner, _| json!([inner]))
    }

    /// Their standard forms take hundreds of times the memory.
    #[test]
    fn long_requests_have_no_short_forms() {
        let bars = |count: usize| json!({"query": "why", "filter": format!("lang in {}", vec!["1"; count].join("|"))});
        assert!(read(&bars(4_000)).is_ok());
        assert!(read(&bars(5_000)).unwrap_err().contains("invalid type"));
    }

    #[test]
    fn errors_repeat_the_beginning_of_a_long_value() {
        let long = "a".repeat(4_000);
        for wrong in [
            json!({"lang": {"in": long}}),
            json!({"lang": {"exists": long}}),
            json!({"lang": {"^=": {"text": long}}}),
            json!({"lang": [[long]]}),
        ] {
            let error = read(&json!({"query": "why", "filter": wrong})).unwrap_err();
            assert!(error.contains("aaaa") && error.len() < 300, "{error}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_by_name() {
        for (wrong, expected) in [
            (json!("lang"), "there is no operator"),
            (
                json!({"lang": null}),
                "`lang`: expected a text, a number, true or false",
            ),
            (json!({"lang": {}}), "got nothing"),
            (json!({"lang": {"~": "e"}}), "got `~`"),
            (json!({"lang": {"in": "en"}}), "expected a list after `in`"),
            (json!({"lang": {"^=": 7}}), "expected a text after `^=`"),
            (json!({"lang": {"exists": 1}}), "expected true or false"),
            (json!({"lang": [["en"]]}), "expected a text"),
            (json!({"lang": "en", "not": {"lang": "de"}}), "write a list"),
            (nested(MAX_FILTER_DEPTH), "at most 8 filters inside each other"),
            (nested(100), "at most 8 filters inside each other"),
            (json!(7), "invalid type"),
            (json!({"equals": 7}), "invalid type"),
        ] {
            let error = read(&json!({"query": "why", "filter": wrong})).unwrap_err();
            assert!(
                error.starts_with("the request's JSON: ") && error.contains(expected),
                "{wrong}: {error}"
            );
        }
    }
}
