//! Tenants whose ids are whole numbers of 64 bits and more, each of which shares its nearest double with another: by
//! every call, over gRPC and HTTP, by keys and by requests; and documents that are found by their own values.

use std::collections::BTreeSet;

use dyad_proto::access::Role;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value;
use dyad_proto::v1::{self, Mode};
use serde_json::json;
use tonic::Code;

use crate::fields::{TENANTS, metadata, tenant};
use crate::fixture::{DOCUMENTS, documents, request};
use crate::guarded::{code, guarded};
use crate::http_client::Reply;

/// From here on one double stands for several whole numbers.
const FIRST_AMBIGUOUS: f64 = 9_007_199_254_740_992.0;
const QUERY: &str = "the deep planet number 20";

fn equals(field: &str, value: Value) -> v1::Filter {
    let value = Some(v1::FilterValue { value: Some(value) });
    v1::Filter {
        condition: Some(Condition::Equals(v1::FieldEquals {
            field: field.into(),
            value,
        })),
    }
}

fn range(min: &str, max: &str) -> v1::Filter {
    let end = |digits: &str| {
        Some(v1::FilterValue {
            value: Some(Value::Integer(digits.into())),
        })
    };
    let range = v1::FieldRange {
        field: "tenant".into(),
        min: end(min),
        max: end(max),
        ..Default::default()
    };
    v1::Filter {
        condition: Some(Condition::Range(range)),
    }
}

/// Keys of a tenant's documents.
fn of_tenant(id: &str) -> BTreeSet<String> {
    documents()
        .into_iter()
        .map(|(key, _)| key)
        .filter(|key| tenant(key) == id)
        .collect()
}

fn keys_of(hits: &[v1::Hit]) -> BTreeSet<String> {
    hits.iter().map(|hit| hit.key.clone()).collect()
}

fn keys_in(list: &serde_json::Value) -> BTreeSet<String> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|one| one["key"].as_str().unwrap().to_owned())
        .collect()
}

fn all_keys() -> Vec<String> {
    documents().into_iter().map(|(key, _)| key).collect()
}

#[tokio::test]
async fn a_key_for_a_tenant_sees_no_neighbour_by_any_call() {
    let server = guarded().await;
    for id in TENANTS {
        let (mine, filter) = (of_tenant(id), equals("tenant", Value::Integer(id.into())));
        assert!(!mine.is_empty());
        let not_others = v1::Filter {
            condition: Some(Condition::Not(Box::new(filter.clone()))),
        };
        let not_others = v1::Filter {
            condition: Some(Condition::Not(Box::new(not_others))),
        };
        let is_tried_otherwise = ["1234567890123456789", "18446744073709551615", "9007199254740993"].contains(&id);
        let others = [range(id, id), not_others].into_iter().filter(|_| is_tried_otherwise);
        for filter in std::iter::once(filter).chain(others) {
            let key = server.key(Role::Read, &["all"], Some(filter)).await;
            let client = server.searcher(&key).await;
            for mode in [Mode::Dense, Mode::Bm25, Mode::Hybrid] {
                let asked = request(mode, QUERY, 60);
                let reply = client.search(asked.clone()).await.unwrap();
                assert_eq!(keys_of(&reply.hits), mine, "{id} {mode:?}");
                let batch = v1::SearchBatchRequest { requests: vec![asked] };
                assert_eq!(
                    keys_of(&client.search_batch(batch).await.unwrap().responses[0].hits),
                    mine
                );
            }
            let wanted = v1::GetDocumentsRequest {
                keys: all_keys(),
                ..Default::default()
            };
            let got = client.get_documents(wanted).await.unwrap();
            assert_eq!(
                got.documents
                    .iter()
                    .map(|document| document.key.clone())
                    .collect::<BTreeSet<_>>(),
                mine
            );
            assert!(
                got.documents
                    .iter()
                    .all(|document| document.metadata_json == metadata(&document.key))
            );
            let sample = v1::SampleDocumentsRequest {
                count: 60,
                ..Default::default()
            };
            assert_eq!(client.sample_documents(sample).await.unwrap().of, mine.len() as u64);
            let page = client.scroll_documents(v1::ScrollDocumentsRequest::default()).await;
            let page = page.unwrap().documents.into_iter().filter_map(|one| one.document);
            assert_eq!(page.map(|document| document.key).collect::<BTreeSet<_>>(), mine);
            let count = client.count_documents(v1::CountDocumentsRequest::default());
            assert_eq!(count.await.unwrap().documents, mine.len() as u64);
            let fields = client.list_fields(v1::ListFieldsRequest::default()).await.unwrap();
            assert!(fields.fields.iter().all(|field| field.documents == mine.len() as u64));
            for key in all_keys() {
                let search = Some(request(Mode::Bm25, QUERY, 5));
                let explained = client
                    .explain(v1::ExplainRequest {
                        key: key.clone(),
                        search,
                    })
                    .await;
                let found = explained.map_or_else(|error| code(&error), |_| Code::Ok);
                assert_eq!(
                    found,
                    if mine.contains(&key) { Code::Ok } else { Code::NotFound },
                    "{key}"
                );
            }
            over_http(&server.http, &key, &mine).await;
        }
    }
}

/// The same over HTTP.
async fn over_http(http: &crate::http_client::Http, key: &str, mine: &BTreeSet<String>) {
    let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    let post = async |path: &str, body: serde_json::Value| -> Reply {
        let reply = http.send("POST", path, &headers, &body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.json);
        reply
    };
    let search = json!({"query": QUERY, "mode": "MODE_HYBRID", "k": 60});
    assert_eq!(&keys_in(&post("/v1/search", search.clone()).await.json["hits"]), mine);
    let batch = post("/v1/search/batch", json!({"requests": [search]})).await;
    assert_eq!(&keys_in(&batch.json["responses"][0]["hits"]), mine);
    let got = post("/v1/documents", json!({"keys": all_keys()})).await;
    assert_eq!(&keys_in(&got.json["documents"]), mine);
    assert_eq!(
        post("/v1/documents/sample", json!({"count": 60})).await.json["of"],
        mine.len()
    );
    for key in all_keys() {
        let body = json!({"key": key, "search": {"query": QUERY, "mode": "MODE_BM25", "k": 5}});
        let status = http
            .send("POST", "/v1/explain", &headers, &body.to_string())
            .await
            .status;
        assert_eq!(status, if mine.contains(&key) { 200 } else { 404 }, "{key}");
    }
}

#[tokio::test]
async fn requests_name_tenants_exactly_or_are_refused() {
    let server = guarded().await;
    let key = server.key(Role::Read, &[], None).await;
    let client = server.searcher(&key).await;
    let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    let over_http = async |value: String| {
        let filter = format!(r#"{{"equals": {{"field": "tenant", "value": {value}}}}}"#);
        let body = format!(r#"{{"query": "{QUERY}", "mode": "MODE_DENSE", "k": 60, "filter": {filter}}}"#);
        server.http.send("POST", "/v1/search", &headers, &body).await
    };
    for id in TENANTS {
        let filter = Some(equals("tenant", Value::Integer(id.into())));
        let asked = v1::SearchRequest {
            filter,
            ..request(Mode::Dense, QUERY, 60)
        };
        assert_eq!(
            keys_of(&client.search(asked).await.unwrap().hits),
            of_tenant(id),
            "{id}"
        );
        let reply = over_http(format!(r#"{{"integer": "{id}"}}"#)).await;
        assert_eq!(
            (reply.status, keys_in(&reply.json["hits"])),
            (200, of_tenant(id)),
            "{id}"
        );
        // As JavaScript and others send it: rounded on the way, or here.
        let nearest = id.parse::<f64>().unwrap();
        for number in [id.to_owned(), format!("{nearest:.0}"), format!("{nearest:e}")] {
            let reply = over_http(format!(r#"{{"number": {number}}}"#)).await;
            if reply.status == 200 {
                let expected = of_tenant(&format!("{nearest:.0}"));
                assert_eq!(keys_in(&reply.json["hits"]), expected, "{id} as {number}");
                assert!(
                    nearest.abs() < FIRST_AMBIGUOUS || nearest.abs() > 1.8e19,
                    "{id} as {number}"
                );
            } else {
                let said = reply.json["error"]["message"].as_str().unwrap().to_owned();
                assert!(reply.status == 400 && said.contains("integer"), "{said}");
            }
        }
        let reply = over_http(format!(r#"{{"integer": {id}}}"#)).await;
        assert_eq!(reply.status, 400, "only as text: {}", reply.json);
    }
    let by = Some(v1::GroupBy {
        field: "tenant".into(),
        hits: 60,
    });
    let asked = v1::SearchRequest {
        group_by: by,
        ..request(Mode::Dense, QUERY, 60)
    };
    let reply = client.search(asked).await.unwrap();
    assert_eq!(reply.hits.len(), TENANTS.len());
    for best in &reply.hits {
        let group = best.group.as_ref().unwrap();
        let members: BTreeSet<String> = keys_of(&group.hits).into_iter().chain([best.key.clone()]).collect();
        assert_eq!(members, of_tenant(tenant(&best.key)));
        let value = match group.value.as_ref().and_then(|value| value.value.clone()) {
            Some(Value::Integer(digits)) => digits,
            Some(Value::Number(number)) => format!("{number:.0}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(value, tenant(&best.key));
    }
}

#[tokio::test]
async fn a_document_is_found_by_its_own_value() {
    let server = guarded().await;
    let key = server.key(Role::Read, &[], None).await;
    let client = server.searcher(&key).await;
    let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    let got = server
        .http
        .send(
            "POST",
            "/v1/documents",
            &headers,
            &json!({"keys": all_keys()}).to_string(),
        )
        .await;
    assert_eq!(got.json["documents"].as_array().unwrap().len(), DOCUMENTS);
    for key in all_keys() {
        let metadata = metadata(&key);
        let value = metadata
            .split_once("\"value\":")
            .unwrap()
            .1
            .trim_end_matches('}')
            .to_owned();
        let number: f64 = value.parse().unwrap();
        let exact = if (FIRST_AMBIGUOUS..1.85e19).contains(&number.abs()) {
            Value::Integer(format!("{number:.0}"))
        } else {
            Value::Number(number)
        };
        let json = match &exact {
            Value::Integer(digits) => format!(r#"{{"integer": "{digits}"}}"#),
            _ => format!(r#"{{"number": {value}}}"#),
        };
        let filter = Some(equals("value", exact));
        let asked = v1::SearchRequest {
            filter,
            ..request(Mode::Dense, QUERY, 60)
        };
        assert_eq!(
            keys_of(&client.search(asked).await.unwrap().hits),
            BTreeSet::from([key.clone()]),
            "{value}"
        );
        let filter = format!(r#"{{"equals": {{"field": "value", "value": {json}}}}}"#);
        let body = format!(r#"{{"query": "{QUERY}", "mode": "MODE_DENSE", "k": 60, "filter": {filter}}}"#);
        let reply = server.http.send("POST", "/v1/search", &headers, &body).await;
        assert_eq!(
            (reply.status, keys_in(&reply.json["hits"])),
            (200, BTreeSet::from([key])),
            "{value}"
        );
    }
}

#[tokio::test]
async fn what_one_key_has_asked_is_not_told_to_another() {
    let server = guarded().await;
    let thing = || equals("thing", Value::Text("planet".into()));
    let language = || equals("lang", Value::Text("en".into()));
    let both = || {
        let filters = vec![thing(), language()];
        v1::Filter {
            condition: Some(Condition::All(v1::FilterList { filters })),
        }
    };
    let cached = async |key: &str, filter: v1::Filter| {
        let asked = v1::SearchRequest {
            filter: Some(filter),
            ..request(Mode::Dense, QUERY, 3)
        };
        server
            .searcher(key)
            .await
            .search(asked)
            .await
            .unwrap()
            .filter
            .unwrap()
            .cached
    };
    let tenant = server.key(Role::Read, &[], Some(thing())).await;
    let [first, second] = [
        server.key(Role::Read, &[], None).await,
        server.key(Role::Read, &[], None).await,
    ];
    assert!(!cached(&tenant, language()).await && cached(&tenant, language()).await);
    // The same filter in the end.
    assert!(!cached(&first, both()).await && cached(&first, both()).await);
    assert!(!cached(&second, both()).await && !cached(&second, language()).await);
}
