//! A request's filter as the index knows it.

use dyad_index::lexical::{FieldValue, Filter};
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;

/// Converts a filter that [`dyad_proto::validate`] has passed, so that its depth is bounded. A condition that is not there
/// lets nothing pass.
pub(super) fn filter(filter: &v1::Filter) -> Filter {
    let many = |list: &v1::FilterList| list.filters.iter().map(self::filter).collect();
    match &filter.condition {
        None => Filter::Any(Vec::new()),
        Some(Condition::All(list)) => Filter::All(many(list)),
        Some(Condition::Any(list)) => Filter::Any(many(list)),
        Some(Condition::Not(inner)) => Filter::Not(Box::new(self::filter(inner))),
        Some(Condition::Equals(equals)) => {
            Filter::OneOf { field: equals.field.clone(), values: equals.value.iter().filter_map(value).collect() }
        }
        Some(Condition::OneOf(one_of)) => {
            Filter::OneOf { field: one_of.field.clone(), values: one_of.values.iter().filter_map(value).collect() }
        }
        Some(Condition::Range(range)) => Filter::Range {
            field: range.field.clone(),
            min: range.min.as_ref().and_then(value),
            max: range.max.as_ref().and_then(value),
        },
        Some(Condition::Keys(keys)) => Filter::Keys(keys.keys.clone()),
    }
}

fn value(value: &v1::FilterValue) -> Option<FieldValue> {
    Some(match value.value.as_ref()? {
        Value::Text(text) => FieldValue::Text(text.clone()),
        Value::Number(number) => FieldValue::Number(*number),
        Value::Flag(flag) => FieldValue::Flag(*flag),
    })
}
