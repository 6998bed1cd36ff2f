//! The OpenAPI document of the routes, made of the `.proto` files and their comments.

use std::collections::BTreeSet;

use prost_reflect::{
    Cardinality, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor, MethodDescriptor,
};
use serde_json::{Map, Value, json};

pub use super::schema_rules::INDEX_NAME;
use super::schema_rules::{add_rules, text_rules};
use crate::json::{AS_TEXT, MessageJson};
use crate::rules::STATUS_REQUEST_INDEX;

/// A route that is a method of gRPC.
#[derive(Debug, Clone, Copy)]
pub struct JsonRoute {
    /// Its path.
    pub path: &'static str,
    /// Full name of the service.
    pub service: &'static str,
    /// Name of the method.
    pub method: &'static str,
}

/// A message that is got without a request.
#[derive(Debug, Clone, Copy)]
pub struct ServedMessage {
    /// The method of gRPC that has it as its reply.
    pub route: JsonRoute,
    /// Whether a query may name an index.
    pub is_of_one_index: bool,
}

/// What a server's document describes.
#[derive(Debug, Clone, Copy)]
pub struct OpenApi {
    /// Name of the program.
    pub title: &'static str,
    /// What it does.
    pub description: &'static str,
    /// Routes that take a request.
    pub routes: &'static [JsonRoute],
    /// Routes that take none.
    pub served: &'static [ServedMessage],
}

/// HTTP statuses of errors, and when they come.
const ERRORS: [(&str, &str); 10] = [
    (
        "400",
        "The request is wrong (INVALID_ARGUMENT, OUT_OF_RANGE), or the index is another one (FAILED_PRECONDITION).",
    ),
    ("404", "No such document or index (NOT_FOUND)."),
    ("408", "The request's body did not arrive in time."),
    ("413", "The request's body is too large."),
    ("415", "The request's body is not `application/json`."),
    (
        "429",
        "Too much at once (RESOURCE_EXHAUSTED). `Retry-After` says when to try again.",
    ),
    ("499", "The call was cancelled (CANCELLED)."),
    ("500", "The server is at fault (INTERNAL)."),
    ("503", "Not now (UNAVAILABLE). `Retry-After` says when to try again."),
    ("504", "The deadline passed (DEADLINE_EXCEEDED)."),
];

/// The fields that a reply always has: all but those that may be absent, and values that come as they were stored.
fn always_written(message: &MessageDescriptor) -> Value {
    let is_written = |field: &FieldDescriptor| !field.supports_presence() && !field.name().ends_with(AS_TEXT);
    message
        .fields()
        .filter(is_written)
        .map(|field| field.name().to_owned())
        .collect()
}

impl OpenApi {
    /// The document.
    pub fn document(&self, json: &MessageJson) -> Value {
        let inputs = self.routes.iter().filter_map(|route| method_of(json, route));
        let mut schemas = Schemas {
            sent: inputs.fold(BTreeSet::new(), |mut sent, method| {
                add_message(&mut sent, &method.input());
                sent
            }),
            ..Schemas::default()
        };
        let mut paths = Map::new();
        for route in self.routes {
            let Some(method) = method_of(json, route) else { continue };
            let comment = comment(&method.parent_file(), method.path());
            let (input, output) = (schemas.reference(&method.input()), schemas.reference(&method.output()));
            let operation = operation(route.method, &comment, &input, &output);
            paths.insert(route.path.to_owned(), json!({ "post": operation }));
        }
        for served in self.served {
            let Some(method) = method_of(json, &served.route) else {
                continue;
            };
            let operation = served_operation(served, &method, &mut schemas);
            paths.insert(served.route.path.to_owned(), json!({ "get": operation }));
        }
        schemas.add_error();
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": self.title,
                "version": env!("CARGO_PKG_VERSION"),
                "description": self.description,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "paths": paths,
            "components": {"schemas": schemas.by_name},
        })
    }
}

/// Adds the names of a message and of all messages in it.
fn add_message(names: &mut BTreeSet<String>, message: &MessageDescriptor) {
    if names.insert(message.name().to_owned()) {
        for field in message.fields() {
            if let Kind::Message(inner) = field.kind() {
                add_message(names, &inner);
            }
        }
    }
}

fn method_of(json: &MessageJson, route: &JsonRoute) -> Option<MethodDescriptor> {
    let service = json.pool.get_service_by_name(route.service)?;
    service.methods().find(|method| method.name() == route.method)
}

fn served_operation(served: &ServedMessage, method: &MethodDescriptor, schemas: &mut Schemas) -> Value {
    let comment = comment(&method.parent_file(), method.path());
    let content = |schema: &Value| json!({"application/json": {"schema": schema}});
    let reply = json!({"description": "The reply.", "content": content(&schemas.reference(&method.output()))});
    let mut operation = json!({"operationId": served.route.method, "summary": comment, "responses": {"200": reply}});
    if served.is_of_one_index {
        let mut schema = text_rules(&STATUS_REQUEST_INDEX);
        schema["type"] = json!("string");
        let description = "The name of an index; the default one where it is absent.";
        operation["parameters"] =
            json!([{"name": "index", "in": "query", "description": description, "schema": schema}]);
        for (status, description) in ERRORS
            .iter()
            .filter(|(status, _)| matches!(*status, "400" | "404" | "429"))
        {
            let error = json!({"$ref": "#/components/schemas/Error"});
            operation["responses"][status] = json!({"description": description, "content": content(&error)});
        }
    }
    operation
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn operation(name: &str, comment: &str, input: &Value, output: &Value) -> Value {
    let content = |schema: &Value| json!({"application/json": {"schema": schema}});
    let mut responses = Map::new();
    responses.insert(
        "200".to_owned(),
        json!({"description": "The reply.", "content": content(output)}),
    );
    for (status, description) in ERRORS {
        let error = json!({"$ref": "#/components/schemas/Error"});
        responses.insert(
            status.to_owned(),
            json!({"description": description, "content": content(&error)}),
        );
    }
    json!({
        "operationId": name,
        "summary": comment,
        "parameters": [{
            "name": "X-Request-Timeout",
            "in": "header",
            "description": "Seconds that the call may take, with a fraction where wanted; the server's own default where it is absent.",
            "schema": {"type": "number", "exclusiveMinimum": 0},
        }],
        "requestBody": {"required": true, "content": content(input)},
        "responses": responses,
    })
}

/// The comment before something in a `.proto` file, without line breaks.
fn comment(file: &FileDescriptor, path: &[i32]) -> String {
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
#[derive(Default)]
struct Schemas {
    by_name: Map<String, Value>,
    begun: BTreeSet<String>,
    /// Messages that clients send, or that are parts of those.
    sent: BTreeSet<String>,
}

impl Schemas {
    /// The schema of errors.
    fn add_error(&mut self) {
        let mut error = object(&json!({
            "code": {"type": "integer", "description": "The HTTP status."},
            "status": {"type": "string", "description": "The name of the gRPC code."},
            "message": {"type": "string", "description": "What is wrong: field, expected, got."},
        }));
        error["required"] = json!(["code", "status", "message"]);
        let mut schema = object(&json!({ "error": error }));
        schema["required"] = json!(["error"]);
        self.by_name.insert("Error".to_owned(), schema);
    }

    /// A reference to a message, whose schema is there afterwards.
    fn reference(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.name().to_owned();
        if self.begun.insert(name.clone()) {
            let schema = self.message(message);
            self.by_name.insert(name.clone(), schema);
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }

    fn message(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        for field in message.fields() {
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
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }
}
