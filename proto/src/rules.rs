//! What the fields and methods of the `.proto` files may hold, as their options say (`dyad/v1/rules.proto`).
//!
//! Everything that needs a bound takes it from here: validation, the check of bytes before they are decoded, OpenAPI,
//! the table of limits in the README. The constants are written by `build.rs`.

use crate::v1;

pub use self::constants::*;

#[expect(clippy::unreadable_literal, reason = "generated")]
mod constants {
    use super::{LimitedMethod, RuledField};
    use crate::v1;

    include!(concat!(env!("OUT_DIR"), "/dyad.v1.rules.rs"));
}

/// A field with its rules.
#[derive(Debug, Clone, Copy)]
pub struct RuledField {
    /// Name of the message, without its package.
    pub message: &'static str,
    /// Name of the field.
    pub field: &'static str,
    /// What it may hold.
    pub rules: v1::FieldRules,
}

/// A method whose requests may hold more than [`OTHER_LIMITS`].
#[derive(Debug, Clone, Copy)]
pub struct LimitedMethod {
    /// As on the wire: `/dyad.v1.Searcher/Search`.
    pub path: &'static str,
    /// What one request may hold.
    pub limits: v1::RequestLimits,
}

/// What a request of a method without limits of its own may hold.
pub const OTHER_LIMITS: v1::RequestLimits = v1::RequestLimits {
    bytes: 64 << 10,
    elements: 4096,
};

/// The rules of a field, where it has some. `message` is without its package.
pub fn field_rules(message: &str, field: &str) -> Option<v1::FieldRules> {
    RULED_FIELDS
        .iter()
        .find(|ruled| ruled.message == message && ruled.field == field)
        .map(|ruled| ruled.rules)
}

/// What a request of a method may hold.
pub const fn request_limits(path: &str) -> v1::RequestLimits {
    let mut at = 0;
    while at < LIMITED_METHODS.len() {
        if is_equal(LIMITED_METHODS[at].path.as_bytes(), path.as_bytes()) {
            return LIMITED_METHODS[at].limits;
        }
        at += 1;
    }
    OTHER_LIMITS
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

impl v1::FieldRules {
    /// Most entries of a list.
    pub const fn most_items(&self) -> usize {
        match self.max_items {
            Some(items) => items as usize,
            None => usize::MAX,
        }
    }

    /// Most bytes of a text.
    pub const fn most_bytes(&self) -> usize {
        match self.max_bytes {
            Some(bytes) => bytes as usize,
            None => usize::MAX,
        }
    }

    /// What 0 means, as the beginning of what is expected; none where 0 is a number as any other.
    pub fn zero_or(&self) -> Option<&'static str> {
        match self.zero() {
            v1::ZeroMeaning::Unspecified => None,
            v1::ZeroMeaning::None => Some("0 for none, or "),
            v1::ZeroMeaning::Whole => Some("0 for the whole, or "),
        }
    }

    /// Largest whole number.
    pub const fn largest(&self) -> u32 {
        match self.maximum {
            Some(number) => number as u32,
            None => u32::MAX,
        }
    }
}
