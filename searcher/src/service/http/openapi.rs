//! What the OpenAPI document of the searcher describes.

use dyad_proto::service::json_api::openapi::{JsonRoute, OpenApi, ServedMessage};

/// The document of the routes.
pub(super) const SEARCHER: OpenApi = OpenApi {
    title: "dyad-searcher",
    description: "Dense retrieval, BM25 and the fusion of both. The same calls over gRPC are those of `dyad.v1.Searcher`.",
    routes: &[
        searcher("/v1/search", "Search"),
        searcher("/v1/search/batch", "SearchBatch"),
        searcher("/v1/documents", "GetDocuments"),
        searcher("/v1/documents/sample", "SampleDocuments"),
        searcher("/v1/scroll", "ScrollDocuments"),
        searcher("/v1/count", "CountDocuments"),
        searcher("/v1/explain", "Explain"),
    ],
    served: &[
        ServedMessage {
            route: searcher("/v1/fields", "ListFields"),
            is_of_one_index: true,
        },
        ServedMessage {
            route: admin("/v1/indexes", "ListIndexes"),
            is_of_one_index: false,
        },
        ServedMessage {
            route: admin("/v1/status", "Status"),
            is_of_one_index: true,
        },
    ],
};

const fn searcher(path: &'static str, method: &'static str) -> JsonRoute {
    JsonRoute {
        path,
        service: "dyad.v1.Searcher",
        method,
    }
}

const fn admin(path: &'static str, method: &'static str) -> JsonRoute {
    JsonRoute {
        path,
        service: "dyad.v1.Admin",
        method,
    }
}

#[cfg(test)]
mod tests {
    use dyad_filter::message_json;
    use dyad_proto::rules::RULED_FIELDS;
    use dyad_proto::service::json_api::openapi::INDEX_NAME;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_document_describes_every_field_with_its_comment() {
        let document = SEARCHER.document(&message_json().unwrap());
        let schemas = &document["components"]["schemas"];
        let request = &schemas["SearchRequest"]["properties"];
        assert_eq!(request["k"]["description"], "Hits wanted; 0: 10.");
        assert_eq!(request["vector"]["items"]["type"], "number");
        assert_eq!(request["filter"]["$ref"], "#/components/schemas/Filter");
        assert_eq!(schemas["Filter"]["maxProperties"], 1);
        assert_eq!(
            (&request["k"]["minimum"], &request["k"]["maximum"]),
            (&json!(0), &json!(10_000))
        );
        assert_eq!(schemas["SearchRequest"].get("required"), None);
        assert_eq!(
            (&request["mode"]["default"], &request["k"]["default"]),
            (&Value::Null, &json!(10))
        );
        assert_eq!(request["target_recall"]["exclusiveMaximum"], json!(1));
        assert_eq!(
            (
                &request["snippet_bytes"]["minimum"],
                &request["snippet_bytes"]["maximum"]
            ),
            (&json!(0), &json!(4096))
        );
        assert_eq!(
            (&request["fields"]["maxItems"], &request["fields"]["items"]["maxLength"]),
            (&json!(64), &json!(256))
        );
        assert_eq!(
            (&request["index"]["maxLength"], &request["index"]["pattern"]),
            (&json!(64), &json!(INDEX_NAME))
        );
        let keys = &schemas["GetDocumentsRequest"]["properties"]["keys"];
        assert_eq!((&keys["minItems"], &keys["uniqueItems"]), (&json!(1), &json!(true)));
        // Each rule of a message that the routes take has become a keyword.
        for ruled in RULED_FIELDS.iter().filter(|ruled| schemas.get(ruled.message).is_some()) {
            let schema = &schemas[ruled.message];
            let property = &schema["properties"][ruled.field];
            let is_required = schema["required"]
                .as_array()
                .is_some_and(|all| all.contains(&json!(ruled.field)));
            assert_eq!(is_required, ruled.rules.required, "{ruled:?}");
            let bounds = [
                (ruled.rules.maximum.is_some(), ["maximum", "exclusiveMaximum"]),
                (ruled.rules.max_items.is_some(), ["maxItems", "maxItems"]),
            ];
            for (is_given, keywords) in bounds {
                let is_there = keywords.iter().any(|keyword| property.get(keyword).is_some());
                assert!(is_there || !is_given, "{ruled:?}: {property}");
            }
            let text = if property["type"] == "array" {
                &property["items"]
            } else {
                property
            };
            assert!(
                ruled.rules.max_bytes.is_none() || text["maxLength"] == json!(ruled.rules.max_bytes),
                "{ruled:?}"
            );
        }
        assert!(
            schemas["Mode"]["description"]
                .as_str()
                .unwrap()
                .contains("`MODE_BM25`: Okapi BM25")
        );
        let stored = &schemas["Document"]["properties"];
        assert!(stored.get("metadata").is_some() && stored.get("metadata_json").is_none());
        assert_eq!(
            document["paths"].as_object().unwrap().len(),
            SEARCHER.routes.len() + SEARCHER.served.len()
        );
        assert_eq!(
            document["paths"]["/v1/indexes"]["get"]["summary"],
            "All indexes that are served."
        );
        assert_eq!(document["paths"]["/v1/status"]["get"]["parameters"][0]["name"], "index");
        assert_eq!(document["paths"]["/v1/search"]["post"]["summary"], "One question.");
        // Every reference leads somewhere.
        let text = document.to_string();
        let names = text
            .split("#/components/schemas/")
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap());
        assert!(names.clone().count() > 20);
        for name in names {
            assert!(schemas.get(name).is_some(), "{name}");
        }
    }
}
