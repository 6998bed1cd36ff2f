//! A request's filter as the index knows it.

use std::ops::Bound;

use dyad_index::lexical::{DocumentFilter, ExactNumber, FieldValue, MAX_TEXT_BYTES};
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;
use dyad_proto::{rules, v1};

/// A filter's text is compared whole: an index cuts longer ones of documents, and only those.
const _: () = {
    assert!(rules::FILTER_VALUE_TEXT.most_bytes() <= MAX_TEXT_BYTES);
    assert!(rules::FIELD_PREFIX_PREFIX.most_bytes() <= MAX_TEXT_BYTES);
};

/// Converts a filter that [`dyad_proto::validate`] has passed, so that its depth is bounded. A condition that is not
/// there, or has a value that is none, lets nothing pass.
pub fn document_filter(filter: &v1::Filter) -> DocumentFilter {
    let many = |list: &v1::FilterList| list.filters.iter().map(document_filter).collect();
    match &filter.condition {
        None => DocumentFilter::Any(Vec::new()),
        Some(Condition::All(list)) => DocumentFilter::All(many(list)),
        Some(Condition::Any(list)) => DocumentFilter::Any(many(list)),
        Some(Condition::Not(inner)) => DocumentFilter::Not(Box::new(document_filter(inner))),
        Some(Condition::Equals(equals)) => DocumentFilter::OneOf {
            field: equals.field.clone(),
            values: equals.value.iter().filter_map(field_value).collect(),
        },
        Some(Condition::OneOf(one_of)) => DocumentFilter::OneOf {
            field: one_of.field.clone(),
            values: one_of.values.iter().filter_map(field_value).collect(),
        },
        Some(Condition::Range(range)) => {
            let min = end(range.min.as_ref(), range.above.as_ref());
            let max = end(range.max.as_ref(), range.below.as_ref());
            match (min, max) {
                (Some(min), Some(max)) => DocumentFilter::Range {
                    field: range.field.clone(),
                    min,
                    max,
                },
                _ => DocumentFilter::Any(Vec::new()),
            }
        }
        Some(Condition::Exists(exists)) => DocumentFilter::Exists {
            field: exists.field.clone(),
        },
        Some(Condition::Prefix(prefix)) => DocumentFilter::Prefix {
            field: prefix.field.clone(),
            prefix: prefix.prefix.clone(),
        },
        Some(Condition::Keys(keys)) => DocumentFilter::Keys(keys.keys.clone()),
    }
}

/// The end of a range, which is included or excluded; none where its value is none.
fn end(included: Option<&v1::FilterValue>, excluded: Option<&v1::FilterValue>) -> Option<Bound<FieldValue>> {
    match (included, excluded) {
        (_, Some(excluded)) => field_value(excluded).map(Bound::Excluded),
        (Some(included), None) => field_value(included).map(Bound::Included),
        (None, None) => Some(Bound::Unbounded),
    }
}

/// A value of a field; none where it is empty, or its digits are no number.
pub fn field_value(value: &v1::FilterValue) -> Option<FieldValue> {
    Some(match value.value.as_ref()? {
        Value::Text(text) => FieldValue::Text(text.clone()),
        Value::Number(number) => FieldValue::Number((*number).into()),
        Value::Integer(digits) => FieldValue::Number(ExactNumber::parse(digits)?),
        Value::Flag(flag) => FieldValue::Flag(*flag),
    })
}
