//! What validation asks of requests, as keywords of JSON Schema.

use prost_reflect::{Kind, MessageDescriptor};
use serde_json::{Value, json};

use crate::rules::field_rules;
use crate::v1::FieldRules;

/// The names of indexes, and none for the default one, as a pattern.
pub const INDEX_NAME: &str = "^([A-Za-z0-9_-][A-Za-z0-9._-]*)?$";

/// Adds what validation asks of a message's fields beyond their types, of those that the schema has.
pub(super) fn add_rules(message: &MessageDescriptor, schema: &mut Value) {
    let mut required = Vec::new();
    for field in message.fields() {
        let Some(rules) = field_rules(message.name(), field.name()) else {
            continue;
        };
        let Some(property) = schema["properties"].get_mut(field.name()) else {
            continue;
        };
        if rules.required {
            required.push(field.name().to_owned());
        }
        if field.is_list() {
            add_to(property, &list_rules(&rules));
            if field.kind() == Kind::String {
                add_to(&mut property["items"], &text_rules(&rules));
            }
        } else if field.kind() == Kind::String {
            add_to(property, &text_rules(&rules));
        } else {
            add_to(property, &number_rules(&rules));
        }
        // Of an enum it may depend on other fields, as its comment says: clients should not send it of themselves.
        if let (Some(default), false) = (rules.default, matches!(field.kind(), Kind::Enum(_))) {
            property["default"] = json!(default);
        }
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
}

/// Adds the keywords of one schema to another.
fn add_to(schema: &mut Value, keywords: &Value) {
    if let (Value::Object(schema), Value::Object(keywords)) = (schema, keywords) {
        schema.extend(keywords.clone());
    }
}

/// The rules of a list's entries together.
fn list_rules(rules: &FieldRules) -> Value {
    let mut keywords = json!({"minItems": u32::from(rules.required)});
    if let Some(most) = rules.max_items {
        keywords["maxItems"] = json!(most);
    }
    if rules.unique {
        keywords["uniqueItems"] = json!(true);
    }
    keywords
}

/// The rules of a text.
pub(super) fn text_rules(rules: &FieldRules) -> Value {
    let mut keywords = json!({});
    if let Some(most) = rules.max_bytes {
        keywords["maxLength"] = json!(most);
    }
    if rules.not_blank {
        (keywords["minLength"], keywords["pattern"]) = (json!(1), json!("\\S"));
    }
    if rules.index_name {
        keywords["pattern"] = json!(INDEX_NAME);
    }
    keywords
}

/// The rules of a number.
fn number_rules(rules: &FieldRules) -> Value {
    let mut keywords = json!({});
    let (least, most) = if rules.exclusive {
        ("exclusiveMinimum", "exclusiveMaximum")
    } else {
        ("minimum", "maximum")
    };
    if let Some(minimum) = rules.minimum {
        let takes_zero = rules.zero_or().is_some() || rules.default.is_some();
        keywords[least] = if takes_zero { json!(0) } else { shortest(minimum) };
    }
    if let Some(maximum) = rules.maximum {
        keywords[most] = shortest(maximum);
    }
    keywords
}

/// A number, without a fraction where it is whole.
fn shortest(number: f64) -> Value {
    if number.fract() == 0.0 {
        json!(number as i64)
    } else {
        json!(number)
    }
}
