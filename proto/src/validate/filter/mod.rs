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
        let names = rules::FILTER_ALTERNATIVES;
        return check.fail(at, format!("expected one of {names}, got none"));
    };
    match condition {
        Condition::All(list) => many(check, &format!("{at}.all"), list, depth, count),
        Condition::Any(list) => many(check, &format!("{at}.any"), list, depth, count),
        Condition::Not(inner) => one(check, &format!("{at}.not"), inner, depth + 1, count),
        Condition::Equals(equals) => {
            let at = format!("{at}.equals");
            equals.check_fields(check, &format!("{at}."));
            count.values += 1;
            if let Some(given) = &equals.value {
                value(check, &format!("{at}.value"), given, count.of);
            }
        }
        Condition::OneOf(one_of) => {
            let at = format!("{at}.one_of");
            one_of.check_fields(check, &format!("{at}."));
            count.values += one_of.values.len();
            for (i, one) in one_of.values.iter().enumerate().take(MAX_FILTER_VALUES) {
                value(check, &format!("{at}.values[{i}]"), one, count.of);
            }
        }
        Condition::Range(range) => {
            count.values += 2;
            between(check, &format!("{at}.range"), range, count.of);
        }
        Condition::Exists(exists) => exists.check_fields(check, &format!("{at}.exists.")),
        Condition::Prefix(prefix) => {
            prefix.check_fields(check, &format!("{at}.prefix."));
            count.values += 1;
        }
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
        None => check.fail(
            at,
            format!("expected one of {}, got none", rules::FILTER_VALUE_ALTERNATIVES),
        ),
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
    range.check_fields(check, &format!("{at}."));
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
mod tests;
