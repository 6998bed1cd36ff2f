//! An index read back: pages of documents, counts and fields, compared with a list in memory, after documents were
//! deleted and given other metadata.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use dyad_corpus::ReadOptions;
use dyad_indexer::change::{MetadataConfig, delete, update_metadata};
use dyad_indexer::control::JobControl;
use dyad_proto::client::SearcherClient;
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value as FilterValue;
use serde_json::{Value, json};

use crate::fields::metadata;
use crate::fixture::{Searcher, US, documents, embed, searcher, write_index_of};
use crate::guarded::equals;
use crate::http::over;

const DELETED: [&str; 5] = ["doc-00", "doc-17", "doc-18", "doc-40", "doc-59"];

/// Metadata that every fifth document is given later: values of several types, in arrays and objects, and fields that
/// are called as others.
fn changed_metadata(number: usize) -> Option<Value> {
    let many = json!({
        "year": 1900 + number,
        "mixed": ["a", 1, true, null, "b"],
        "title": "own", "key": number, "metadata": {"text": false}, "text": "other",
        "authors": [{"name": "A", "born": 1815}, {"name": null}],
        "empty": {}, "none": null, "a": 1, "a.b": 2, "large": 1_234_567_890_123_456_789_u64,
    });
    (number.is_multiple_of(5)).then(|| match number % 3 {
        0 => many,
        1 => json!({"year": "unknown", "ok": number.is_multiple_of(2)}),
        _ => json!({}),
    })
}

/// Text and metadata of every document after the changes, by key.
pub(crate) type Expected = BTreeMap<String, (String, Value)>;

/// A searcher over two shards, whose documents were deleted and given other metadata since.
pub(crate) async fn changed() -> (Searcher, Expected) {
    let server = searcher().await;
    let keys: Vec<String> = DELETED.map(String::from).into();
    let mut lines = String::new();
    let mut expected = Expected::new();
    for (number, (key, text)) in documents().into_iter().enumerate() {
        let own: Value = serde_json::from_str(&metadata(&key)).unwrap();
        let given = changed_metadata(number);
        if let Some(given) = &given {
            writeln!(lines, "{}", json!({"key": key, "metadata": given})).unwrap();
        }
        if !keys.contains(&key) {
            expected.insert(key, (text, given.unwrap_or(own)));
        }
    }
    update(server.index.path(), &lines);
    delete(server.index.path(), &keys, false, JobControl::silent()).unwrap();
    server.engine.reload("").await.unwrap();
    (server, expected)
}

pub(crate) fn update(index: &Path, lines: &str) {
    let file = tempfile::NamedTempFile::with_suffix(".jsonl").unwrap();
    fs_err::write(file.path(), lines).unwrap();
    let config = MetadataConfig {
        corpus: file.path().to_owned(),
        read: ReadOptions::default(),
        index: index.to_owned(),
        dry_run: false,
    };
    update_metadata(&config, JobControl::silent()).unwrap();
}

/// All documents, page by page; no page has more than was asked for, and the last alone may have none.
pub(crate) async fn scrolled(
    client: &SearcherClient,
    request: v1::ScrollDocumentsRequest,
) -> Vec<v1::ScrolledDocument> {
    let (mut request, mut all) = (request, Vec::new());
    loop {
        let page = client.scroll_documents(request.clone()).await.unwrap();
        assert!(page.documents.len() <= request.page_size as usize);
        let last = page.documents.last().and_then(|one| one.document.as_ref());
        assert_eq!(
            page.next_after_key,
            last.map_or(&request.after_key, |document| &document.key).as_str()
        );
        assert!(!page.has_more || page.documents.len() == request.page_size as usize);
        all.extend(page.documents);
        if !page.has_more {
            return all;
        }
        request.after_key = page.next_after_key;
    }
}

pub(crate) fn page_of(page_size: u32, filter: Option<v1::Filter>) -> v1::ScrollDocumentsRequest {
    v1::ScrollDocumentsRequest {
        page_size,
        filter,
        ..Default::default()
    }
}

pub(crate) fn keys(documents: &[v1::ScrolledDocument]) -> Vec<&str> {
    let keys = documents.iter().map(|one| one.document.as_ref().unwrap().key.as_str());
    keys.collect()
}

pub(crate) fn condition(condition: Condition) -> v1::Filter {
    v1::Filter {
        condition: Some(condition),
    }
}

/// Whether a document passes a filter, by its key and its metadata.
type Passes = fn(&str, &Value) -> bool;

/// Filters, and the same in memory.
fn filters() -> Vec<(v1::Filter, Passes)> {
    let number = |value| {
        Some(v1::FilterValue {
            value: Some(FilterValue::Number(value)),
        })
    };
    let range = Condition::Range(v1::FieldRange {
        field: "place.number".into(),
        min: number(10.0),
        below: number(40.0),
        ..Default::default()
    });
    let year = condition(Condition::Exists(v1::FieldExists { field: "year".into() }));
    let prefix = Condition::Prefix(v1::FieldPrefix {
        field: "key".into(),
        prefix: "doc-3".into(),
    });
    vec![
        (equals("thing", "metal"), |_, metadata| metadata["thing"] == "metal"),
        (condition(range), |_, metadata| {
            metadata["place"]["number"]
                .as_u64()
                .is_some_and(|number| (10..40).contains(&number))
        }),
        (condition(Condition::Not(Box::new(year))), |_, metadata| {
            metadata["year"].is_null()
        }),
        (condition(prefix), |key, _| key.starts_with("doc-3")),
        (equals("thing", "none"), |_, _| false),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_every_size_are_the_documents_in_the_order_of_their_keys() {
    let (server, expected) = changed().await;
    let wanted: Vec<&str> = expected.keys().map(String::as_str).collect();
    for size in 1..=expected.len() as u32 + 1 {
        assert_eq!(
            keys(&scrolled(&server.client, page_of(size, None)).await),
            wanted,
            "{size}"
        );
    }
    for (filter, passes) in filters() {
        let wanted: Vec<&str> = expected
            .iter()
            .filter(|(key, (_, metadata))| passes(key, metadata))
            .map(|(key, _)| key.as_str())
            .collect();
        for size in [1, 2, 7, 60] {
            let found = scrolled(&server.client, page_of(size, Some(filter.clone()))).await;
            assert_eq!(keys(&found), wanted, "{filter:?}");
        }
        let request = v1::CountDocumentsRequest {
            filter: Some(filter.clone()),
            ..Default::default()
        };
        let count = server.client.count_documents(request).await.unwrap();
        assert_eq!(
            (count.documents, count.generation),
            (wanted.len() as u64, 3),
            "{filter:?}"
        );
    }
    let count = server.client.count_documents(v1::CountDocumentsRequest::default());
    assert_eq!(count.await.unwrap().documents, expected.len() as u64);
    // Any text is a place among the keys.
    for (after, first) in [
        ("doc-3", "doc-30"),
        ("doc-40", "doc-41"),
        ("doc-4x", "doc-50"),
        ("", "doc-01"),
    ] {
        let request = v1::ScrollDocumentsRequest {
            after_key: after.into(),
            ..page_of(1, None)
        };
        assert_eq!(
            keys(&server.client.scroll_documents(request).await.unwrap().documents),
            [first]
        );
    }
    let past = v1::ScrollDocumentsRequest {
        after_key: "e".into(),
        ..v1::ScrollDocumentsRequest::default()
    };
    let page = server.client.scroll_documents(past).await.unwrap();
    assert!(page.documents.is_empty() && !page.has_more && page.next_after_key == "e");
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_show_what_is_stored_and_the_vectors_where_they_are_asked_for() {
    let (server, expected) = changed().await;
    let whole = v1::ScrollDocumentsRequest {
        with_vectors: true,
        ..page_of(20, None)
    };
    for one in scrolled(&server.client, whole.clone()).await {
        let (document, vector) = (one.document.unwrap(), one.vector.unwrap());
        let (text, metadata) = &expected[&document.key];
        assert_eq!((&document.text, document.title.as_str()), (text, "Title"));
        assert_eq!(
            &serde_json::from_str::<Value>(&document.metadata_json).unwrap_or(json!({})),
            metadata
        );
        assert_eq!(vector.values, embed(text));
        assert_eq!(vector.precision(), v1::VectorPrecision::F32);
    }
    let page = server.client.scroll_documents(whole).await.unwrap();
    assert_eq!((page.generation, page.fingerprint.as_str()), (3, "f00d"));
    let some = v1::ScrollDocumentsRequest {
        fields: vec!["title".into(), "place.number".into()],
        ..page_of(100, None)
    };
    for one in scrolled(&server.client, some).await {
        let document = one.document.unwrap();
        let number = &expected[&document.key].1["place"]["number"];
        let shown = serde_json::from_str(&document.metadata_json).unwrap_or(Value::Null);
        assert_eq!((document.text.as_str(), &shown["place"]["number"]), ("", number));
        assert!(one.vector.is_none() && one.place.is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scroll_goes_on_while_the_index_changes() {
    let server = searcher().await;
    let (mut request, mut found, mut generations) = (page_of(7, None), Vec::new(), Vec::new());
    loop {
        let page = server.client.scroll_documents(request.clone()).await.unwrap();
        found.extend(keys(&page.documents).into_iter().map(str::to_owned));
        generations.push(page.generation);
        if !page.has_more {
            break;
        }
        request.after_key = page.next_after_key;
        if generations.len() == 3 {
            // The last one that was read goes, one behind and one ahead; and all others change their shards and nodes.
            let gone = ["doc-03", "doc-20", "doc-30"];
            let mut changed: Vec<_> = documents()
                .into_iter()
                .filter(|(key, _)| !gone.contains(&key.as_str()))
                .collect();
            changed.insert(0, ("doc-41#0".to_owned(), "new".to_owned()));
            changed.reverse();
            write_index_of(&changed, server.index.path(), 2, "f00d");
            server.engine.reload("").await.unwrap();
        }
    }
    let mut wanted: Vec<String> = documents().into_iter().map(|(key, _)| key).collect();
    wanted.retain(|key| key != "doc-30");
    wanted.push("doc-41#0".to_owned());
    wanted.sort_unstable();
    assert_eq!((found, &generations[..4]), (wanted, &[1, 1, 1, 2][..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_ends_where_its_bytes_do() {
    let server = searcher().await;
    let large = |number: usize| json!({"key": documents()[number].0, "metadata": {"x": "x".repeat(900_000)}});
    let lines: Vec<String> = (0..12).map(|number| large(number).to_string()).collect();
    update(server.index.path(), &lines.join("\n"));
    server.engine.reload("").await.unwrap();
    let first = server.client.scroll_documents(page_of(20, None)).await.unwrap();
    assert_eq!(
        (first.documents.len(), first.has_more, first.next_after_key.as_str()),
        (9, true, "doc-08")
    );
    let next = v1::ScrollDocumentsRequest {
        after_key: first.next_after_key,
        ..page_of(20, None)
    };
    let next = server.client.scroll_documents(next).await.unwrap();
    assert_eq!((next.documents.len(), next.has_more), (20, true));
    // A call whose time is up before it begins.
    let late = server.engine.scroll(page_of(1, None), &US, Some(Duration::ZERO)).await;
    assert!(
        matches!(
            late,
            Err(dyad_searcher::Error::Deadline(_) | dyad_searcher::Error::Busy { .. })
        ),
        "{late:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_is_read_as_json() {
    let (server, expected) = changed().await;
    let http = over(&server).await;
    let page = http
        .post(
            "/v1/scroll",
            &json!({"page_size": 2, "after_key": "doc-09", "with_vectors": true, "filter": {"year": {">": 1900}}}),
        )
        .await
        .json;
    let shown: Vec<(&Value, &Value)> = page["documents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (&one["document"]["key"], &one["document"]["metadata"]))
        .collect();
    let wanted = |key: &str| expected[key].1.clone();
    assert_eq!(
        shown,
        [
            (&json!("doc-15"), &wanted("doc-15")),
            (&json!("doc-30"), &wanted("doc-30"))
        ]
    );
    assert_eq!(
        (&page["next_after_key"], &page["has_more"], &page["generation"]),
        (&json!("doc-30"), &json!(true), &json!(3))
    );
    let vector = &page["documents"][0]["vector"];
    assert_eq!(
        (vector["values"].as_array().unwrap().len(), &vector["precision"]),
        (24, &json!("VECTOR_PRECISION_F32"))
    );
    let all = http.post("/v1/scroll", &json!({})).await.json;
    assert_eq!(all["documents"].as_array().unwrap().len(), 55);
    let count = http.post("/v1/count", &json!({"filter": "thing=metal"})).await.json;
    let metals = expected
        .values()
        .filter(|(_, metadata)| metadata["thing"] == "metal")
        .count();
    assert_eq!(count, json!({"documents": metals, "generation": 3}));
    let index = server.engine.index("", &US).unwrap().name().to_owned();
    for path in ["/v1/fields".to_owned(), format!("/v1/fields?index={index}")] {
        let listed = http.send("GET", &path, "", "").await.json;
        let year = listed["fields"]
            .as_array()
            .unwrap()
            .iter()
            .find(|field| field["name"] == "year");
        assert_eq!(
            year.unwrap(),
            &json!({"name": "year", "documents": 6, "types": {"texts": 3, "numbers": 3}})
        );
        assert_eq!(listed["documents"], 55);
    }
    for (path, body, wanted) in [
        (
            "/v1/scroll",
            json!({"page_size": 1001}),
            "`page_size`: expected 1 to 1000, got 1001",
        ),
        ("/v1/scroll", json!({"filter": {"any": {"filters": []}}}), "`filter"),
        ("/v1/count", json!({"index": "a/b"}), "`index`"),
    ] {
        let reply = http.post(path, &body).await;
        let said = reply.json["error"]["message"].as_str().unwrap().to_owned();
        assert!(reply.status == 400 && said.contains(wanted), "{said}");
    }
    assert_eq!(http.send("GET", "/v1/fields?index=none", "", "").await.status, 404);
    assert_eq!(http.send("GET", "/v1/fields?name=none", "", "").await.status, 400);
    let described = http.send("GET", "/v1/openapi.json", "", "").await.json;
    for (path, method) in [("/v1/scroll", "post"), ("/v1/count", "post"), ("/v1/fields", "get")] {
        assert!(described["paths"][path][method]["summary"].is_string(), "{path}");
    }
}
