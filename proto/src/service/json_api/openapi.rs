//! The OpenAPI document of the routes, made of the `.proto` files and their comments.

use std::collections::BTreeSet;

use prost_reflect::{
    Cardinality, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor, MethodDescriptor,
};
use serde_json::{Map, Value, json};

use crate::json::{AS_TEXT, MessageJson};
use crate::rules::{STATUS_REQUEST_INDEX, field_rules};
use crate::v1::FieldRules;

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

/// The names of indexes, and none for the default one, as a pattern.
pub const INDEX_NAME: &str = "^([A-Za-z0-9_-][A-Za-z0-9._-]*)?$";

/// Adds what validation asks of a message's fields beyond their types.
fn add_rules(message: &MessageDescriptor, schema: &mut Value) {
    let mut required = Vec::new();
    for field in message.fields() {
        let Some(rules) = field_rules(message.name(), field.name()) else {
            continue;
        };
        if rules.required {
            required.push(field.name().to_owned());
        }
        let property = &mut schema["properties"][field.name()];
        if field.is_list() {
            add_to(property, &list_rules(&rules));
            if field.kind() == Kind::String {
                add_to(&mut property["items"], &text_rules(&rules));
            }
        } else if field.kind() == Kind::String {
            add_to(property, &text_rules(&rules));
        } else {
            add_to(property, &number_rules(&rules));
        }
        // Of an enum it may depend on other fields, as its comment says: clients should not send it of themselves.
        if let (Some(default), false) = (rules.default, matches!(field.kind(), Kind::Enum(_))) {
            property["default"] = json!(default);
        }
    }
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
}

/// Adds the keywords of one schema to another.
fn add_to(schema: &mut Value, keywords: &Value) {
    if let (Value::Object(schema), Value::Object(keywords)) = (schema, keywords) {
        schema.extend(keywords.clone());
    }
}

/// The rules of a list's entries together.
fn list_rules(rules: &FieldRules) -> Value {
    let mut keywords = json!({"minItems": u32::from(rules.required)});
    if let Some(most) = rules.max_items {
        keywords["maxItems"] = json!(most);
    }
    if rules.unique {
        keywords["uniqueItems"] = json!(true);
    }
    keywords
}

/// The rules of a text.
fn text_rules(rules: &FieldRules) -> Value {
    let mut keywords = json!({});
    if let Some(most) = rules.max_bytes {
        keywords["maxLength"] = json!(most);
    }
    if rules.not_blank {
        (keywords["minLength"], keywords["pattern"]) = (json!(1), json!("\\S"));
    }
    if rules.index_name {
        keywords["pattern"] = json!(INDEX_NAME);
    }
    keywords
}

/// The rules of a number.
fn number_rules(rules: &FieldRules) -> Value {
    let mut keywords = json!({});
    let (least, most) = if rules.exclusive {
        ("exclusiveMinimum", "exclusiveMaximum")
    } else {
        ("minimum", "maximum")
    };
    if let Some(minimum) = rules.minimum {
        let takes_zero = rules.zero_or().is_some() || rules.default.is_some();
        keywords[least] = if takes_zero { json!(0) } else { shortest(minimum) };
    }
    if let Some(maximum) = rules.maximum {
        keywords[most] = shortest(maximum);
    }
    keywords
}

/// A number, without a fraction where it is whole.
fn shortest(number: f64) -> Value {
    if number.fract() == 0.0 {
        json!(number as i64)
    } else {
        json!(number)
    }
}

impl OpenApi {
    /// The document.
    pub fn document(&self, json: &MessageJson) -> Value {
        let mut schemas = Schemas::default();
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
            "components": {"schemas": schemas.schemas},
        })
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
    schemas: Map<String, Value>,
    begun: BTreeSet<String>,
}

impl Schemas {
    /// The schema of errors.
    fn add_error(&mut self) {
        let error = object(&json!({
            "code": {"type": "integer", "description": "The HTTP status."},
            "status": {"type": "string", "description": "The name of the gRPC code."},
            "message": {"type": "string", "description": "What is wrong: field, expected, got."},
        }));
        self.schemas
            .insert("Error".to_owned(), object(&json!({ "error": error })));
    }

    /// A reference to a message, whose schema is there afterwards.
    fn reference(&mut self, message: &MessageDescriptor) -> Value {
        let name = message.name().to_owned();
        if self.begun.insert(name.clone()) {
            let schema = self.message(message);
            self.schemas.insert(name.clone(), schema);
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
        add_rules(message, &mut schema);
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
            self.schemas.insert(
                name.clone(),
                json!({"type": "string", "enum": values, "description": lines.join("\n")}),
            );
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }
}
