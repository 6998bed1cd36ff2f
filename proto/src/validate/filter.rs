//! Validates filters condition by condition, without recursion deeper than the limit.

use super::fields::CheckFields;
use super::violations::{Check, Violations};
use crate::limits::{MAX_FILTER_CONDITIONS, MAX_FILTER_DEPTH, MAX_FILTER_VALUES};
use crate::v1::filter::Condition;
use crate::v1::filter_value::Value;
use crate::{rules, v1};

/// Whose filter it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilterOwner {
    Request,
    /// What its numbers say is what its holder may see: none of them may have been rounded.
    Key,
}

/// Counts so far.
struct Count {
    of: FilterOwner,
    conditions: usize,
    values: usize,
}

/// Checks the filter of an API key.
pub fn key_filter(filter: &v1::Filter) -> Result<(), Violations> {
    let mut violations = Check::default();
    whole(&mut violations, "filter", filter, FilterOwner::Key);
    violations.done()
}

/// Checks a filter; `at` is its path in the request.
pub(super) fn check(check: &mut Check, at: &str, filter: &v1::Filter) {
    whole(check, at, filter, FilterOwner::Request);
}

fn whole(check: &mut Check, at: &str, filter: &v1::Filter, of: FilterOwner) {
    let mut count = Count {
        of,
        conditions: 0,
        values: 0,
    };
    one(check, at, filter, 1, &mut count);
    if count.conditions > MAX_FILTER_CONDITIONS {
        check.fail(
            at,
            format!(
                "expected at most {MAX_FILTER_CONDITIONS} conditions, got {}",
                count.conditions
            ),
        );
    }
    if count.values > MAX_FILTER_VALUES {
        check.fail(
            at,
            format!(
                "expected at most {MAX_FILTER_VALUES} values and keys in all, got {}",
                count.values
            ),
        );
    }
}

fn one(check: &mut Check, at: &str, filter: &v1::Filter, depth: usize, count: &mut Count) {
    count.conditions += 1;
    if depth > MAX_FILTER_DEPTH {
        return check.fail(
            at,
            format!("expected at most {MAX_FILTER_DEPTH} nested filters, got more"),
        );
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
            field(check, &at, equals, &equals.field);
            count.values += 1;
            if let Some(given) = &equals.value {
                value(check, &format!("{at}.value"), given, count.of);
            }
        }
        Condition::OneOf(one_of) => {
            let at = format!("{at}.one_of");
            field(check, &at, one_of, &one_of.field);
            count.values += one_of.values.len();
            for (i, one) in one_of.values.iter().enumerate().take(MAX_FILTER_VALUES) {
                value(check, &format!("{at}.values[{i}]"), one, count.of);
            }
        }
        Condition::Range(range) => {
            count.values += 2;
            between(check, &format!("{at}.range"), range, count.of);
        }
        Condition::Exists(exists) => field(check, &format!("{at}.exists"), exists, &exists.field),
        Condition::Keys(keys) => {
            count.values += keys.keys.len();
            keys.check_fields(check, &format!("{at}.keys."));
        }
    }
}

fn many(check: &mut Check, at: &str, list: &v1::FilterList, depth: usize, count: &mut Count) {
    list.check_fields(check, &format!("{at}."));
    for (i, filter) in list.filters.iter().enumerate().take(MAX_FILTER_CONDITIONS) {
        // Already more than the limit.
        if count.conditions > MAX_FILTER_CONDITIONS {
            return;
        }
        one(check, &format!("{at}.filters[{i}]"), filter, depth + 1, count);
    }
}

/// Checks the fields of a condition, of which `name` is the name of a document's field.
fn field(check: &mut Check, at: &str, condition: &impl CheckFields, name: &str) {
    condition.check_fields(check, &format!("{at}."));
    if name.contains('\0') {
        check.fail(format!("{at}.field"), "expected a name without zero bytes");
    }
}

/// From here on one double is the nearest one of several whole numbers, of which clients may have meant another.
const FIRST_AMBIGUOUS: f64 = (1_u64 << 53) as f64;

/// Whether a double may have been a whole number that is not equal to it: one of 64 bits, or, of a key, any.
fn stands_for_several(number: f64, of: FilterOwner) -> bool {
    let is_of_64_bits = (i64::MIN as f64..(1_u128 << 64) as f64).contains(&number);
    number.abs() >= FIRST_AMBIGUOUS && (of == FilterOwner::Key || is_of_64_bits)
}

/// Whether a text is a whole number, with digits alone, as large as a double may be.
fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_short = digits == "0" || !digits.starts_with('0');
    let has_digits_alone = !digits.is_empty() && is_short && digits.bytes().all(|byte| byte.is_ascii_digit());
    has_digits_alone && text.parse::<f64>().is_ok_and(f64::is_finite)
}

fn value(check: &mut Check, at: &str, value: &v1::FilterValue, of: FilterOwner) {
    let (most_bytes, most_digits) = (
        rules::FILTER_VALUE_TEXT.most_bytes(),
        rules::FILTER_VALUE_INTEGER.most_bytes(),
    );
    match &value.value {
        None => check.fail(at, "expected one of `text`, `number`, `flag`, `integer`, got none"),
        Some(Value::Integer(text)) if !is_integer(text) || text.len() > most_digits => {
            let got: String = text.chars().take(most_digits).collect();
            check.fail(
                at,
                format!(
                    "expected at most {most_digits} bytes of decimal digits within the range of doubles, as 42 or -7, got `{got}`"
                ),
            );
        }
        Some(Value::Text(text)) if text.len() > most_bytes => {
            check.fail(at, format!("expected at most {most_bytes} bytes, got {}", text.len()));
        }
        Some(Value::Number(number)) if !number.is_finite() => {
            check.fail(at, format!("expected a finite number, got {number}"));
        }
        Some(Value::Number(number)) if stands_for_several(*number, of) => {
            let why = "doubles do not tell whole numbers apart from 2^53 on";
            check.fail(
                at,
                format!("expected `integer` with its digits as text, got `number` {number:e}: {why}"),
            );
        }
        Some(_) => {}
    }
}

/// The type that values are compared as.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Text(_) => "text",
        Value::Number(_) | Value::Integer(_) => "number",
        Value::Flag(_) => "flag",
    }
}

fn between(check: &mut Check, at: &str, range: &v1::FieldRange, of: FilterOwner) {
    field(check, at, range, &range.field);
    let mut kinds = Vec::new();
    for (name, end) in [
        ("min", &range.min),
        ("above", &range.above),
        ("max", &range.max),
        ("below", &range.below),
    ] {
        if let Some(end) = end {
            let at = &format!("{at}.{name}");
            value(check, at, end, of);
            if matches!(end.value, Some(Value::Flag(_))) {
                check.fail(at, "expected `number`, `integer` or `text`, got `flag`");
            }
            kinds.push(end.value.as_ref().map(kind));
        }
    }
    for (one, other) in [
        (("min", &range.min), ("above", &range.above)),
        (("max", &range.max), ("below", &range.below)),
    ] {
        if one.1.is_some() && other.1.is_some() {
            check.fail(at, format!("expected `{}` or `{}`, got both", one.0, other.0));
        }
    }
    if kinds.is_empty() {
        check.fail(
            at,
            "expected `min` or `above`, `max` or `below`, or one of each, got neither",
        );
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
        all.done()
            .map_or_else(|violations| violations.to_string(), |()| "fine".into())
    }

    #[expect(clippy::unnecessary_wraps, reason = "fields of a message are optional")]
    fn text(text: &str) -> Option<v1::FilterValue> {
        Some(v1::FilterValue {
            value: Some(Value::Text(text.into())),
        })
    }

    #[expect(clippy::unnecessary_wraps, reason = "fields of a message are optional")]
    fn number(number: f64) -> Option<v1::FilterValue> {
        Some(v1::FilterValue {
            value: Some(Value::Number(number)),
        })
    }

    fn equals(field: &str, value: Option<v1::FilterValue>) -> Condition {
        Condition::Equals(v1::FieldEquals {
            field: field.into(),
            value,
        })
    }

    fn list(conditions: Vec<Option<Condition>>) -> v1::FilterList {
        v1::FilterList {
            filters: conditions
                .into_iter()
                .map(|condition| v1::Filter { condition })
                .collect(),
        }
    }

    #[test]
    fn every_bad_part_is_named_by_its_path() {
        assert_eq!(said(Some(equals("lang", text("en")))), "fine");
        assert!(said(None).contains("`filter`: expected one of `all`, `any`"));
        assert!(said(Some(equals("", text("en")))).contains("`filter.equals.field`: expected text, got none"));
        assert!(said(Some(equals("a\0b", text("en")))).contains("`filter.equals.field`: expected a name without"));
        assert!(
            said(Some(equals("lang", None)))
                .contains("`filter.equals.value`: expected one of `text`, `number`, `flag`, `integer`, got none")
        );
        let inner = Condition::Any(list(vec![
            Some(equals("a", number(1.0))),
            Some(equals("b", number(f64::NAN))),
        ]));
        let both = said(Some(Condition::All(list(vec![Some(inner), None]))));
        assert!(
            both.contains("`filter.all.filters[0].any.filters[1].equals.value`: expected a finite number"),
            "{both}"
        );
        assert!(both.contains("`filter.all.filters[1]`: expected one of"), "{both}");
        assert!(
            said(Some(Condition::All(list(vec![])))).contains("`filter.all.filters`: expected 1 to 256 entries, got 0")
        );
        let exists = |field: &str| said(Some(Condition::Exists(v1::FieldExists { field: field.into() })));
        assert_eq!(exists("lang"), "fine");
        assert!(exists("").contains("`filter.exists.field`: expected text, got none"));
        let long = equals("lang", text(&"x".repeat(1025)));
        assert!(said(Some(long)).contains("`filter.equals.value`: expected at most 1024 bytes, got 1025"));
        assert!(
            said(Some(Condition::Keys(v1::FilterKeys::default()))).contains("`filter.keys.keys`: expected 1 to 10000")
        );
    }

    #[test]
    fn a_range_has_an_end_and_one_type() {
        let ends = |min, max, above, below| {
            said(Some(Condition::Range(v1::FieldRange {
                field: "year".into(),
                min,
                max,
                above,
                below,
            })))
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
        let flag = Some(v1::FilterValue {
            value: Some(Value::Flag(true)),
        });
        assert!(range(flag, None).contains("`filter.range.min`: expected `number`, `integer` or `text`, got `flag`"));
    }

    #[test]
    fn doubles_that_stand_for_several_whole_numbers_equal_nothing() {
        let of_request = |value| said(Some(equals("id", value)));
        let of_key = |condition| {
            let filter = v1::Filter {
                condition: Some(condition),
            };
            key_filter(&filter).map_or_else(|violations| violations.to_string(), |()| "fine".into())
        };
        let integer = |digits: &str| {
            Some(v1::FilterValue {
                value: Some(Value::Integer(digits.into())),
            })
        };
        for fine in [9_007_199_254_740_991.0, -9_007_199_254_740_991.0, 0.5, 0.0] {
            assert_eq!(of_request(number(fine)), "fine", "{fine}");
            assert_eq!(of_key(equals("id", number(fine))), "fine", "{fine}");
        }
        for wide in [1e20, 1e300, -1e19, 18_446_744_073_709_551_616.0] {
            assert_eq!(of_request(number(wide)), "fine", "{wide}");
            assert!(
                of_key(equals("id", number(wide))).contains("expected `integer`"),
                "{wide}"
            );
        }
        for several in [
            9_007_199_254_740_992.0,
            1.234_567_890_123_456_8e18,
            -9_223_372_036_854_775_808.0,
            1.8e19,
        ] {
            let refused = of_request(number(several));
            assert!(
                refused.contains("`filter.equals.value`: expected `integer` with its digits"),
                "{refused}"
            );
            let values = vec![number(1.0).unwrap(), number(several).unwrap()];
            let one_of = Condition::OneOf(v1::FieldOneOf {
                field: "id".into(),
                values,
            });
            assert!(said(Some(one_of)).contains("`filter.one_of.values[1]`: expected `integer`"));
            let range = v1::FieldRange {
                field: "id".into(),
                below: number(several),
                ..Default::default()
            };
            assert!(said(Some(Condition::Range(range.clone()))).contains("`filter.range.below`: expected `integer`"));
            assert!(of_key(Condition::Range(range)).contains("`filter.range.below`: expected `integer`"));
        }
        for fine in [
            "0",
            "7",
            "-7",
            "1234567890123456789",
            "18446744073709551615",
            "100000000000000000001",
        ] {
            assert_eq!(of_request(integer(fine)), "fine", "{fine}");
            assert_eq!(of_key(equals("id", integer(fine))), "fine", "{fine}");
        }
        for wrong in [
            "",
            "-",
            "+1",
            "01",
            "-00",
            "1.0",
            "1e3",
            " 1",
            "1 ",
            "x",
            &"1".repeat(400),
            &"9".repeat(309),
        ] {
            assert!(
                of_request(integer(wrong)).contains("bytes of decimal digits"),
                "{wrong}"
            );
        }
        let range = v1::FieldRange {
            field: "id".into(),
            min: integer("1"),
            max: number(2.0),
            ..Default::default()
        };
        assert_eq!(said(Some(Condition::Range(range))), "fine", "both are numbers");
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
        let half = || {
            Some(Condition::OneOf(v1::FieldOneOf {
                field: "a".into(),
                values: values.clone(),
            }))
        };
        let both = said(Some(Condition::Any(list(vec![half(), half()]))));
        assert!(
            both.contains("`filter`: expected at most 10000 values and keys in all, got 10002"),
            "{both}"
        );
    }
}
