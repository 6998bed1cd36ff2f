//! A request's filter as the index knows it.

use std::ops::Bound;

use dyad_index::lexical::{ExactNumber, FieldValue, Filter};
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;

/// Converts a filter that [`dyad_proto::validate`] has passed, so that its depth is bounded. A condition that is not there
/// lets nothing pass.
pub(crate) fn filter(filter: &v1::Filter) -> Filter {
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
            min: end(range.min.as_ref(), range.above.as_ref()),
            max: end(range.max.as_ref(), range.below.as_ref()),
        },
        Some(Condition::Exists(exists)) => Filter::Exists { field: exists.field.clone() },
        Some(Condition::Keys(keys)) => Filter::Keys(keys.keys.clone()),
    }
}

fn end(included: Option<&v1::FilterValue>, excluded: Option<&v1::FilterValue>) -> Bound<FieldValue> {
    let excluded = excluded.and_then(value).map(Bound::Excluded);
    excluded.or_else(|| included.and_then(value).map(Bound::Included)).unwrap_or(Bound::Unbounded)
}

fn value(value: &v1::FilterValue) -> Option<FieldValue> {
    Some(match value.value.as_ref()? {
        Value::Text(text) => FieldValue::Text(text.clone()),
        Value::Number(number) => FieldValue::Number((*number).into()),
        Value::Integer(digits) => FieldValue::Number(ExactNumber::parse(digits)?),
        Value::Flag(flag) => FieldValue::Flag(*flag),
    })
}
