//! One condition of a filter as text: of `--filter`, and of filters in JSON.
//!
//! `FIELD=VALUE` (or `==`), `FIELD!=VALUE`, `FIELD>=VALUE`, `FIELD>VALUE`, `FIELD<=VALUE`, `FIELD<VALUE`,
//! `FIELD^=TEXT` (begins with), `FIELD in VALUE|VALUE|...`, `FIELD exists`. A value is a number (whole ones of any size are exact), `true`, `false`
//! or a text; in double quotes it is a text in any case (a JSON string). Values of `key` and `title` are always texts.

use dyad_index::lexical::ExactNumber;
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;

/// The condition that an argument states.
pub(crate) fn parse(argument: &str) -> Result<v1::Filter, String> {
    let wrong = |why: &str| {
        let forms = "FIELD=VALUE, FIELD!=VALUE, FIELD>=VALUE, FIELD>VALUE, FIELD<=VALUE, FIELD<VALUE,";
        format!("{why}. Write {forms} FIELD^=TEXT, 'FIELD in VALUE|VALUE' or 'FIELD exists'")
    };
    let list = argument
        .split_once(" in ")
        .filter(|(field, _)| !field.contains(['=', '<', '>', '!']));
    if let Some((field, values)) = list {
        let field = name(field).ok_or_else(|| wrong("there is no field before `in`"))?;
        let values = split(values)
            .into_iter()
            .map(|text| value(&field, text))
            .collect::<Result<_, _>>()?;
        return Ok(from_condition(Condition::OneOf(v1::FieldOneOf { field, values })));
    }
    if let Some(field) = argument
        .strip_suffix(" exists")
        .filter(|field| !field.contains(['=', '<', '>', '!']))
    {
        let field = name(field).ok_or_else(|| wrong("there is no field before `exists`"))?;
        return Ok(from_condition(Condition::Exists(v1::FieldExists { field })));
    }
    let at = argument
        .find(['=', '<', '>', '!'])
        .ok_or_else(|| wrong("there is no operator"))?;
    let (field, rest) = argument.split_at(at);
    if let (Some(field), Some(text)) = (field.strip_suffix('^'), rest.strip_prefix('=')) {
        let field = name(field).ok_or_else(|| wrong("there is no field before the operator"))?;
        return Ok(begins_with(field, unquoted(text.trim())?));
    }
    let field = name(field).ok_or_else(|| wrong("there is no field before the operator"))?;
    // Those that others begin with come last. A text that begins with `=` is given in double quotes.
    let operators = ["!=", ">=", "<=", "==", "=", ">", "<"];
    let (operator, text) = operators
        .iter()
        .find_map(|operator| Some((*operator, rest.strip_prefix(operator)?)))
        .ok_or_else(|| wrong("the operator is none of =, !=, >=, >, <=, < and ^="))?;
    let value = value(&field, text)?;
    comparison(&field, operator, value).ok_or_else(|| wrong("the operator is not known"))
}

/// The filter of texts that begin with another.
pub(crate) fn begins_with(field: String, prefix: String) -> v1::Filter {
    from_condition(Condition::Prefix(v1::FieldPrefix { field, prefix }))
}

/// A text without the quotes of a JSON string, where it has some.
fn unquoted(text: &str) -> Result<String, String> {
    if !text.starts_with('"') {
        return Ok(text.to_owned());
    }
    serde_json::from_str(text).map_err(|error| format!("{text} is not a JSON string: {error}"))
}

/// The filter of a comparison: `=`, `==`, `!=`, `>=`, `>`, `<=` or `<`; none for another operator.
pub(crate) fn comparison(field: &str, operator: &str, value: v1::FilterValue) -> Option<v1::Filter> {
    let mut range = v1::FieldRange {
        field: field.to_owned(),
        ..v1::FieldRange::default()
    };
    match operator {
        ">=" => range.min = Some(value),
        "<=" => range.max = Some(value),
        ">" => range.above = Some(value),
        "<" => range.below = Some(value),
        "!=" => {
            let equal = from_condition(equals(field, value));
            return Some(from_condition(Condition::Not(Box::new(equal))));
        }
        "=" | "==" => return Some(from_condition(equals(field, value))),
        _ => return None,
    }
    Some(from_condition(Condition::Range(range)))
}

/// All conditions together; none where there is none.
pub(crate) fn all(mut filters: Vec<v1::Filter>) -> Option<v1::Filter> {
    match filters.len() {
        0 => None,
        1 => filters.pop(),
        _ => Some(from_condition(Condition::All(v1::FilterList { filters }))),
    }
}

/// The filter of one condition.
pub(crate) fn from_condition(condition: Condition) -> v1::Filter {
    v1::Filter {
        condition: Some(condition),
    }
}

fn equals(field: &str, value: v1::FilterValue) -> Condition {
    Condition::Equals(v1::FieldEquals {
        field: field.to_owned(),
        value: Some(value),
    })
}

fn name(field: &str) -> Option<String> {
    let field = field.trim();
    (!field.is_empty()).then(|| field.to_owned())
}

/// Parts between bars that are not inside of quotes.
fn split(values: &str) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let outside = |letter: char| {
        let bar = letter == '|' && !quoted;
        quoted ^= letter == '"' && !escaped;
        escaped = quoted && letter == '\\' && !escaped;
        bar
    };
    values.split(outside).collect()
}

fn value(field: &str, text: &str) -> Result<v1::FilterValue, String> {
    let text = text.trim();
    let is_text = matches!(field, "key" | "title");
    let value = if text.starts_with('"') {
        Value::Text(unquoted(text)?)
    } else {
        match (text, text.parse::<f64>()) {
            _ if is_text => Value::Text(text.to_owned()),
            ("true", _) => Value::Flag(true),
            ("false", _) => Value::Flag(false),
            // `inf` and `nan` are words.
            (_, Ok(number)) if number.is_finite() => exact_number(text, number),
            _ => Value::Text(text.to_owned()),
        }
    };
    Ok(v1::FilterValue { value: Some(value) })
}

/// A number as a filter names it: from 2^53 on by all of its digits.
pub(crate) fn exact_number(text: &str, nearest: f64) -> Value {
    match ExactNumber::parse(text.strip_prefix('+').unwrap_or(text)) {
        Some(number) if number.is_ambiguous() => {
            Value::Integer(number.digits().unwrap_or_else(|| format!("{nearest:.0}")))
        }
        _ => Value::Number(nearest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> v1::FilterValue {
        v1::FilterValue {
            value: Some(Value::Text(text.into())),
        }
    }

    fn number(number: f64) -> v1::FilterValue {
        v1::FilterValue {
            value: Some(Value::Number(number)),
        }
    }

    #[test]
    fn each_operator_is_its_condition() {
        let parsed = |argument: &str| parse(argument).unwrap().condition.unwrap();
        assert_eq!(parsed("lang=en"), equals("lang", text("en")));
        assert_eq!(parsed("lang = en"), equals("lang", text("en")));
        assert_eq!(parsed("year=1999"), equals("year", number(1999.0)));
        assert_eq!(parsed("year=\"1999\""), equals("year", text("1999")));
        assert_eq!(parsed("title=1984"), equals("title", text("1984")));
        assert_eq!(parsed("name=nan"), equals("name", text("nan")));
        let integer = |digits: &str| v1::FilterValue {
            value: Some(Value::Integer(digits.into())),
        };
        for id in [
            "1234567890123456789",
            "9007199254740993",
            "-9007199254740993",
            "100000000000000000001",
        ] {
            assert_eq!(parsed(&format!("tenant={id}")), equals("tenant", integer(id)));
        }
        assert_eq!(
            parsed("tenant=+9007199254740993"),
            equals("tenant", integer("9007199254740993"))
        );
        assert_eq!(parsed("tenant=1e18"), equals("tenant", integer("1000000000000000000")));
        assert_eq!(
            parsed("tenant=1e23"),
            equals("tenant", integer("99999999999999991611392"))
        );
        assert_eq!(
            parsed("tenant=9007199254740991"),
            equals("tenant", number(9_007_199_254_740_991.0))
        );
        assert_eq!(parsed("url=a?b=c"), equals("url", text("a?b=c")));
        assert_eq!(parsed("text=a in b"), equals("text", text("a in b")));
        let flag = v1::FilterValue {
            value: Some(Value::Flag(true)),
        };
        assert_eq!(
            parsed("open!=true"),
            Condition::Not(Box::new(from_condition(equals("open", flag))))
        );
        assert_eq!(
            parsed("author exists"),
            Condition::Exists(v1::FieldExists { field: "author".into() })
        );
        assert_eq!(parsed("text=it exists"), equals("text", text("it exists")));
        for (argument, prefix) in [
            ("name^=Ada", "Ada"),
            ("name ^= 19", "19"),
            ("name^=\"a \"", "a "),
            ("name^=x^=y", "x^=y"),
        ] {
            let condition = begins_with("name".into(), prefix.into()).condition.unwrap();
            assert_eq!(parsed(argument), condition, "{argument}");
        }
        assert_eq!(parsed("text=a^=b"), equals("text", text("a^=b")));
        assert_eq!(parsed("lang==en"), equals("lang", text("en")));
        assert_eq!(parsed("lang == en"), equals("lang", text("en")));
        assert_eq!(parsed("lang=\"=en\""), equals("lang", text("=en")));
        let year = || v1::FieldRange {
            field: "year".into(),
            ..Default::default()
        };
        let range = |range| Condition::Range(range);
        assert_eq!(
            parsed("year>=-2.5"),
            range(v1::FieldRange {
                min: Some(number(-2.5)),
                ..year()
            })
        );
        assert_eq!(
            parsed("year<=2024-01-31"),
            range(v1::FieldRange {
                max: Some(text("2024-01-31")),
                ..year()
            })
        );
        assert_eq!(
            parsed("year>3"),
            range(v1::FieldRange {
                above: Some(number(3.0)),
                ..year()
            })
        );
        assert_eq!(
            parsed("year < 3"),
            range(v1::FieldRange {
                below: Some(number(3.0)),
                ..year()
            })
        );
        let values = vec![text("en"), number(7.0), text("a|b\"=")];
        let one_of = Condition::OneOf(v1::FieldOneOf {
            field: "lang".into(),
            values,
        });
        assert_eq!(parsed(r#"lang in en|7|"a|b\"=""#), one_of);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_the_forms() {
        for wrong in ["lang", "=en", "^=en", " in a|b", " exists", ">3", "year!3", "x=\"open"] {
            let error = parse(wrong).unwrap_err();
            assert!(
                error.contains("FIELD=VALUE") || error.contains("not a JSON string"),
                "{wrong}: {error}"
            );
        }
    }

    #[test]
    fn several_are_all_wanted() {
        let (a, b) = (parse("a=1").unwrap(), parse("b=2").unwrap());
        assert_eq!(all(Vec::new()), None);
        assert_eq!(all(vec![a.clone()]), Some(a.clone()));
        let both = Condition::All(v1::FilterList {
            filters: vec![a.clone(), b.clone()],
        });
        assert_eq!(all(vec![a, b]), Some(from_condition(both)));
    }
}
