//! An index read back: pages of documents, counts and fields, compared with a list in memory, after documents were
//! deleted and given other metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use dyad_corpus::ReadOptions;
use dyad_index::lexical::DocumentFilter;
use dyad_index::{Never, Snapshot};
use dyad_indexer::change::{MetadataConfig, delete, update_metadata};
use dyad_indexer::control::JobControl;
use dyad_proto::access::Role;
use dyad_proto::client::SearcherClient;
use dyad_proto::v1;
use dyad_proto::v1::filter::Condition;
use dyad_proto::v1::filter_value::Value as FilterValue;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fields::metadata;
use crate::fixture::{Searcher, US, documents, embed, searcher, write_index_of};
use crate::guarded::{equals, guarded};
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
type Expected = BTreeMap<String, (String, Value)>;

/// A searcher over two shards, whose documents were deleted and given other metadata since.
async fn changed() -> (Searcher, Expected) {
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

fn update(index: &Path, lines: &str) {
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
async fn scrolled(client: &SearcherClient, request: v1::ScrollDocumentsRequest) -> Vec<v1::ScrolledDocument> {
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

fn page_of(page_size: u32, filter: Option<v1::Filter>) -> v1::ScrollDocumentsRequest {
    v1::ScrollDocumentsRequest {
        page_size,
        filter,
        ..Default::default()
    }
}

fn keys(documents: &[v1::ScrolledDocument]) -> Vec<&str> {
    let keys = documents.iter().map(|one| one.document.as_ref().unwrap().key.as_str());
    keys.collect()
}

fn condition(condition: Condition) -> v1::Filter {
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

/// Names of the fields of a document's metadata and the types of their values, as the contract has them.
fn fields_of(metadata: &Value) -> BTreeSet<(String, &'static str)> {
    fn add(at: &str, value: &Value, found: &mut BTreeSet<(String, &'static str)>) {
        let inside = |name: &String| {
            if at.is_empty() {
                name.clone()
            } else {
                format!("{at}.{name}")
            }
        };
        match value {
            Value::Object(members) => members
                .iter()
                .for_each(|(name, value)| add(&inside(name), value, found)),
            Value::Array(values) => values.iter().for_each(|value| add(at, value, found)),
            Value::String(_) => _ = found.insert((at.to_owned(), "texts")),
            Value::Number(_) => _ = found.insert((at.to_owned(), "numbers")),
            Value::Bool(_) => _ = found.insert((at.to_owned(), "flags")),
            Value::Null => {}
        }
    }
    let mut found = BTreeSet::new();
    add("", metadata, &mut found);
    found
}

/// The fields of some documents as a reply lists them.
fn listed<'a>(documents: impl Iterator<Item = &'a Value> + Clone) -> Vec<v1::FieldInfo> {
    let mut counts: BTreeMap<String, (BTreeSet<usize>, v1::FieldTypes)> = BTreeMap::new();
    for (number, metadata) in documents.clone().enumerate() {
        for (name, kind) in fields_of(metadata) {
            let (of_field, types) = counts.entry(name).or_default();
            of_field.insert(number);
            let of_kind = match kind {
                "texts" => &mut types.texts,
                "numbers" => &mut types.numbers,
                _ => &mut types.flags,
            };
            *of_kind = Some(of_kind.unwrap_or_default() + 1);
        }
    }
    let name_of = |name: String| {
        let is_other = ["key", "title", "text"].contains(&name.as_str()) || name.starts_with("metadata.");
        if is_other { format!("metadata.{name}") } else { name }
    };
    let info = |(name, (of_field, types)): (String, (BTreeSet<usize>, v1::FieldTypes))| v1::FieldInfo {
        name: name_of(name),
        documents: of_field.len() as u64,
        types: Some(types),
    };
    let mut all: Vec<v1::FieldInfo> = counts.into_iter().map(info).collect();
    let titles = documents.count() as u64;
    let types = v1::FieldTypes {
        texts: Some(titles),
        ..Default::default()
    };
    all.push(v1::FieldInfo {
        name: "title".into(),
        documents: titles,
        types: Some(types),
    });
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_are_those_of_the_documents_that_are_there() {
    let (server, expected) = changed().await;
    let reply = server
        .client
        .list_fields(v1::ListFieldsRequest::default())
        .await
        .unwrap();
    assert_eq!(reply.fields, listed(expected.values().map(|(_, metadata)| metadata)));
    assert_eq!((reply.documents, reply.generation, reply.has_more), (55, 3, false));
    // Filters find by these names as many documents, but for fields that are objects as well.
    for field in reply.fields.iter().filter(|field| field.name != "a") {
        let exists = v1::CountDocumentsRequest {
            filter: Some(condition(Condition::Exists(v1::FieldExists {
                field: field.name.clone(),
            }))),
            ..Default::default()
        };
        let count = server.client.count_documents(exists).await.unwrap();
        assert_eq!(count.documents, field.documents, "{}", field.name);
    }
    // As many as are listed, in their order.
    let many: serde_json::Map<String, Value> = (0..1100).map(|at| (format!("f{at:04}"), json!(at))).collect();
    update(
        server.index.path(),
        &json!({"key": "doc-02", "metadata": many}).to_string(),
    );
    server.engine.reload("").await.unwrap();
    let reply = server
        .client
        .list_fields(v1::ListFieldsRequest::default())
        .await
        .unwrap();
    let mut all: Expected = expected;
    all.get_mut("doc-02").unwrap().1 = Value::Object(many);
    let wanted = listed(all.values().map(|(_, metadata)| metadata));
    assert_eq!((reply.fields.as_slice(), reply.has_more), (&wanted[..1000], true));
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

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_reads_back_its_own_documents_alone() {
    let server = guarded().await;
    let index = server.keys.with_file_name("all");
    // A planet, and documents of others, get fields of their own, and one that both have.
    let given = [("doc-02", "planets"), ("doc-03", "composers"), ("doc-04", "metals")];
    let lines = given.map(|(key, own)| {
        let thing = documents().iter().position(|(other, _)| other == key).unwrap();
        let thing = crate::fixture::THINGS[thing % crate::fixture::THINGS.len()];
        json!({"key": key, "metadata": {"thing": thing, (own): key, "shared": own}}).to_string()
    });
    update(&index, &lines.join("\n"));
    let admin = server.admin(&server.key(Role::Admin, &[], None).await).await;
    admin.reload(v1::ReloadRequest::default()).await.unwrap();
    let key = server.key(Role::Read, &["all"], Some(equals("thing", "planet"))).await;
    let client = server.searcher(&key).await;
    let mine: Vec<String> = (0..10).map(|number| format!("doc-{:02}", 6 * number + 2)).collect();
    let not_planets = condition(Condition::Not(Box::new(equals("thing", "planet"))));
    for size in [1, 3, 100] {
        assert_eq!(keys(&scrolled(&client, page_of(size, None)).await), mine);
        assert!(
            scrolled(&client, page_of(size, Some(not_planets.clone())))
                .await
                .is_empty()
        );
    }
    let place = client
        .scroll_documents(page_of(1, None))
        .await
        .unwrap()
        .documents
        .remove(0);
    let place = place.place.unwrap();
    assert_eq!((place.end - place.start) as usize, documents()[2].1.len());
    for (filter, wanted) in [
        (None, 10),
        (Some(not_planets), 0),
        (Some(equals("shared", "metals")), 0),
    ] {
        let request = v1::CountDocumentsRequest {
            filter,
            ..Default::default()
        };
        assert_eq!(client.count_documents(request).await.unwrap().documents, wanted);
    }
    let reply = client.list_fields(v1::ListFieldsRequest::default()).await.unwrap();
    let counts: BTreeMap<&str, u64> = reply
        .fields
        .iter()
        .map(|field| (field.name.as_str(), field.documents))
        .collect();
    let wanted = [
        ("lang", 9),
        ("place.hundred", 9),
        ("place.number", 9),
        ("planets", 1),
        ("shared", 1),
        ("tenant", 9),
        ("thing", 10),
        ("title", 10),
        ("value", 9),
    ];
    assert_eq!((counts, reply.documents), (BTreeMap::from(wanted), 10));
    // Over HTTP too, and no index but the key's.
    let headers = format!("Content-Type: application/json\r\nAuthorization: Bearer {key}\r\n");
    let page = server.http.send("POST", "/v1/scroll", &headers, "{}").await.json;
    assert_eq!(page["documents"].as_array().unwrap().len(), 10);
    let count = server.http.send("POST", "/v1/count", &headers, "{}").await.json;
    assert_eq!(count["documents"], 10);
    let fields = server.http.send("GET", "/v1/fields", &headers, "").await.json;
    assert_eq!(fields["fields"].as_array().unwrap().len(), wanted.len());
    for (method, path, body) in [
        ("POST", "/v1/scroll", r#"{"index": "others"}"#),
        ("POST", "/v1/count", r#"{"index": "others"}"#),
        ("GET", "/v1/fields?index=others", ""),
    ] {
        assert_eq!(
            server.http.send(method, path, &headers, body).await.status,
            404,
            "{path}"
        );
        let without = "Content-Type: application/json\r\n";
        assert_eq!(
            server.http.send(method, path, without, body).await.status,
            401,
            "{path}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Keys of any bytes in two shards, some of them deleted, through a filter or none.
    #[test]
    fn any_page_is_a_part_of_the_sorted_keys(
        names in proptest::collection::btree_set("[a-cé~\u{10000}]{1,3}", 4..24),
        deleted in proptest::collection::vec(any::<bool>(), 24),
        after in "[a-cé~#0]{0,3}",
        prefix in "[a-c]{0,1}",
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut all: Vec<String> = names.iter().map(|name| format!("{name}#0")).collect();
        all.reverse();
        let written: Vec<_> = all.iter().map(|key| (key.clone(), "text".to_owned())).collect();
        write_index_of(&written, dir.path(), 1, "f00d");
        // One of each shard stays.
        let gone: Vec<String> = all.iter().zip(&deleted).skip(2).filter(|(_, gone)| **gone).map(|(key, _)| key.clone()).collect();
        if !gone.is_empty() {
            delete(dir.path(), &gone, false, JobControl::silent()).unwrap();
        }
        let snapshot = Snapshot::open(dir.path()).unwrap();
        let by_prefix = DocumentFilter::Prefix { field: "key".into(), prefix: prefix.clone() };
        let allowed = snapshot.allowed(&by_prefix, &Never).unwrap().unwrap();
        for (allowed, prefix) in [(None, ""), (Some(&*allowed), prefix.as_str())] {
            let mut wanted: Vec<&str> = all.iter().filter(|key| !gone.contains(key)).map(String::as_str).collect();
            wanted.retain(|key| *key > after.as_str() && key.starts_with(prefix));
            wanted.sort_unstable();
            for most in 0..=wanted.len() + 1 {
                let page = snapshot.in_key_order(&after, most, allowed, &Never).unwrap().unwrap();
                let found: Vec<&str> = page.documents.iter().map(|one| one.key).collect();
                prop_assert_eq!(&found[..], &wanted[..most.min(wanted.len())]);
                prop_assert_eq!(page.has_more, most < wanted.len());
                prop_assert!(page.documents.iter().all(|one| snapshot.find(one.key).unwrap() == Some((one.shard, one.node))));
            }
        }
        let cancelled = || true;
        prop_assert!(snapshot.in_key_order("", 1, None, &cancelled).unwrap().is_none());
        prop_assert!(snapshot.fields(1, None, &cancelled).unwrap().is_none());
    }
}
