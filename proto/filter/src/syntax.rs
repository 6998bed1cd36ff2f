//! One condition of a filter as text: of `--filter`, and of filters in JSON.
//!
//! `FIELD=VALUE` (or `==`), `FIELD!=VALUE`, `FIELD>=VALUE`, `FIELD>VALUE`, `FIELD<=VALUE`, `FIELD<VALUE`,
//! `FIELD^=TEXT` (begins with), `FIELD in VALUE|VALUE|...`, `FIELD exists`. A value is a number (whole ones of any size
//! are exact), `true`, `false` or a text; in double quotes it is a text in any case (a JSON string). Values of `key`
//! and `title` are always texts.

use dyad_index::lexical::ExactNumber;
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;

/// An operator between a field and one value.
pub(crate) struct FilterOperator {
    /// As it is written.
    symbol: &'static str,
    /// Its value is a text even where it looks like a number.
    takes_text: bool,
    /// The condition that it states.
    condition: fn(String, v1::FilterValue) -> Condition,
}

/// All operators between a field and one value. To add one, add it here; the page has its own (`page/filters.js`).
const OPERATORS: [FilterOperator; 8] = [
    FilterOperator::of_values("=", equal),
    FilterOperator::of_values("==", equal),
    FilterOperator::of_values("!=", |field, value| {
        Condition::Not(Box::new(from_condition(equal(field, value))))
    }),
    FilterOperator::of_values(">=", |field, value| range(field, |range| range.min = Some(value))),
    FilterOperator::of_values(">", |field, value| range(field, |range| range.above = Some(value))),
    FilterOperator::of_values("<=", |field, value| range(field, |range| range.max = Some(value))),
    FilterOperator::of_values("<", |field, value| range(field, |range| range.below = Some(value))),
    FilterOperator {
        symbol: "^=",
        takes_text: true,
        condition: begins_with,
    },
];

impl FilterOperator {
    const fn of_values(symbol: &'static str, condition: fn(String, v1::FilterValue) -> Condition) -> Self {
        Self {
            symbol,
            takes_text: false,
            condition,
        }
    }

    /// The operator that is written so.
    pub(crate) fn of_symbol(symbol: &str) -> Option<&'static Self> {
        OPERATORS.iter().find(|operator| operator.symbol == symbol)
    }

    /// The first operator of an argument, and where it begins. Of several that begin at one place, it is the longest.
    fn first_of(argument: &str) -> Option<(usize, &'static Self)> {
        let places = OPERATORS.iter().filter_map(|operator| {
            let at = argument.find(operator.symbol)?;
            Some((at, operator))
        });
        places.min_by_key(|(at, operator)| (*at, std::cmp::Reverse(operator.symbol.len())))
    }

    /// The condition on a field, or what is wrong with the value.
    pub(crate) fn compare(&self, field: &str, value: v1::FilterValue) -> Result<v1::Filter, String> {
        if self.takes_text && !matches!(value.value, Some(Value::Text(_))) {
            return Err(format!("`{field}`: expected a text after `{}`", self.symbol));
        }
        Ok(from_condition((self.condition)(field.to_owned(), value)))
    }
}

/// The operators for errors: "`=`, `!=`, ... or `exists`".
pub(crate) fn operator_names() -> String {
    let symbols: Vec<String> = OPERATORS
        .iter()
        .map(|operator| format!("`{}`", operator.symbol))
        .collect();
    format!("{}, `in` or `exists`", symbols.join(", "))
}

/// The error of an argument that states no condition.
fn wrong(why: &str) -> String {
    let form = |operator: &FilterOperator| {
        let value = if operator.takes_text { "TEXT" } else { "VALUE" };
        format!("FIELD{}{value}", operator.symbol)
    };
    let forms: Vec<String> = OPERATORS.iter().map(form).collect();
    format!(
        "{why}. Write {}, 'FIELD in VALUE|VALUE' or 'FIELD exists'",
        forms.join(", ")
    )
}

/// The condition that an argument states.
pub fn parse(argument: &str) -> Result<v1::Filter, String> {
    let first = FilterOperator::first_of(argument);
    let is_before_operators = |at: usize| first.is_none_or(|(first, _)| at < first);
    if let Some((field, values)) = argument.split_once(" in ")
        && is_before_operators(field.len())
    {
        let field = name(field).ok_or_else(|| wrong("there is no field before `in`"))?;
        let values = split(values)
            .into_iter()
            .map(|text| value(&field, text))
            .collect::<Result<_, _>>()?;
        return Ok(from_condition(Condition::OneOf(v1::FieldOneOf { field, values })));
    }
    if let Some(field) = argument.strip_suffix(" exists")
        && is_before_operators(field.len())
    {
        let field = name(field).ok_or_else(|| wrong("there is no field before `exists`"))?;
        return Ok(from_condition(Condition::Exists(v1::FieldExists { field })));
    }
    let (at, operator) = first.ok_or_else(|| wrong("there is no operator"))?;
    let field = name(&argument[..at]).ok_or_else(|| wrong("there is no field before the operator"))?;
    let operand = &argument[at + operator.symbol.len()..];
    let value = if operator.takes_text {
        text_value(unquoted(operand.trim())?)
    } else {
        value(&field, operand)?
    };
    operator.compare(&field, value)
}

/// A text without the quotes of a JSON string, where it has some.
fn unquoted(text: &str) -> Result<String, String> {
    if !text.starts_with('"') {
        return Ok(text.to_owned());
    }
    serde_json::from_str(text).map_err(|error| format!("{text} is not a JSON string: {error}"))
}

fn text_value(text: String) -> v1::FilterValue {
    v1::FilterValue {
        value: Some(Value::Text(text)),
    }
}

/// The condition that a field has a value.
fn equal(field: String, value: v1::FilterValue) -> Condition {
    Condition::Equals(v1::FieldEquals {
        field,
        value: Some(value),
    })
}

/// The condition that a value of a field is within bounds.
fn range(field: String, set_bound: impl FnOnce(&mut v1::FieldRange)) -> Condition {
    let mut range = v1::FieldRange {
        field,
        ..v1::FieldRange::default()
    };
    set_bound(&mut range);
    Condition::Range(range)
}

/// The condition that a text of a field begins with another.
fn begins_with(field: String, value: v1::FilterValue) -> Condition {
    let prefix = match value.value {
        Some(Value::Text(prefix)) => prefix,
        // Refused as a blank prefix is.
        _ => String::new(),
    };
    Condition::Prefix(v1::FieldPrefix { field, prefix })
}

/// All conditions together; none where there is none.
pub fn all(mut filters: Vec<v1::Filter>) -> Option<v1::Filter> {
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

    fn equal_to(field: &str, value: v1::FilterValue) -> Condition {
        equal(field.to_owned(), value)
    }

    fn number(number: f64) -> v1::FilterValue {
        v1::FilterValue {
            value: Some(Value::Number(number)),
        }
    }

    #[test]
    fn each_operator_is_its_condition() {
        let parsed = |argument: &str| parse(argument).unwrap().condition.unwrap();
        assert_eq!(parsed("lang=en"), equal_to("lang", text("en")));
        assert_eq!(parsed("lang = en"), equal_to("lang", text("en")));
        assert_eq!(parsed("year=1999"), equal_to("year", number(1999.0)));
        assert_eq!(parsed("year=\"1999\""), equal_to("year", text("1999")));
        assert_eq!(parsed("title=1984"), equal_to("title", text("1984")));
        assert_eq!(parsed("name=nan"), equal_to("name", text("nan")));
        assert_eq!(parsed("url=a?b=c"), equal_to("url", text("a?b=c")));
        assert_eq!(parsed("text=a in b"), equal_to("text", text("a in b")));
        let flag = v1::FilterValue {
            value: Some(Value::Flag(true)),
        };
        assert_eq!(
            parsed("open!=true"),
            Condition::Not(Box::new(from_condition(equal_to("open", flag))))
        );
        assert_eq!(
            parsed("author exists"),
            Condition::Exists(v1::FieldExists { field: "author".into() })
        );
        assert_eq!(parsed("text=it exists"), equal_to("text", text("it exists")));
        for (argument, prefix) in [
            ("name^=Ada", "Ada"),
            ("name ^= 19", "19"),
            ("name^=\"a \"", "a "),
            ("name^=x^=y", "x^=y"),
        ] {
            let condition = Condition::Prefix(v1::FieldPrefix {
                field: "name".into(),
                prefix: prefix.into(),
            });
            assert_eq!(parsed(argument), condition, "{argument}");
        }
        assert_eq!(parsed("text=a^=b"), equal_to("text", text("a^=b")));
        assert_eq!(parsed("lang==en"), equal_to("lang", text("en")));
        assert_eq!(parsed("lang == en"), equal_to("lang", text("en")));
        assert_eq!(parsed("lang=\"=en\""), equal_to("lang", text("=en")));
        let year = || v1::FieldRange {
            field: "year".into(),
            ..Default::default()
        };
        assert_eq!(
            parsed("year>=-2.5"),
            Condition::Range(v1::FieldRange {
                min: Some(number(-2.5)),
                ..year()
            })
        );
        assert_eq!(
            parsed("year<=2024-01-31"),
            Condition::Range(v1::FieldRange {
                max: Some(text("2024-01-31")),
                ..year()
            })
        );
        assert_eq!(
            parsed("year>3"),
            Condition::Range(v1::FieldRange {
                above: Some(number(3.0)),
                ..year()
            })
        );
        assert_eq!(
            parsed("year < 3"),
            Condition::Range(v1::FieldRange {
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
    fn numbers_that_doubles_round_are_given_by_their_digits() {
        let parsed = |argument: &str| parse(argument).unwrap().condition.unwrap();
        let integer = |digits: &str| v1::FilterValue {
            value: Some(Value::Integer(digits.into())),
        };
        for id in [
            "1234567890123456789",
            "9007199254740993",
            "-9007199254740993",
            "100000000000000000001",
        ] {
            assert_eq!(parsed(&format!("tenant={id}")), equal_to("tenant", integer(id)));
        }
        assert_eq!(
            parsed("tenant=+9007199254740993"),
            equal_to("tenant", integer("9007199254740993"))
        );
        assert_eq!(
            parsed("tenant=1e18"),
            equal_to("tenant", integer("1000000000000000000"))
        );
        assert_eq!(
            parsed("tenant=1e23"),
            equal_to("tenant", integer("99999999999999991611392"))
        );
        assert_eq!(
            parsed("tenant=9007199254740991"),
            equal_to("tenant", number(9_007_199_254_740_991.0))
        );
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
