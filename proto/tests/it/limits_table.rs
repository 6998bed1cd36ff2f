//! The table of limits in `proto/README.md` is that of the `.proto` files. `DYAD_WRITE_LIMITS=1 cargo test -p
//! dyad-proto limits_table` writes it.

use std::fmt::Write as _;

use dyad_proto::rules::{LIMITED_METHODS, OTHER_LIMITS, RULED_FIELDS, RuledField};
use dyad_proto::v1::RequestLimits;
use prost_reflect::{DescriptorPool, Kind};

const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
const BEGIN: &str = "<!-- limits -->\n";
const END: &str = "<!-- /limits -->";

/// Bytes for people.
fn bytes(count: u32) -> String {
    match count {
        mib if mib.is_multiple_of(1 << 20) => format!("{} MiB", mib >> 20),
        kib if kib.is_multiple_of(1 << 10) => format!("{} KiB", kib >> 10),
        bytes => format!("{bytes} bytes"),
    }
}

/// What a field may hold, in words.
fn words(ruled: &RuledField) -> String {
    let rules = &ruled.rules;
    let mut parts = Vec::new();
    if rules.required {
        parts.push("required".to_owned());
    }
    if let Some(default) = rules.default {
        parts.push(format!("0: {}", name_of_default(ruled, default)));
    }
    let or_zero = rules.zero_or().unwrap_or_default();
    match (rules.minimum, rules.maximum) {
        (Some(least), Some(most)) if rules.exclusive => parts.push(format!("above {least} and below {most}")),
        (Some(least), Some(most)) => parts.push(format!("{or_zero}{least} to {most}")),
        (Some(least), None) => parts.push(format!("at least {least}")),
        (None, Some(most)) => parts.push(format!("at most {most}")),
        (None, None) => {}
    }
    if let Some(most) = rules.max_items {
        parts.push(format!("at most {most} entries"));
    }
    if rules.unique {
        parts.push("each once".to_owned());
    }
    if rules.not_blank {
        parts.push("not blank".to_owned());
    }
    if rules.field_name {
        parts.push("no zero byte".to_owned());
    }
    if let Some(most) = rules.max_bytes {
        let each = if rules.max_items.is_some() { "each of " } else { "" };
        parts.push(format!("{each}at most {}", bytes(most)));
    }
    if rules.index_name {
        parts.push("`A-Z a-z 0-9 . _ -`, the first of them not a point; empty: the default".to_owned());
    }
    parts.join(", ")
}

/// The number that 0 stands for, or the name of the enum's value.
fn name_of_default(ruled: &RuledField, default: u32) -> String {
    let pool = DescriptorPool::decode(dyad_proto::v1::FILE_DESCRIPTOR_SET).unwrap();
    let message = pool.get_message_by_name(&format!("dyad.v1.{}", ruled.message)).unwrap();
    let field = message.get_field_by_name(ruled.field).unwrap();
    let number = i32::try_from(default).unwrap();
    match field.kind() {
        Kind::Enum(values) => format!("`{}`", values.get_value(number).unwrap().name()),
        _ => default.to_string(),
    }
}

/// Both tables.
fn tables() -> String {
    let mut tables = String::from("| request of | bytes | texts and messages inside |\n|---|---|---|\n");
    let mut row = |name: &str, limits: &RequestLimits| {
        writeln!(tables, "| {name} | {} | {} |", bytes(limits.bytes), limits.elements).unwrap();
    };
    for method in LIMITED_METHODS {
        row(
            &format!("`{}`", method.path.trim_start_matches("/dyad.v1.").replace('/', ".")),
            &method.limits,
        );
    }
    row("any other method", &OTHER_LIMITS);
    tables.push_str("\n| field | may hold |\n|---|---|\n");
    for ruled in RULED_FIELDS {
        writeln!(tables, "| `{}.{}` | {} |", ruled.message, ruled.field, words(ruled)).unwrap();
    }
    tables
}

#[test]
fn the_limits_table_of_the_readme_is_that_of_the_proto_files() {
    let readme = fs_err::read_to_string(README).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    if std::env::var_os("DYAD_WRITE_LIMITS").is_some() {
        fs_err::write(README, format!("{before}{BEGIN}{}{END}{after}", tables())).unwrap();
        return;
    }
    assert_eq!(table, tables(), "write it with DYAD_WRITE_LIMITS=1");
}
