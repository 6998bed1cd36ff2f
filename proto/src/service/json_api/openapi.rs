//! The OpenAPI document of the routes, made of the `.proto` files and their comments.

use prost_reflect::MethodDescriptor;
use serde_json::{Map, Value, json};

pub use super::schema_rules::INDEX_NAME;
use super::schema_rules::text_rules;
use super::schemas::{Schemas, comment, method_of};
use crate::json::MessageJson;
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

impl OpenApi {
    /// The document.
    pub fn document(&self, json: &MessageJson) -> Value {
        let method_of = |route: &JsonRoute| method_of(json, route.service, route.method);
        let mut schemas = Schemas::new("#/components/schemas/");
        for method in self.routes.iter().filter_map(method_of) {
            schemas.add_sent(&method.input());
        }
        let mut paths = Map::new();
        for route in self.routes {
            let Some(method) = method_of(route) else { continue };
            let comment = comment(&method.parent_file(), method.path());
            let (input, output) = (schemas.reference(&method.input()), schemas.reference(&method.output()));
            let operation = operation(route.method, &comment, &input, &output);
            paths.insert(route.path.to_owned(), json!({ "post": operation }));
        }
        for served in self.served {
            let Some(method) = method_of(&served.route) else {
                continue;
            };
            let operation = served_operation(served, &method, &mut schemas);
            paths.insert(served.route.path.to_owned(), json!({ "get": operation }));
        }
        schemas.insert("Error", error_schema());
        json!({
            "openapi": "3.1.0",
            "info": {
                "title": self.title,
                "version": env!("CARGO_PKG_VERSION"),
                "description": self.description,
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "paths": paths,
            "components": {"schemas": schemas.into_map()},
        })
    }
}

/// The schema of errors.
fn error_schema() -> Value {
    let mut error = object(&json!({
        "code": {"type": "integer", "description": "The HTTP status."},
        "status": {"type": "string", "description": "The name of the gRPC code."},
        "message": {"type": "string", "description": "What is wrong: field, expected, got."},
    }));
    error["required"] = json!(["code", "status", "message"]);
    let mut schema = object(&json!({ "error": error }));
    schema["required"] = json!(["error"]);
    schema
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
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
