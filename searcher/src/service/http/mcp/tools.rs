//! The tools: names, descriptions, and the schemas of their arguments and results, which are those of the messages that
//! gRPC takes and gives.

use dyad_proto::json::MessageJson;
use dyad_proto::service::json_api::{MethodSchemas, OfferedRequest};
use serde_json::{Map, Value, json};

use super::message::Params;
use super::rpc_error::{RpcError, beginning};

/// What a client may tell a model of the server.
pub(super) const INSTRUCTIONS: &str = "Indexes of documents: `search` finds passages for a question, `get` reads whole documents by \
    the keys of hits, `explain` says why a document is or is not among the hits. Cite documents by their keys.";

/// Bytes of each hit's text, unless the arguments say otherwise: models pay for every word.
pub(super) const TEXT_BYTES: u32 = 4096;

/// Fields of a search that a model may give. The others are vectors, ids and the tuning of a ranking.
pub(super) const SEARCH_FIELDS: [&str; 13] = [
    "query",
    "mode",
    "k",
    "filter",
    "offset",
    "score_threshold",
    "fields",
    "snippet_bytes",
    "group_by",
    "index",
    "rerank_depth",
    "surrounding_bytes",
    "max_text_bytes",
];

const FILTER: &str = "Only documents that match. A condition as text (`year>=2020`, `lang=en`, `title^=A`), or an object of fields and \
    values, of which all must match: `{\"lang\": [\"en\", \"de\"], \"year\": {\">=\": 2020}}` with `=`, `!=`, `>`, `>=`, `<`, `<=`, \
    `^=` (begins with), `in`, `exists`; or a list of these. Fields are `key`, `title` and those of the metadata.";

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Search,
    Get,
    Explain,
}

impl Tool {
    const ALL: [Self; 3] = [Self::Search, Self::Get, Self::Explain];

    /// The tool that parameters name.
    pub(super) fn of(params: &Params) -> Result<Self, RpcError> {
        let name = params.text("name").unwrap_or_default();
        Self::ALL.into_iter().find(|tool| tool.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(|tool| format!("`{}`", tool.name())).join(", ");
            let message = format!("`params.name`: expected one of {known}, got `{}`", beginning(&name));
            RpcError::invalid_params(message)
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Get => "get",
            Self::Explain => "explain",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Search => "Search documents",
            Self::Get => "Get documents",
            Self::Explain => "Explain a hit",
        }
    }

    fn description(self) -> String {
        match self {
            Self::Search => format!(
                "Finds the documents that answer a question, by meaning, by words (BM25), or by both. Gives keys, scores and passages, \
                 each of at most {TEXT_BYTES} bytes unless `max_text_bytes` says otherwise; `get` gives whole documents."
            ),
            Self::Get => "Reads documents by their keys: title, text and metadata, or those of `fields`.".to_owned(),
            Self::Explain => "Says why a document is, or is not, among the hits of a search: its places by meaning and by words, and which \
                              words count."
                .to_owned(),
        }
    }

    fn method(self) -> &'static str {
        match self {
            Self::Search => "Search",
            Self::Get => "GetDocuments",
            Self::Explain => "Explain",
        }
    }

    /// The call that it is, as gRPC names it.
    pub(super) fn call(self) -> &'static str {
        match self {
            Self::Search => "Searcher.Search",
            Self::Get => "Searcher.GetDocuments",
            Self::Explain => "Searcher.Explain",
        }
    }

    /// Where the schema of its arguments has the name of the index.
    fn index_at(self) -> &'static str {
        match self {
            Self::Search | Self::Get => "/inputSchema/properties/index",
            Self::Explain => "/inputSchema/$defs/SearchRequest/properties/index",
        }
    }

    fn definition(self, json: &MessageJson, offered: &OfferedRequest) -> Option<Value> {
        let schemas = MethodSchemas::new(json, "dyad.v1.Searcher", self.method(), offered)?;
        let mut input = schemas.input;
        if self == Self::Search {
            add_to_search(&mut input);
        } else if let Some(search) = input.pointer_mut("/$defs/SearchRequest") {
            add_to_search(search);
        }
        require_filled(&mut input);
        Some(json!({
            "name": self.name(),
            "title": self.title(),
            "description": self.description(),
            "inputSchema": input,
            "outputSchema": schemas.output,
            "annotations": {"title": self.title(), "readOnlyHint": true, "openWorldHint": false},
        }))
    }
}

/// Whether a field of a message is one of a tool's arguments.
fn is_offered(message: &str, field: &str) -> bool {
    message != "SearchRequest" || SEARCH_FIELDS.contains(&field)
}

/// What is other than in a search by the other routes: without vectors a question is needed, and texts end somewhere.
fn add_to_search(schema: &mut Value) {
    schema["required"] = json!(["query"]);
    schema["properties"]["max_text_bytes"]["default"] = json!(TEXT_BYTES);
}

/// Texts that may not be blank are required.
fn require_filled(schema: &mut Value) {
    let filled = |(_, property): &(&String, &Value)| property.get("minLength").is_some();
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    let names: Vec<Value> = properties.iter().filter(filled).map(|(name, _)| json!(name)).collect();
    match &mut schema["required"] {
        Value::Array(required) => {
            let missing: Vec<Value> = names.into_iter().filter(|name| !required.contains(name)).collect();
            required.extend(missing);
        }
        none => *none = Value::Array(names),
    }
}

/// All tools.
#[derive(Debug)]
pub(super) struct ToolList(Vec<Value>);

impl ToolList {
    /// None where a tool has no method.
    pub(super) fn new(json: &MessageJson) -> Option<Self> {
        let filter = json!({"anyOf": [{"type": "string"}, {"type": "object"}, {"type": "array"}]});
        let offered = OfferedRequest {
            offers: is_offered,
            replaced: Map::from_iter([("Filter".to_owned(), filter)]),
        };
        let mut tools: Vec<Value> = Tool::ALL
            .into_iter()
            .map(|tool| tool.definition(json, &offered))
            .collect::<Option<_>>()?;
        for tool in &mut tools {
            for at in ["/inputSchema", "/inputSchema/$defs/SearchRequest"] {
                if let Some(filter) = tool
                    .pointer_mut(at)
                    .and_then(|schema| schema["properties"].get_mut("filter"))
                {
                    filter["description"] = json!(FILTER);
                }
            }
        }
        Some(Self(tools))
    }

    /// As a client is told them; `indexes` says which there are.
    pub(super) fn told(&self, indexes: &str) -> Value {
        let mut told = self.0.clone();
        for (tool, definition) in Tool::ALL.into_iter().zip(&mut told) {
            if let Some(index) = definition.pointer_mut(tool.index_at()) {
                index["description"] = json!(format!("The index; empty: the default one. {indexes}"));
            }
        }
        Value::Array(told)
    }
}

#[cfg(test)]
mod tests {
    use dyad_filter::message_json;
    use dyad_proto::rules::field_rules;

    use super::*;

    fn tools() -> Value {
        ToolList::new(&message_json().unwrap()).unwrap().told("Indexes: `a`.")
    }

    #[test]
    fn the_schemas_are_those_of_the_messages() {
        let tools = tools();
        let search = &tools[0]["inputSchema"];
        let properties = search["properties"].as_object().unwrap();
        let mut names: Vec<&str> = properties.keys().map(String::as_str).collect();
        let mut expected = SEARCH_FIELDS.to_vec();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
        let k = field_rules("SearchRequest", "k").unwrap();
        assert_eq!(properties["k"]["maximum"], json!(k.maximum.unwrap() as u64));
        assert_eq!(properties["k"]["description"], "Hits wanted; 0: 10.");
        assert_eq!(properties["max_text_bytes"]["default"], TEXT_BYTES);
        assert_eq!(search["additionalProperties"], false);
        assert_eq!(tools[1]["inputSchema"]["required"], json!(["keys"]));
        assert_eq!(tools[1]["inputSchema"]["properties"]["keys"]["maxItems"], 1024);
        let explain = &tools[2]["inputSchema"];
        assert_eq!(explain["required"], json!(["key", "search"]));
        assert_eq!(explain["$defs"]["SearchRequest"]["properties"]["k"], properties["k"]);
        for (tool, index) in [
            (0, "/properties/index"),
            (1, "/properties/index"),
            (2, "/$defs/SearchRequest/properties/index"),
        ] {
            let index = &tools[tool]["inputSchema"].pointer(index).unwrap()["description"];
            assert_eq!(*index, json!("The index; empty: the default one. Indexes: `a`."));
        }
    }

    #[test]
    fn every_reference_is_inside_and_models_pay_little_for_the_arguments() {
        for tool in tools().as_array().unwrap() {
            for schema in ["inputSchema", "outputSchema"] {
                let schema = &tool[schema];
                assert_eq!(schema["type"], "object");
                let text = schema.to_string();
                for name in text.split("\"$ref\":\"").skip(1) {
                    let name = name.split('"').next().unwrap();
                    assert!(schema.pointer(name.trim_start_matches('#')).is_some(), "{name}");
                }
            }
            let bytes = tool["inputSchema"].to_string().len();
            assert!(bytes < 8 << 10, "{}: {bytes}", tool["name"]);
        }
    }
}
