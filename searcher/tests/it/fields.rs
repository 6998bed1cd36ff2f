//! The metadata of the documents of the small index.

use crate::fixture::THINGS;

/// Ids of tenants, most of which have the nearest double of another one.
pub(crate) const TENANTS: [&str; 12] = [
    "1234567890123456789",
    "1234567890123456790",
    "1234567890123456768",
    "18446744073709551615",
    "18446744073709551614",
    "-9223372036854775808",
    "-9223372036854775807",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "100000000000000000000",
    "100000000000000000001",
];

fn number_of(key: &str) -> u32 {
    key.trim_start_matches("doc-").parse().unwrap()
}

/// The tenant of a document.
pub(crate) fn tenant(key: &str) -> &'static str {
    TENANTS[number_of(key) as usize % TENANTS.len()]
}

/// A number that depends on a document, of any exponent: by its shortest digits, by 17, or one of 32 bits.
fn value(number: u32) -> String {
    let bits = u64::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Without the exponent of infinity.
    let large = u64::from(number % 2);
    let double = f64::from_bits(bits & !(3 << 61) | large << 62 | (1 - large) << 61);
    match number % 3 {
        0 => format!("{double:e}"),
        1 => format!("{double:.16e}"),
        _ => format!("{}", f64::from(f32::from_bits((bits >> 32) as u32 & !(1 << 30)))),
    }
}

/// The metadata of a document. Keys like `one#2` are of passages.
pub(crate) fn metadata(key: &str) -> String {
    if let Some((document, passage)) = key.split_once('#') {
        return format!(r#"{{"document":"{document}","passage":{passage}}}"#);
    }
    let number = number_of(key);
    let (thing, hundred) = (THINGS[number as usize % THINGS.len()], number / 100);
    let (tenant, value) = (tenant(key), value(number));
    let place = format!(r#"{{"number":{number},"hundred":{hundred}}}"#);
    format!(r#"{{"lang":"en","thing":"{thing}","place":{place},"tenant":{tenant},"value":{value}}}"#)
}
