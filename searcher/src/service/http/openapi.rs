//! The OpenAPI document of the routes, made of the `.proto` files and their comments.

use std::collections::BTreeSet;

use dyad_proto::limits;
use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, FileDescriptor, Kind, MessageDescriptor};
use serde_json::{Map, Value, json};

use super::json::Format;
use crate::json_values::AS_TEXT;

/// Path, method of `dyad.v1.Searcher`.
const ROUTES: [(&str, &str); 5] = [
    ("/v1/search", "Search"),
    ("/v1/search/batch", "SearchBatch"),
    ("/v1/documents", "GetDocuments"),
    ("/v1/documents/sample", "SampleDocuments"),
    ("/v1/explain", "Explain"),
];

/// What is served: path, method of `dyad.v1.Admin`, whether it is of one index.
const SERVED: [(&str, &str, bool); 2] = [("/v1/indexes", "ListIndexes", false), ("/v1/status", "Status", true)];

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
    ("429", "Too much at once (RESOURCE_EXHAUSTED). `Retry-After` says when to try again."),
    ("499", "The call was cancelled (CANCELLED)."),
    ("500", "The searcher is at fault (INTERNAL)."),
    ("503", "Not now (UNAVAILABLE). `Retry-After` says when to try again."),
    ("504", "The deadline passed (DEADLINE_EXCEEDED)."),
];

/// The schema of an index's name.
fn index() -> Value {
    json!({"maxLength": limits::MAX_INDEX_NAME, "pattern": "^([A-Za-z0-9_-][A-Za-z0-9._-]*)?$"})
}

/// What validation asks of a field beyond its type: message, field, schema.
fn bounds() -> [(&'static str, &'static str, Value); 31] {
    let numbers = |minimum: u32, maximum: u32| json!({"minimum": minimum, "maximum": maximum});
    let items = |least: usize, most: usize| json!({"minItems": least, "maxItems": most});
    let text = |most: usize| json!({"minLength": 1, "maxLength": most, "pattern": "\\S"});
    [
        ("SearchRequest", "query", json!({"maxLength": limits::MAX_QUERY_BYTES})),
        ("SearchRequest", "k", numbers(1, limits::MAX_K)),
        ("SearchRequest", "offset", numbers(0, limits::MAX_K - 1)),
        ("SearchRequest", "ef", numbers(0, limits::MAX_EF)),
        ("SearchRequest", "rrf_k", numbers(0, limits::MAX_RRF_K)),
        ("SearchRequest", "fusion_depth", numbers(0, limits::MAX_K)),
        ("SearchRequest", "target_recall", json!({"exclusiveMinimum": 0, "exclusiveMaximum": 1})),
        ("SearchRequest", "dense_weight", numbers(0, 1)),
        ("SearchRequest", "document_weight", json!({"minimum": 0, "maximum": limits::MAX_DOCUMENT_WEIGHT})),
        ("SearchRequest", "vector", items(0, limits::MAX_DIM)),
        ("SearchRequest", "fingerprint", json!({"maxLength": limits::MAX_FINGERPRINT_BYTES})),
        ("SearchRequest", "fields", items(0, limits::MAX_FIELDS)),
        ("SearchRequest", "snippet_bytes", numbers(0, *limits::SNIPPET_BYTES.end())),
        ("SearchRequest", "surrounding_bytes", numbers(0, *limits::SURROUNDING_BYTES.end())),
        ("SearchRequest", "rerank_depth", numbers(0, limits::MAX_RERANK)),
        ("SearchRequest", "rerank_weight", numbers(0, 1)),
        ("SearchRequest", "index", index()),
        ("GetDocumentsRequest", "index", index()),
        ("GroupBy", "field", text(limits::MAX_FILTER_FIELD_BYTES)),
        ("GroupBy", "hits", numbers(0, limits::MAX_GROUP_HITS)),
        ("SearchBatchRequest", "requests", items(1, limits::MAX_BATCH)),
        ("GetDocumentsRequest", "keys", json!({"minItems": 1, "maxItems": limits::MAX_KEYS, "uniqueItems": true})),
        ("GetDocumentsRequest", "fields", items(0, limits::MAX_FIELDS)),
        ("SampleDocumentsRequest", "count", numbers(1, limits::MAX_SAMPLE)),
        ("SampleDocumentsRequest", "fields", items(0, limits::MAX_FIELDS)),
        ("SampleDocumentsRequest", "index", index()),
        ("ExplainRequest", "key", text(limits::MAX_KEY_BYTES)),
        ("FilterList", "filters", items(1, limits::MAX_FILTER_CONDITIONS)),
        ("FilterKeys", "keys", items(1, limits::MAX_FILTER_VALUES)),
        ("FieldOneOf", "values", items(1, limits::MAX_FILTER_VALUES)),
        ("FieldExists", "field", text(limits::MAX_FILTER_FIELD_BYTES)),
    ]
}

/// Fields without which a message is refused.
const REQUIRED: [(&str, &[&str]); 11] = [
    ("SearchRequest", &["mode", "k"]),
    ("GroupBy", &["field"]),
    ("SearchBatchRequest", &["requests"]),
    ("GetDocumentsRequest", &["keys"]),
    ("SampleDocumentsRequest", &["count"]),
    ("ExplainRequest", &["key", "search"]),
    ("FilterList", &["filters"]),
    ("FilterKeys", &["keys"]),
    ("FieldOneOf", &["field", "values"]),
    ("FieldExists", &["field"]),
    ("FieldEquals", &["field", "value"]),
];

/// Adds the bounds of a message's fields to its schema.
fn bound(name: &str, schema: &mut Value) {
    for (_, field, bounds) in bounds().into_iter().filter(|(message, ..)| *message == name) {
        if let (Value::Object(bounds), Some(Value::Object(field))) = (bounds, schema["properties"].get_mut(field)) {
            field.extend(bounds);
        }
    }
    if let Some((_, fields)) = REQUIRED.iter().find(|(message, _)| *message == name) {
        schema["required"] = json!(fields);
    }
}

/// The document.
pub(super) fn document(format: &Format) -> Value {
    let mut schemas = Schemas::default();
    let method = |service: &str, name: &str| {
        let found = format.pool.get_service_by_name(service);
        found.and_then(|service| service.methods().find(|method| method.name() == name))
    };
    let mut paths = Map::new();
    for (path, name) in ROUTES {
        let Some(method) = method("dyad.v1.Searcher", name) else { continue };
        let comment = comment(&method.parent_file(), method.path());
        let (input, output) = (schemas.reference(&method.input()), schemas.reference(&method.output()));
        paths.insert(path.to_owned(), json!({ "post": operation(name, &comment, &input, &output) }));
    }
    for (path, name, of_one_index) in SERVED {
        let Some(method) = method("dyad.v1.Admin", name) else { continue };
        let comment = comment(&method.parent_file(), method.path());
        let content = |schema: &Value| json!({"application/json": {"schema": schema}});
        let reply = json!({"description": "The reply.", "content": content(&schemas.reference(&method.output()))});
        let mut operation = json!({"operationId": name, "summary": comment, "responses": {"200": reply}});
        if of_one_index {
            let mut schema = index();
            schema["type"] = json!("string");
            let description = "The name of an index; the default one where it is absent.";
            operation["parameters"] =
                json!([{"name": "index", "in": "query", "description": description, "schema": schema}]);
            for (status, description) in ERRORS.iter().filter(|(status, _)| matches!(*status, "400" | "404" | "429")) {
                let error = json!({"$ref": "#/components/schemas/Error"});
                operation["responses"][status] = json!({"description": description, "content": content(&error)});
            }
        }
        paths.insert(path.to_owned(), json!({ "get": operation }));
    }
    schemas.schemas.insert(
        "Error".to_owned(),
        object(&json!({
            "error": object(&json!({
                "code": {"type": "integer", "description": "The HTTP status."},
                "status": {"type": "string", "description": "The name of the gRPC code."},
                "message": {"type": "string", "description": "What is wrong: field, expected, got."},
            }))
        })),
    );
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "dyad-searcher",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Dense retrieval, BM25 and the fusion of both. The same calls over gRPC are those of `dyad.v1.Searcher`.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas.schemas},
    })
}

fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn operation(name: &str, comment: &str, input: &Value, output: &Value) -> Value {
    let content = |schema: &Value| json!({"application/json": {"schema": schema}});
    let mut responses = Map::new();
    responses.insert("200".to_owned(), json!({"description": "The reply.", "content": content(output)}));
    for (status, description) in ERRORS {
        let error = json!({"$ref": "#/components/schemas/Error"});
        responses.insert(status.to_owned(), json!({"description": description, "content": content(&error)}));
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
    let locations = file.file_descriptor_proto().source_code_info.iter().flat_map(|info| &info.location);
    let found =
        locations.filter(|location| location.path == path).find_map(|location| location.leading_comments.as_ref());
    found.map(|comment| comment.split_whitespace().collect::<Vec<_>>().join(" ")).unwrap_or_default()
}

/// Schemas by name, of the messages and enums that were referred to.
#[derive(Default)]
struct Schemas {
    schemas: Map<String, Value>,
    begun: BTreeSet<String>,
}

impl Schemas {
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
        bound(message.name(), &mut schema);
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
            // `Mode` has no default.
            let values = names.values().filter(|value| value.name() != "MODE_UNSPECIFIED");
            let values: Vec<Value> = values.map(|value| json!(value.name())).collect();
            let of = |path: &[i32]| comment(&names.parent_file(), path);
            let mut lines = vec![of(names.path())];
            lines.extend(names.values().map(|value| format!("- `{}`: {}", value.name(), of(value.path()))));
            self.schemas
                .insert(name.clone(), json!({"type": "string", "enum": values, "description": lines.join("\n")}));
        }
        json!({ "$ref": format!("#/components/schemas/{name}") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_describes_every_field_with_its_comment() {
        let document = document(&Format::new().unwrap());
        let schemas = &document["components"]["schemas"];
        let request = &schemas["SearchRequest"]["properties"];
        assert_eq!(request["k"]["description"], "Hits wanted: 1 to 10000.");
        assert_eq!(request["vector"]["items"]["type"], "number");
        assert_eq!(request["filter"]["$ref"], "#/components/schemas/Filter");
        assert_eq!(schemas["Filter"]["maxProperties"], 1);
        assert_eq!((&request["k"]["minimum"], &request["k"]["maximum"]), (&json!(1), &json!(10_000)));
        for (message, field, bounds) in bounds() {
            for (name, value) in bounds.as_object().unwrap() {
                assert_eq!(schemas[message]["properties"][field][name], *value, "{message} {field}");
            }
        }
        for (message, fields) in REQUIRED {
            for field in fields {
                assert!(schemas[message]["properties"].get(*field).is_some(), "{message} {field}");
            }
        }
        assert!(schemas["Mode"]["description"].as_str().unwrap().contains("`MODE_BM25`: Okapi BM25"));
        let stored = &schemas["Document"]["properties"];
        assert!(stored.get("metadata").is_some() && stored.get("metadata_json").is_none());
        assert_eq!(document["paths"].as_object().unwrap().len(), ROUTES.len() + SERVED.len());
        assert_eq!(document["paths"]["/v1/indexes"]["get"]["summary"], "All indexes that are served.");
        assert_eq!(document["paths"]["/v1/status"]["get"]["parameters"][0]["name"], "index");
        assert_eq!(document["paths"]["/v1/search"]["post"]["summary"], "One question.");
        // Every reference leads somewhere.
        let text = document.to_string();
        let names = text.split("#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap());
        assert!(names.clone().count() > 20);
        for name in names {
            assert!(schemas.get(name).is_some(), "{name}");
        }
    }
}
