//! JSON Schemas of messages, made of the `.proto` files, their comments and what validation asks.

use std::collections::BTreeSet;

use prost_reflect::{
    Cardinality, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor, MethodDescriptor,
};
use serde_json::{Map, Value, json};

use super::schema_rules::add_rules;
use crate::json::{AS_TEXT, MessageJson};

/// The schemas of a method's request and of its reply, each whole in itself: an object, with what it refers to in
/// `$defs`.
#[derive(Debug)]
pub struct MethodSchemas {
    /// Of the request.
    pub input: Value,
    /// Of the reply.
    pub output: Value,
}

/// What the schema of a request has in place of what its message has.
#[derive(Debug)]
pub struct OfferedRequest {
    /// Whether a field of a message, by both names, is in the schema.
    pub offers: fn(&str, &str) -> bool,
    /// Schemas in place of those of messages, by their names.
    pub replaced: Map<String, Value>,
}

impl MethodSchemas {
    /// Of a method, by the full name of its service and its own; none where there is no such method.
    pub fn new(json: &MessageJson, service: &str, method: &str, offered: &OfferedRequest) -> Option<Self> {
        let method = method_of(json, service, method)?;
        let mut input = Schemas::new(DEFINED);
        input.offers = offered.offers;
        input.add_sent(&method.input());
        for (message, schema) in &offered.replaced {
            input.insert(message, schema.clone());
        }
        Some(Self {
            input: input.whole(&method.input()),
            output: Schemas::new(DEFINED).whole(&method.output()),
        })
    }
}

/// What references begin with in a schema that is whole in itself.
const DEFINED: &str = "#/$defs/";

/// A method, by the full name of its service and its own.
pub(super) fn method_of(json: &MessageJson, service: &str, method: &str) -> Option<MethodDescriptor> {
    let service = json.pool.get_service_by_name(service)?;
    service.methods().find(|one| one.name() == method)
}

/// The fields that a reply always has: all but those that may be absent, and values that come as they were stored.
fn always_written(message: &MessageDescriptor) -> Value {
    let is_written = |field: &FieldDescriptor| !field.supports_presence() && !field.name().ends_with(AS_TEXT);
    message
        .fields()
        .filter(is_written)
        .map(|field| field.name().to_owned())
        .collect()
}

/// The comment before something in a `.proto` file, without line breaks.
pub(super) fn comment(file: &FileDescriptor, path: &[i32]) -> String {
    let locations = file
        .file_descriptor_proto()
        .source_code_info
        .iter()
        .flat_map(|info| &info.location);
    let found = locations
        .filter(|location| location.path == path)
        .find_map(|location| location.leading_comments.as_ref());
    found
        .map(|comment| comment.split_whitespace().collect::<Vec<_>>().join(" "))
        .unwrap_or_default()
}

/// Schemas by name, of the messages and enums that were referred to.
pub(super) struct Schemas {
    /// What references begin with.
    place: &'static str,
    by_name: Map<String, Value>,
    begun: BTreeSet<String>,
    /// Messages that clients send, or that are parts of those.
    sent: BTreeSet<String>,
    offers: fn(&str, &str) -> bool,
}

impl Schemas {
    /// None yet. `place`: where they will be in their document, as references begin.
    pub(super) fn new(place: &'static str) -> Self {
        Self {
            place,
            by_name: Map::new(),
            begun: BTreeSet::new(),
            sent: BTreeSet::new(),
            offers: |_, _| true,
        }
    }

    /// A message that clients send, with all messages in it: their schemas have what validation asks of them.
    pub(super) fn add_sent(&mut self, message: &MessageDescriptor) {
        if self.sent.insert(message.name().to_owned()) {
            for field in message.fields() {
                if let Kind::Message(inner) = field.kind() {
                    self.add_sent(&inner);
                }
            }
        }
    }

    /// A schema by its name, in place of that of a message of this name.
    pub(super) fn insert(&mut self, name: &str, schema: Value) {
        self.begun.insert(name.to_owned());
        self.by_name.insert(name.to_owned(), schema);
    }

    /// All of them, by name.
    pub(super) fn into_map(self) -> Map<String, Value> {
        self.by_name
    }

    fn referred(&self, name: &str) -> Value {
        json!({ "$ref": format!("{}{name}", self.place) })
    }

    /// A reference to a message, whose schema is there afterwards.
    pub(super) fn reference(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.name().to_owned();
        if self.begun.insert(name.clone()) {
            let schema = self.message(message);
            self.by_name.insert(name.clone(), schema);
        }
        self.referred(&name)
    }

    /// The schema of a message, which has the others with it.
    fn whole(mut self, message: &MessageDescriptor) -> Value {
        let mut schema = self.message(message);
        if !self.by_name.is_empty() {
            schema["$defs"] = Value::Object(self.by_name);
        }
        schema
    }

    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        let offers = self.offers;
        for field in message.fields().filter(|field| offers(message.name(), field.name())) {
            let comment = comment(&field.parent_message().parent_file(), field.path());
            let (name, mut schema) = match field.name().strip_suffix(AS_TEXT) {
                // Any value.
                Some(name) => (name, json!({})),
                None => (field.name(), self.field(&field)),
            };
            if !comment.is_empty() {
                schema["description"] = Value::String(comment);
            }
            properties.insert(name.to_owned(), schema);
        }
        let mut schema = json!({"type": "object", "properties": properties, "additionalProperties": false});
        let comment = comment(&message.parent_file(), message.path());
        if !comment.is_empty() {
            schema["description"] = Value::String(comment);
        }
        // A message of one choice, like a filter's condition.
        if message.fields().len() > 0 && message.fields().all(|field| field.containing_oneof().is_some()) {
            (schema["minProperties"], schema["maxProperties"]) = (json!(1), json!(1));
        }
        if self.sent.contains(message.name()) {
            add_rules(message, &mut schema);
        } else {
            schema["required"] = always_written(message);
        }
        schema
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let one = match field.kind() {
            Kind::Double | Kind::Float => json!({"type": "number"}),
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!({"type": "integer", "format": "int32"}),
            Kind::Uint32 | Kind::Fixed32 => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => json!({"type": "integer", "format": "int64"}),
            Kind::Uint64 | Kind::Fixed64 => json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
            Kind::Bool => json!({"type": "boolean"}),
            Kind::String => json!({"type": "string"}),
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
            Kind::Message(message) => self.reference(&message),
            Kind::Enum(names) => self.names(&names),
        };
        match field.cardinality() {
            Cardinality::Repeated => json!({"type": "array", "items": one}),
            Cardinality::Optional | Cardinality::Required => one,
        }
    }

    fn names(&mut self, names: &EnumDescriptor) -> Value {
        let name = names.name().to_owned();
        if self.begun.insert(name.clone()) {
            // Left out by requests that leave the choice to the server, and in no reply.
            let values = names.values().filter(|value| value.name() != "MODE_UNSPECIFIED");
            let values: Vec<Value> = values.map(|value| json!(value.name())).collect();
            let of = |path: &[i32]| comment(&names.parent_file(), path);
            let mut lines = vec![of(names.path())];
            lines.extend(
                names
                    .values()
                    .map(|value| format!("- `{}`: {}", value.name(), of(value.path()))),
            );
            self.by_name.insert(
                name.clone(),
                json!({"type": "string", "enum": values, "description": lines.join("\n")}),
            );
        }
        self.referred(&name)
    }
}
