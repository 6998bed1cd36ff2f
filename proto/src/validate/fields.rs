//! Checks single fields by the rules of the `.proto` files: what each message's [`CheckFields`] does is written by
//! `build.rs`.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::index;
use super::violations::{Check, Violations};
use crate::{rules, v1};

include!(concat!(env!("OUT_DIR"), "/dyad.v1.checks.rs"));

/// A message whose fields have rules.
pub trait CheckFields {
    /// Checks the fields, but not what nested messages hold. `at` comes before their names.
    #[doc(hidden)]
    fn check_fields(&self, check: &mut Check, at: &str);
}

/// Checks a request all of whose rules are about single fields.
pub fn fields(request: &impl CheckFields) -> Result<(), Violations> {
    let mut check = Check::default();
    request.check_fields(&mut check, "");
    check.done()
}

/// The shortest decimal that reads back as the same `f32`: what is meant by one, where bounds are `f64`.
fn decimal(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_else(|_| value.into())
}

impl Check {
    /// A value of an enum: one of its names, and not 0 where it is required.
    fn one_of(&mut self, at: &str, name: &str, got: i32, values: &[(&str, i32)], is_required: bool) {
        let allowed = |number: i32| !(is_required && number == 0);
        if allowed(got) && values.iter().any(|(_, number)| *number == got) {
            return;
        }
        let named: Vec<String> = values
            .iter()
            .filter(|(_, number)| allowed(*number))
            .map(|(name, number)| format!("{name} ({number})"))
            .collect();
        let mut expected = named.join(", ");
        if let Some((first, last)) = expected.rsplit_once(", ") {
            expected = format!("{first} or {last}");
        }
        self.fail(format!("{at}{name}"), format!("expected {expected}, got {got}"));
    }

    /// A whole number.
    fn integer(&mut self, at: &str, name: &str, got: u64, rules: &v1::FieldRules) {
        let (value, v1::FieldRules { minimum, maximum, .. }) = (got as f64, *rules);
        let zero = rules.zero_or();
        if zero.is_some() && got == 0 || is_between(value, rules) {
            return;
        }
        let mut expected = format!("expected {}", zero.unwrap_or_default());
        let written = match (minimum, maximum) {
            (Some(least), Some(most)) => write!(expected, "{least} to {most}"),
            (Some(least), None) => write!(expected, "at least {least}"),
            (None, most) => write!(expected, "at most {}", most.unwrap_or(f64::INFINITY)),
        };
        // A string takes what is written to it.
        written.unwrap_or_default();
        self.fail(format!("{at}{name}"), format!("{expected}, got {got}"));
    }

    /// A number with a fraction.
    fn number(&mut self, at: &str, name: &str, got: f64, rules: &v1::FieldRules) {
        let zero = rules.zero_or();
        if zero.is_some() && got == 0.0 || is_between(got, rules) {
            return;
        }
        let zero = zero.unwrap_or_default();
        let least = rules.minimum.unwrap_or(f64::NEG_INFINITY);
        let most = rules.maximum.unwrap_or(f64::INFINITY);
        let range = if rules.exclusive {
            format!("above {least} and below {most}")
        } else {
            format!("from {least} to {most}")
        };
        self.fail(
            format!("{at}{name}"),
            format!("expected {zero}a number {range}, got {got}"),
        );
    }

    /// A text.
    pub(super) fn text(&mut self, at: &str, name: &str, text: &str, rules: &v1::FieldRules) {
        if rules.not_blank && text.trim().is_empty() {
            self.fail(format!("{at}{name}"), "expected text, got none");
        } else if rules.index_name {
            if let Some(Err(description)) = (!text.is_empty()).then(|| index::index_name(text)) {
                self.fail(format!("{at}{name}"), description);
            }
        } else if text.len() > rules.most_bytes() {
            let expected = rules.most_bytes();
            self.fail(
                format!("{at}{name}"),
                format!("expected at most {expected} bytes, got {}", text.len()),
            );
        } else if is_broken_name(text, rules) {
            self.fail(format!("{at}{name}"), "expected a name without zero bytes");
        }
    }

    /// The number of entries of a list.
    fn items(&mut self, at: &str, name: &str, got: usize, rules: &v1::FieldRules) {
        let most = rules.most_items();
        if rules.required && (got == 0 || got > most) {
            self.fail(
                format!("{at}{name}"),
                format!("expected 1 to {most} entries, got {got}"),
            );
        } else if got > most {
            self.fail(
                format!("{at}{name}"),
                format!("expected at most {most} entries, got {got}"),
            );
        }
    }

    /// A list of texts, and each of them.
    fn texts(&mut self, at: &str, name: &str, texts: &[String], rules: &v1::FieldRules) {
        self.items(at, name, texts.len(), rules);
        let mut seen = HashMap::new();
        for (number, text) in texts.iter().enumerate().take(rules.most_items()) {
            self.text_of_list(at, name, number, text, rules);
            if !rules.unique {
                continue;
            }
            let first = *seen.entry(text).or_insert(number);
            if first < number {
                // The text itself may be long.
                let expected = format!("expected each entry once, got that of `{name}[{first}]` again");
                self.fail(format!("{at}{name}[{number}]"), expected);
            }
        }
    }

    /// One text of a list. Its name is written only where it is refused.
    fn text_of_list(&mut self, at: &str, name: &str, number: usize, text: &str, rules: &v1::FieldRules) {
        let is_blank = rules.not_blank && text.trim().is_empty();
        if is_blank || text.len() > rules.most_bytes() || is_broken_name(text, rules) {
            self.text(at, &format!("{name}[{number}]"), text, rules);
        }
    }

    /// A message that has to be there.
    fn present(&mut self, at: &str, name: &str, is_there: bool, expected: &str) {
        if !is_there {
            self.fail(format!("{at}{name}"), format!("expected {expected}, got none"));
        }
    }
}

/// Whether a text that names a field of documents cannot be the name of one.
fn is_broken_name(text: &str, rules: &v1::FieldRules) -> bool {
    rules.field_name && text.contains('\0')
}

/// Whether a number keeps to its rules; one that is none does not.
fn is_between(value: f64, rules: &v1::FieldRules) -> bool {
    let least = rules.minimum.unwrap_or(f64::NEG_INFINITY);
    let most = rules.maximum.unwrap_or(f64::INFINITY);
    if rules.exclusive {
        value > least && value < most
    } else {
        value >= least && value <= most
    }
}
