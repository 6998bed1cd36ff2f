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

/// The name of a message as that of a constant: `SEARCH_REQUEST`.
fn screaming_case(message: &str) -> String {
    let mut name = String::new();
    for letter in message.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

/// A field with its rules.
struct FieldWithRules {
    field: FieldDescriptor,
    rules: DynamicMessage,
}

impl FieldWithRules {
    /// The name of its constant: `SEARCH_REQUEST_K`.
    fn constant(&self) -> String {
        let message = screaming_case(self.field.parent_message().name());
        format!("{message}_{}", self.field.name().to_ascii_uppercase())
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

/// Most bytes of the name of a field of documents.
const FIELD_NAME_BYTES: u32 = 256;

/// A field with its rules, where it has some. That a text is the name of a field stands for the rules of such names.
fn field_with_rules(pool: &DescriptorPool, field: FieldDescriptor) -> Option<FieldWithRules> {
    let mut rules = extension(pool, &field.options(), "rules")?;
    let is_set = |rules: &DynamicMessage, name: &str| {
        let value = rules.get_field_by_name(name);
        value.is_some_and(|value| value.as_bool() == Some(true))
    };
    if is_set(&rules, "field_name") {
        rules.set_field_by_name("not_blank", Value::Bool(true));
        rules.set_field_by_name("max_bytes", Value::U32(FIELD_NAME_BYTES));
    }
    Some(FieldWithRules { field, rules })
}

/// The rules of a constant: that what a message has without a field is refused is said of every such field.
fn with_required(ruled: &FieldWithRules) -> DynamicMessage {
    let mut rules = ruled.rules.clone();
    let is_alternative = ruled.field.containing_oneof().is_some();
    let least = ruled.rules.get_field_by_name("minimum");
    let least = least.and_then(|least| least.as_f64()).unwrap_or_default();
    let refuses_zero = least > 0.0 && ["zero", "default"].iter().all(|name| !rules.has_field_by_name(name));
    let refuses_blank = !ruled.field.is_list() && rules.has_field_by_name("not_blank");
    if !is_alternative && (refuses_zero || refuses_blank) {
        rules.set_field_by_name("required", Value::Bool(true));
    }
    rules
}

/// Refuses rules that nothing would check.
fn check_rules(ruled: &FieldWithRules) -> Result<(), Box<dyn Error>> {
    let is_text = matches!(ruled.field.kind(), Kind::String);
    let is_list = ruled.field.is_list();
    let is_number = matches!(
        ruled.field.kind(),
        Kind::Uint32 | Kind::Uint64 | Kind::Float | Kind::Double
    );
    let of_texts = ["max_bytes", "not_blank", "index_name", "field_name"];
    let of_lists = ["max_items", "unique"];
    let of_numbers = ["minimum", "maximum", "exclusive", "zero"];
    let mut unchecked = Vec::new();
    unchecked.extend(of_texts.iter().filter(|_| !is_text));
    unchecked.extend(of_lists.iter().filter(|_| !is_list));
    unchecked.extend(of_numbers.iter().filter(|_| !is_number || is_list));
    if (is_text || is_number) && !is_list {
        unchecked.push(&"required");
    }
    let wrong = unchecked.into_iter().find(|name| ruled.rules.has_field_by_name(name));
    match wrong {
        None => Ok(()),
        Some(name) => Err(format!(
            "{}: the rule `{name}` is not checked of such a field. See rules.proto",
            ruled.field.full_name()
        )
        .into()),
    }
}

/// The messages of the package that have a field with rules, and these fields.
fn ruled_messages(pool: &DescriptorPool) -> Vec<(MessageDescriptor, Vec<FieldWithRules>)> {
    let mut ruled = Vec::new();
    for message in pool.all_messages().filter(|message| message.package_name() == PACKAGE) {
        let mut fields = Vec::new();
        for field in message.fields() {
            fields.extend(field_with_rules(pool, field));
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
            Value::EnumNumber(value) => value.to_string(),
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
            check_rules(&one)?;
            let (constant, owner, field) = (one.constant(), message.name(), one.field.name());
            writeln!(constants, "/// Rules of `{owner}.{field}`.")?;
            writeln!(
                constants,
                "pub const {constant}: v1::FieldRules = {};",
                literal(&with_required(&one))?
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

/// For each message that is one of several alternatives, their names: `FILTER_ALTERNATIVES`.
pub(crate) fn alternatives(pool: &DescriptorPool) -> Result<String, Box<dyn Error>> {
    let mut constants = String::new();
    for message in pool.all_messages().filter(|message| message.package_name() == PACKAGE) {
        if let Some(names) = alternatives_of(&message) {
            let constant = format!("{}_ALTERNATIVES", screaming_case(message.name()));
            writeln!(constants, "/// The alternatives of `{}`.", message.name())?;
            writeln!(constants, "pub const {constant}: &str = {names:?};")?;
        }
    }
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
    // A text is borrowed.
    let borrow = if matches!(field.kind(), Kind::String) { "&" } else { "" };
    let checked = match field.kind() {
        Kind::String if is_optional => format!("check.text(at, {name:?}, value, {rules});"),
        Kind::String => format!("check.text(at, {name:?}, &self.{name}, {rules});"),
        Kind::Uint32 => format!("check.integer(at, {name:?}, {value}.into(), {rules});"),
        Kind::Uint64 => format!("check.integer(at, {name:?}, {value}, {rules});"),
        Kind::Double => format!("check.number(at, {name:?}, {value}, {rules});"),
        Kind::Float => format!("check.number(at, {name:?}, decimal({value}), {rules});"),
        _ => return None,
    };
    Some(if is_optional {
        format!("if let Some(value) = {borrow}self.{name} {{ {checked} }}")
    } else {
        checked
    })
}

/// What is expected where a message is missing: one of its alternatives, where it has nothing else.
fn expected_message(message: &MessageDescriptor) -> String {
    match alternatives_of(message) {
        Some(names) => format!("one of {names}"),
        None => format!("a `{}`", message.name()),
    }
}

/// The names of a message's fields, where they are alternatives of each other: "`all`, `any` or `not`".
fn alternatives_of(message: &MessageDescriptor) -> Option<String> {
    let is_alternative = |field: &FieldDescriptor| field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic());
    let names: Vec<String> = message
        .fields()
        .filter(is_alternative)
        .map(|field| format!("`{}`", field.name()))
        .collect();
    let (last, first) = names.split_last()?;
    if names.len() < message.fields().len() {
        return None;
    }
    Some(if first.is_empty() {
        last.clone()
    } else {
        format!("{} or {last}", first.join(", "))
    })
}
