//! Validates filters condition by condition, without recursion deeper than the limit.

use super::violations::{Check, Violations};
use crate::limits::{
    MAX_FILTER_CONDITIONS, MAX_FILTER_DEPTH, MAX_FILTER_FIELD_BYTES, MAX_FILTER_TEXT_BYTES, MAX_FILTER_VALUES,
};
use crate::v1;
use crate::v1::filter::Condition;
use crate::v1::filter_value::Value;

/// Counts so far.
#[derive(Default)]
struct Count {
    conditions: usize,
    values: usize,
}

/// Checks a filter that is of no request.
pub fn filter(filter: &v1::Filter) -> Result<(), Violations> {
    let mut violations = Check::default();
    check(&mut violations, "filter", filter);
    violations.done()
}

/// Checks a filter; `at` is its path in the request.
pub(super) fn check(check: &mut Check, at: &str, filter: &v1::Filter) {
    let mut count = Count::default();
    one(check, at, filter, 1, &mut count);
    if count.conditions > MAX_FILTER_CONDITIONS {
        check.fail(at, format!("expected at most {MAX_FILTER_CONDITIONS} conditions, got {}", count.conditions));
    }
    if count.values > MAX_FILTER_VALUES {
        check.fail(at, format!("expected at most {MAX_FILTER_VALUES} values and keys in all, got {}", count.values));
    }
}

fn one(check: &mut Check, at: &str, filter: &v1::Filter, depth: usize, count: &mut Count) {
    count.conditions += 1;
    if depth > MAX_FILTER_DEPTH {
        return check.fail(at, format!("expected at most {MAX_FILTER_DEPTH} nested filters, got more"));
    }
    let Some(condition) = &filter.condition else {
        let names = "`all`, `any`, `not`, `equals`, `one_of`, `range`, `keys` or `exists`";
        return check.fail(at, format!("expected one of {names}, got none"));
    };
    match condition {
        Condition::All(list) => many(check, &format!("{at}.all"), list, depth, count),
        Condition::Any(list) => many(check, &format!("{at}.any"), list, depth, count),
        Condition::Not(inner) => one(check, &format!("{at}.not"), inner, depth + 1, count),
        Condition::Equals(equals) => {
            let at = format!("{at}.equals");
            field(check, &at, &equals.field);
            count.values += 1;
            value(check, &format!("{at}.value"), equals.value.as_ref());
        }
        Condition::OneOf(one_of) => {
            let at = format!("{at}.one_of");
            field(check, &at, &one_of.field);
            check.count(&format!("{at}.values"), one_of.values.len(), MAX_FILTER_VALUES);
            count.values += one_of.values.len();
            for (i, one) in one_of.values.iter().enumerate().take(MAX_FILTER_VALUES) {
                value(check, &format!("{at}.values[{i}]"), Some(one));
            }
        }
        Condition::Range(range) => {
            count.values += 2;
            between(check, &format!("{at}.range"), range);
        }
        Condition::Exists(exists) => field(check, &format!("{at}.exists"), &exists.field),
        Condition::Keys(keys) => {
            count.values += keys.keys.len();
            check.count(&format!("{at}.keys"), keys.keys.len(), MAX_FILTER_VALUES);
        }
    }
}

fn many(check: &mut Check, at: &str, list: &v1::FilterList, depth: usize, count: &mut Count) {
    check.count(at, list.filters.len(), MAX_FILTER_CONDITIONS);
    for (i, filter) in list.filters.iter().enumerate().take(MAX_FILTER_CONDITIONS) {
        // Already more than the limit.
        if count.conditions > MAX_FILTER_CONDITIONS {
            return;
        }
        one(check, &format!("{at}[{i}]"), filter, depth + 1, count);
    }
}

fn field(check: &mut Check, at: &str, name: &str) {
    let at = format!("{at}.field");
    check.text(&at, name, MAX_FILTER_FIELD_BYTES);
    if name.contains('\0') {
        check.fail(at, "expected a name without zero bytes");
    }
}

fn value(check: &mut Check, at: &str, value: Option<&v1::FilterValue>) {
    match value.and_then(|value| value.value.as_ref()) {
        None => check.fail(at, "expected `text`, `number` or `flag`, got none"),
        Some(Value::Text(text)) if text.len() > MAX_FILTER_TEXT_BYTES => {
            check.fail(at, format!("expected at most {MAX_FILTER_TEXT_BYTES} bytes, got {}", text.len()));
        }
        Some(Value::Number(number)) if !number.is_finite() => {
            check.fail(at, format!("expected a finite number, got {number}"));
        }
        Some(_) => {}
    }
}

fn between(check: &mut Check, at: &str, range: &v1::FieldRange) {
    field(check, at, &range.field);
    let mut kinds = Vec::new();
    for (name, end) in [("min", &range.min), ("above", &range.above), ("max", &range.max), ("below", &range.below)] {
        if let Some(end) = end {
            value(check, &format!("{at}.{name}"), Some(end));
            if matches!(end.value, Some(Value::Flag(_))) {
                check.fail(format!("{at}.{name}"), "expected `number` or `text`, got `flag`");
            }
            kinds.push(end.value.as_ref().map(std::mem::discriminant));
        }
    }
    for (one, other) in [(("min", &range.min), ("above", &range.above)), (("max", &range.max), ("below", &range.below))]
    {
        if one.1.is_some() && other.1.is_some() {
            check.fail(at, format!("expected `{}` or `{}`, got both", one.0, other.0));
        }
    }
    if kinds.is_empty() {
        check.fail(at, "expected `min` or `above`, `max` or `below`, or one of each, got neither");
    }
    // A missing value was reported above.
    let mut known = kinds.iter().flatten();
    if let Some(first) = known.next()
        && known.any(|kind| kind != first)
    {
        check.fail(at, "expected bounds of one type, got two");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(condition: Option<Condition>) -> String {
        let mut all = Check::default();
        check(&mut all, "filter", &v1::Filter { condition });
        all.done().map_or_else(|violations| violations.to_string(), |()| "fine".into())
    }

    #[expect(clippy::unnecessary_wraps, reason = "fields of a message are optional")]
    fn text(text: &str) -> Option<v1::FilterValue> {
        Some(v1::FilterValue { value: Some(Value::Text(text.into())) })
    }

    #[expect(clippy::unnecessary_wraps, reason = "fields of a message are optional")]
    fn number(number: f64) -> Option<v1::FilterValue> {
        Some(v1::FilterValue { value: Some(Value::Number(number)) })
    }

    fn equals(field: &str, value: Option<v1::FilterValue>) -> Condition {
        Condition::Equals(v1::FieldEquals { field: field.into(), value })
    }

    fn list(conditions: Vec<Option<Condition>>) -> v1::FilterList {
        v1::FilterList { filters: conditions.into_iter().map(|condition| v1::Filter { condition }).collect() }
    }

    #[test]
    fn every_bad_part_is_named_by_its_path() {
        assert_eq!(said(Some(equals("lang", text("en")))), "fine");
        assert!(said(None).contains("`filter`: expected one of `all`, `any`"));
        assert!(said(Some(equals("", text("en")))).contains("`filter.equals.field`: expected text, got none"));
        assert!(said(Some(equals("a\0b", text("en")))).contains("`filter.equals.field`: expected a name without"));
        assert!(
            said(Some(equals("lang", None))).contains("`filter.equals.value`: expected `text`, `number` or `flag`")
        );
        let inner = Condition::Any(list(vec![Some(equals("a", number(1.0))), Some(equals("b", number(f64::NAN)))]));
        let both = said(Some(Condition::All(list(vec![Some(inner), None]))));
        assert!(both.contains("`filter.all[0].any[1].equals.value`: expected a finite number"), "{both}");
        assert!(both.contains("`filter.all[1]`: expected one of"), "{both}");
        assert!(said(Some(Condition::All(list(vec![])))).contains("`filter.all`: expected 1 to 256 entries, got 0"));
        let exists = |field: &str| said(Some(Condition::Exists(v1::FieldExists { field: field.into() })));
        assert_eq!(exists("lang"), "fine");
        assert!(exists("").contains("`filter.exists.field`: expected text, got none"));
        let long = equals("lang", text(&"x".repeat(1025)));
        assert!(said(Some(long)).contains("`filter.equals.value`: expected at most 1024 bytes, got 1025"));
        assert!(said(Some(Condition::Keys(v1::FilterKeys::default()))).contains("`filter.keys`: expected 1 to 10000"));
    }

    #[test]
    fn a_range_has_an_end_and_one_type() {
        let ends = |min, max, above, below| {
            said(Some(Condition::Range(v1::FieldRange { field: "year".into(), min, max, above, below })))
        };
        let range = |min, max| ends(min, max, None, None);
        assert_eq!(range(number(1.0), None), "fine");
        assert_eq!(range(text("2020"), text("2021")), "fine");
        assert!(range(None, None).contains("`filter.range`: expected `min` or `above`, `max` or `below`"));
        assert!(range(number(1.0), text("2")).contains("of one type"));
        assert_eq!(ends(None, None, None, text("2")), "fine");
        assert_eq!(ends(None, number(3.0), number(1.0), None), "fine");
        assert!(
            ends(number(1.0), None, number(1.0), None).contains("`filter.range`: expected `min` or `above`, got both")
        );
        assert!(ends(None, number(1.0), None, number(1.0)).contains("expected `max` or `below`, got both"));
        assert!(ends(None, text("a"), number(1.0), None).contains("of one type"));
        assert!(ends(None, None, number(f64::NAN), None).contains("`filter.range.above`: expected a finite number"));
        let flag = Some(v1::FilterValue { value: Some(Value::Flag(true)) });
        assert!(range(flag, None).contains("`filter.range.min`: expected `number` or `text`, got `flag`"));
    }

    #[test]
    fn depth_and_size_are_bounded() {
        let nested = |depth: usize| {
            (1..depth).fold(equals("a", number(1.0)), |inner, _| {
                Condition::Not(Box::new(v1::Filter { condition: Some(inner) }))
            })
        };
        assert_eq!(said(Some(nested(MAX_FILTER_DEPTH))), "fine");
        assert!(said(Some(nested(MAX_FILTER_DEPTH + 1))).contains("expected at most 8 nested filters"));
        let wide = |count| Condition::All(list(vec![Some(equals("a", number(1.0))); count]));
        assert_eq!(said(Some(wide(MAX_FILTER_CONDITIONS - 1))), "fine");
        assert!(said(Some(wide(MAX_FILTER_CONDITIONS))).contains("expected at most 256 conditions, got 257"));
        let values = vec![number(1.0).unwrap(); MAX_FILTER_VALUES / 2 + 1];
        let half = || Some(Condition::OneOf(v1::FieldOneOf { field: "a".into(), values: values.clone() }));
        let both = said(Some(Condition::Any(list(vec![half(), half()]))));
        assert!(both.contains("`filter`: expected at most 10000 values and keys in all, got 10002"), "{both}");
    }
}
