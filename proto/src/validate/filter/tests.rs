//! Filters of every form, and what is wrong with others.

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
            .contains("`filter.equals.value`: expected one of `text`, `number`, `flag` or `integer`, got none")
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
    let prefix = |field: &str, prefix: &str| {
        let [field, prefix] = [field, prefix].map(String::from);
        said(Some(Condition::Prefix(v1::FieldPrefix { field, prefix })))
    };
    assert_eq!(prefix("lang", &"x".repeat(1024)), "fine");
    assert!(prefix("a\0b", "e").contains("`filter.prefix.field`: expected a name without"));
    assert!(prefix("lang", "").contains("`filter.prefix.prefix`: expected text, got none"));
    assert!(prefix("lang", &"x".repeat(1025)).contains("`filter.prefix.prefix`: expected at most 1024 bytes"));
    let long = equals("lang", text(&"x".repeat(1025)));
    assert!(said(Some(long)).contains("`filter.equals.value`: expected at most 1024 bytes, got 1025"));
    assert!(said(Some(Condition::Keys(v1::FilterKeys::default()))).contains("`filter.keys.keys`: expected 1 to 10000"));
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
    assert!(ends(number(1.0), None, number(1.0), None).contains("`filter.range`: expected `min` or `above`, got both"));
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
