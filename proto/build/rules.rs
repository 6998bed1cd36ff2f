//! The rules of `rules.proto` as Rust: a constant for each field, a table of them, and a check for each message.

use std::error::Error;
use std::fmt::Write as _;

use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, ReflectMessage as _, Value,
};

/// The package whose messages have rules.
const PACKAGE: &str = "dyad.v1";

/// The value of an option that is an extension of this name, if it is given.
fn extension(pool: &DescriptorPool, options: &DynamicMessage, name: &str) -> Option<DynamicMessage> {
    let extension = pool.get_extension_by_name(&format!("{PACKAGE}.{name}"))?;
    if !options.has_extension(&extension) {
        return None;
    }
    options.get_extension(&extension).as_message().cloned()
}

/// A field with its rules.
struct FieldWithRules {
    field: FieldDescriptor,
    rules: DynamicMessage,
}

impl FieldWithRules {
    /// The name of its constant: `SEARCH_REQUEST_K`.
    fn constant(&self) -> String {
        let mut name = String::new();
        for letter in self.field.parent_message().name().chars() {
            if letter.is_ascii_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(letter.to_ascii_uppercase());
        }
        format!("{name}_{}", self.field.name().to_ascii_uppercase())
    }

    /// Whether an enum's value of 0 is refused: it is required, or stands for another by now.
    fn is_required(&self) -> bool {
        let required = self.rules.get_field_by_name("required");
        required.is_some_and(|value| value.as_bool() == Some(true)) || self.default().is_some()
    }

    /// What 0 stands for.
    fn default(&self) -> Option<u32> {
        let given = self.rules.has_field_by_name("default");
        let value = self.rules.get_field_by_name("default").filter(|_| given)?;
        value.as_u32()
    }
}

/// The messages of the package that have a field with rules, and these fields.
fn ruled_messages(pool: &DescriptorPool) -> Vec<(MessageDescriptor, Vec<FieldWithRules>)> {
    let mut ruled = Vec::new();
    for message in pool.all_messages().filter(|message| message.package_name() == PACKAGE) {
        let mut fields = Vec::new();
        for field in message.fields() {
            if let Some(rules) = extension(pool, &field.options(), "rules") {
                fields.push(FieldWithRules { field, rules });
            }
        }
        if !fields.is_empty() {
            ruled.push((message, fields));
        }
    }
    ruled
}

/// A message of options as a Rust literal.
fn literal(message: &DynamicMessage) -> Result<String, Box<dyn Error>> {
    let name = message.descriptor().name().to_owned();
    let mut fields = String::new();
    for field in message.descriptor().fields() {
        let value = match &*message.get_field(&field) {
            Value::Bool(value) => value.to_string(),
            Value::U32(value) => value.to_string(),
            Value::F64(value) => format!("{value:?}"),
            other => return Err(format!("{name}.{}: no literal for {other:?}", field.name()).into()),
        };
        let value = match (field.supports_presence(), message.has_field(&field)) {
            (true, true) => format!("Some({value})"),
            (true, false) => "None".to_owned(),
            (false, _) => value,
        };
        write!(fields, "{}: {value}, ", field.name())?;
    }
    Ok(format!("v1::{name} {{ {fields}}}"))
}

/// The constants of all fields with rules, and the tables of fields and methods.
pub(crate) fn constants(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let (mut constants, mut fields) = (String::new(), String::new());
    for (message, ruled) in ruled_messages(pool) {
        for one in ruled {
            let (constant, owner, field) = (one.constant(), message.name(), one.field.name());
            writeln!(constants, "/// Rules of `{owner}.{field}`.")?;
            writeln!(
                constants,
                "pub const {constant}: v1::FieldRules = {};",
                literal(&one.rules)?
            )?;
            writeln!(
                fields,
                "    RuledField {{ message: {owner:?}, field: {field:?}, rules: {constant} }},"
            )?;
        }
    }
    let mut methods = String::new();
    for method in pool
        .services()
        .flat_map(|service| service.methods().collect::<Vec<_>>())
    {
        if let Some(limits) = extension(pool, &method.options(), "limits") {
            let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
            writeln!(
                methods,
                "    LimitedMethod {{ path: {path:?}, limits: {} }},",
                literal(&limits)?
            )?;
        }
    }
    writeln!(
        constants,
        "/// All fields with rules.\npub const RULED_FIELDS: &[RuledField] = &[\n{fields}];"
    )?;
    writeln!(
        constants,
        "/// The methods that have limits of their own.\npub const LIMITED_METHODS: &[LimitedMethod] = &[\n{methods}];"
    )?;
    Ok(constants)
}

/// For each message with defaults, what sets them.
pub(crate) fn defaults(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let mut setters = String::new();
    for (message, ruled) in ruled_messages(pool) {
        let mut lines = String::new();
        for one in &ruled {
            if let Some(default) = one.default() {
                let name = one.field.name();
                writeln!(lines, "        if self.{name} == 0 {{ self.{name} = {default}; }}")?;
            }
        }
        if !lines.is_empty() {
            let name = message.name();
            writeln!(
                setters,
                "impl v1::{name} {{\n    fn set_field_defaults(&mut self) {{\n{lines}    }}\n}}"
            )?;
        }
    }
    Ok(setters)
}

/// For each message with rules, the check of its fields. What a nested message holds, it does not check.
pub(crate) fn checks(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let mut checks = String::new();
    for (message, ruled) in ruled_messages(pool) {
        let mut lines = String::new();
        for field in message.fields() {
            let rules = ruled.iter().find(|one| one.field == field);
            if let Some(line) = check(&field, rules) {
                writeln!(lines, "        {line}")?;
            }
        }
        // All fields may be alternatives, which their users check.
        let unused = if lines.is_empty() { "_" } else { "" };
        writeln!(checks, "impl CheckFields for v1::{} {{", message.name())?;
        writeln!(
            checks,
            "    fn check_fields(&self, {unused}check: &mut Check, {unused}at: &str) {{"
        )?;
        writeln!(checks, "{lines}    }}\n}}")?;
    }
    Ok(checks)
}

/// The check of one field; none where nothing is asked of it, and of the alternatives of a `oneof`, which their users
/// check.
fn check(field: &FieldDescriptor, rules: Option<&FieldWithRules>) -> Option<String> {
    let name = field.name();
    // An optional field of proto3 is the only one of a `oneof` that nobody wrote.
    if field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic()) {
        return None;
    }
    if let Kind::Enum(values) = field.kind() {
        let named: Vec<String> = values
            .values()
            .map(|value| format!("({:?}, {})", value.name(), value.number()))
            .collect();
        let is_required = rules.is_some_and(FieldWithRules::is_required);
        return Some(format!(
            "check.one_of(at, {name:?}, self.{name}, &[{}], {is_required});",
            named.join(", ")
        ));
    }
    let (bounds, rules) = (&rules?.rules, format!("&rules::{}", rules?.constant()));
    if field.is_list() {
        return Some(match field.kind() {
            Kind::String => format!("check.texts(at, {name:?}, &self.{name}, {rules});"),
            _ => format!("check.items(at, {name:?}, self.{name}.len(), {rules});"),
        });
    }
    if let Kind::Message(inner) = field.kind() {
        let expected = expected_message(&inner);
        return Some(format!(
            "check.present(at, {name:?}, self.{name}.is_some(), {expected:?});"
        ));
    }
    let is_number = matches!(field.kind(), Kind::Uint32 | Kind::Uint64 | Kind::Double | Kind::Float);
    if is_number
        && !["minimum", "maximum"]
            .iter()
            .any(|bound| bounds.has_field_by_name(bound))
    {
        return None;
    }
    let is_optional = field.containing_oneof().is_some();
    let value = if is_optional {
        "value".to_owned()
    } else {
        format!("self.{name}")
    };
    let checked = match field.kind() {
        Kind::String => format!("check.text(at, {name:?}, &{value}, {rules});"),
        Kind::Uint32 => format!("check.integer(at, {name:?}, {value}.into(), {rules});"),
        Kind::Uint64 => format!("check.integer(at, {name:?}, {value}, {rules});"),
        Kind::Double => format!("check.number(at, {name:?}, {value}, {rules});"),
        Kind::Float => format!("check.number(at, {name:?}, decimal({value}), {rules});"),
        _ => return None,
    };
    Some(if is_optional {
        format!("if let Some(value) = self.{name} {{ {checked} }}")
    } else {
        checked
    })
}

/// What is expected where a message is missing: one of its alternatives, where it has nothing else.
fn expected_message(message: &MessageDescriptor) -> String {
    let names: Vec<String> = message.fields().map(|field| format!("`{}`", field.name())).collect();
    if message.fields().all(|field| field.containing_oneof().is_some()) {
        format!("one of {}", names.join(", "))
    } else {
        format!("a `{}`", message.name())
    }
}
